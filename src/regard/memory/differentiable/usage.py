"""How places are found free: what is used, what reading freed, and where a write may go.

All of it is "Dynamic memory allocation" in the Methods of Graves et al. 2016.
"""

from __future__ import annotations

import torch
from torch import Tensor


def retention(free: Tensor, read: Tensor) -> Tensor:
    """ψ = Π_i (1 − f^i w^{r,i}_{t−1}): how much of each place the R reads of the step before leave in use.

    Free gates (B, R) and read weightings (B, R, N) give (B, N).

    >>> retention(torch.tensor([[1.0, 0.5]]), torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]))
    tensor([[0.0000, 0.5000, 1.0000]])
    """
    return (1 - free.unsqueeze(-1) * read).prod(-2)


def used(usage: Tensor, write: Tensor, retained: Tensor) -> Tensor:
    """u_t = (u_{t−1} + w^w_{t−1} − u_{t−1} ∘ w^w_{t−1}) ∘ ψ_t, (B, N): in [0, 1] when all three are.

    >>> used(torch.tensor([[0.0, 1.0, 1.0]]), torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[1.0, 1.0, 0.25]]))
    tensor([[0.5000, 1.0000, 0.2500]])
    """
    return (usage + write - usage * write) * retained


def allocation(usage: Tensor) -> Tensor:
    """a[φ_j] = (1 − u[φ_j]) Π_{i<j} u[φ_i], φ the free list: places by rising usage, the first among equals first.

    Usage (B, N) gives (B, N) with Σ a = 1 − Π u: nothing can be allocated where all is used. Gradients pass to the
    usage as it is sorted; that the order changes is ignored, as in the paper.

    >>> allocation(torch.tensor([[1.0, 0.25, 0.5]]))
    tensor([[0.0000, 0.7500, 0.1250]])
    """
    rising, order = torch.sort(usage, dim=-1, stable=True)
    before = torch.cat([torch.ones_like(rising[..., :1]), rising[..., :-1]], -1).cumprod(-1)
    return torch.zeros_like(usage).scatter(-1, order, (1 - rising) * before)
