"""The first candidate is made ten times longer."""

import torch

import regard


def saturation() -> dict[str, list[float]]:
    """The weights become one-hot and stop listening: their slope all but vanishes. Length, not meaning, has won.

    The candidate is key and value at once, so that the read is ten times longer as well: the hull itself has moved.
    """
    query = torch.tensor([[1.0, 0.0]])
    memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]])
    longer = memory * torch.tensor([[10.0], [1.0], [1.0], [1.0]])
    found: dict[str, list[float]] = {}
    for name, each in (("before", memory), ("after", longer)):
        weights = regard.weights(query, each, score="dot")[0]
        slope = torch.diag(weights) - torch.outer(weights, weights)  # how the weights follow the scores
        found[f"weights {name}"] = weights.tolist()
        found[f"read {name}"] = regard.attend(query, each, each, score="dot")[0].tolist()
        found[f"slope of the weights {name}"] = [slope.norm().item()]
    return found
