"""Argmax for softmax, and the query nudged a little."""

import torch
from torch import Tensor

import regard

MEMORY = torch.tensor([[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]], dtype=torch.float64)


def argmax_gradient() -> dict[str, list[float]]:
    """Argmax does not move when the query does, so it tells a learner nothing; softmax moves, as autograd says it does.

    The slope is that of the read's first number. regard's Hardmax gives softmax's slope to backward on purpose, a
    stand-in for one that is zero (straight-through).
    """

    def read(query: Tensor, normalize: str) -> Tensor:
        return regard.attend(query, MEMORY, MEMORY, score="dot", normalize=normalize)[0, 0]

    found: dict[str, list[float]] = {}
    for normalize in ("hardmax", "softmax"):
        query = torch.tensor([[1.0, 0.0]], dtype=torch.float64, requires_grad=True)
        nudges = 1e-5 * torch.eye(2, dtype=torch.float64)
        sides = [(read(query.detach() + e, normalize) - read(query.detach() - e, normalize)) / 2e-5 for e in nudges]
        (stated,) = torch.autograd.grad(read(query, normalize), query)
        found[f"{normalize}: slope when nudged"] = [side.item() for side in sides]
        found[f"{normalize}: slope in backward"] = stated[0].tolist()
    return found
