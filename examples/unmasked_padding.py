"""Four candidates and some padding, masked and not."""

import torch

import regard


def unmasked_padding() -> dict[str, list[float]]:
    """A zero key scores 0, not −∞: unmasked padding takes its share, and more padding takes more. Masked, exactly 0.

    Zero values only shrink the read. After biases, norms and positions padding is not zero, and it says something too.
    """
    query = torch.tensor([[1.0, 0.0]])
    memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]])
    pads = [0, 4, 16, 64]
    found: dict[str, list[float]] = {
        "slots of padding": [float(n) for n in pads],
        "share unmasked": [],
        "share masked": [],
    }
    for n in pads:
        padded = torch.cat([memory, torch.zeros(n, 2)])
        for name, mask in (("unmasked", None), ("masked", regard.mask.padding([4]))):
            weights = regard.weights(query, padded, score="dot", mask=mask)
            found[f"share {name}"].append(weights[0, 4:].sum().item())
            read = regard.attend(query, padded, padded, score="dot", mask=mask)
            found.setdefault(f"read {name}, first number", []).append(read[0, 0].item())
    return found
