"""What was written after what: the temporal link matrix, and the two ways to follow it.

All of it is "Temporal memory linkage" in the Methods of Graves et al. 2016.
"""

from __future__ import annotations

import torch
from torch import Tensor


def linked(link: Tensor, write: Tensor, precedence: Tensor) -> Tensor:
    """L_t[i, j] = (1 − w[i] − w[j]) L_{t−1}[i, j] + w[i] p_{t−1}[j], L[i, i] = 0: j was written, and i after it.

    Links (B, N, N), the write weighting w (B, N), and the precedence before it (B, N). Every row and every column
    sums to at most 1.

    >>> one, two = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> linked(torch.zeros(1, 2, 2), two, one)  # the second place, written after the first
    tensor([[[0., 0.],
             [1., 0.]]])
    """
    i, j = write.unsqueeze(-1), write.unsqueeze(-2)
    kept = (1 - i - j) * link + i * precedence.unsqueeze(-2)
    return kept * (1 - torch.eye(write.shape[-1], dtype=write.dtype, device=write.device))


def preceding(precedence: Tensor, write: Tensor) -> Tensor:
    """p_t = (1 − Σ_i w[i]) p_{t−1} + w, (B, N): how much each place was the last one written; Σ p ≤ 1.

    >>> preceding(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.75, 0.0]]))
    tensor([[0.2500, 0.7500, 0.0000]])
    """
    return (1 - write.sum(-1, keepdim=True)) * precedence + write


def forward(link: Tensor, read: Tensor) -> Tensor:
    """f^i = L w^{r,i}_{t−1}: from where each head read (B, R, N) to what was written next, (B, R, N)."""
    return read @ link.transpose(-2, -1)


def backward(link: Tensor, read: Tensor) -> Tensor:
    """b^i = Lᵀ w^{r,i}_{t−1}: from where each head read (B, R, N) to what was written just before, (B, R, N)."""
    return read @ link
