"""exp in float16, less the row's maximum or not."""

import torch

import regard


def half_overflow() -> dict[str, list[float]]:
    """float16 overflows above a score of 11.09 (float32: 88.7) and gives 0/0 below −17.3. Less the maximum, neither.

    It is the size of a score that overflows, not the length of the sequence.
    """
    found: dict[str, list[float]] = {}
    for name, row in (("large", [12.0, 11.0, 0.0]), ("small", [-20.0, -21.0, -32.0])):
        scores = torch.tensor(row, dtype=torch.float16)
        naive = scores.exp() / scores.exp().sum()
        shifted = (scores - scores.max()).exp() / (scores - scores.max()).exp().sum()
        found[f"{name} scores"] = row
        found[f"{name}: exp / sum"] = naive.tolist()
        found[f"{name}: less the maximum"] = shifted.tolist()
        found[f"{name}: regard"] = regard.normalize.Softmax()(scores).tolist()
    return found
