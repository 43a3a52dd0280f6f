"""From addresses to weightings, and what a write does to the rows ("Read weighting", "Write weighting", "Reading and
writing to memory" in the Methods of Graves et al. 2016)."""

from __future__ import annotations

from torch import Tensor


def write_weighting(content: Tensor, allocated: Tensor, allocate: Tensor, gate: Tensor) -> Tensor:
    """w^w = g^w [g^a a + (1 − g^a) c^w], (B, N): Σ w^w ≤ 1, and 0 where the write gate is shut.

    Content and allocation weightings (B, N), allocation gate and write gate (B,).

    >>> import torch
    >>> c, a = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> write_weighting(c, a, allocate=torch.tensor([0.75]), gate=torch.tensor([1.0]))
    tensor([[0.2500, 0.7500]])
    """
    to = allocate.unsqueeze(-1)
    return gate.unsqueeze(-1) * (to * allocated + (1 - to) * content)


def written(rows: Tensor, write: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """M_t = M_{t−1} ∘ (1 − w^w eᵀ) + w^w vᵀ: rows (B, N, W), weighting (B, N), erase and write vectors (B, W)."""
    w = write.unsqueeze(-1)
    return rows * (1 - w * erase.unsqueeze(-2)) + w * add.unsqueeze(-2)


def read_weighting(backward: Tensor, content: Tensor, forward: Tensor, modes: Tensor) -> Tensor:
    """w^{r,i} = π^i[1] b^i + π^i[2] c^i + π^i[3] f^i: each (B, R, N), modes (B, R, 3); Σ w^r ≤ 1."""
    b, c, f = modes.unsqueeze(-1).unbind(-2)
    return b * backward + c * content + f * forward
