"""Softmax, 1.5-entmax and sparsemax on the same scores."""

import torch

import regard


def sparse_zeros() -> dict[str, list[float]]:
    """Softmax leaves everybody something; the other two give exact zeros, and more of them the further one goes.

    A weight of exactly 0 has a gradient of exactly 0: what was dropped cannot call itself back.
    """
    query = torch.tensor([[1.0, 0.0]])
    memory = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]])
    found: dict[str, list[float]] = {}
    for normalize in ("softmax", "entmax15", "sparsemax"):
        weights = regard.weights(query, memory, score="dot", normalize=normalize)
        found[normalize] = weights[0].tolist()
    return found
