"""The selective scan in plain PyTorch: one step after the other, and in parallel, by an operation that is associative.

Both make the states of what they are given, (B, H, L, E, N), whole. They are the truth that the kernel is held to, and
what runs where it does not: on other devices, with discretisations of the user's own, for second derivatives.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.memory.space.discretization import Discretization

#: A step h ↦ a h + b.
Step: TypeAlias = tuple[Tensor, Tensor]


def combine(first: Step, second: Step) -> Step:
    """The step that does ``first`` and then ``second``: (a₂ a₁, a₂ b₁ + b₂). It is associative.

    >>> combine((torch.tensor(0.5), torch.tensor(1.0)), (torch.tensor(0.25), torch.tensor(3.0)))
    (tensor(0.1250), tensor(3.2500))
    """
    (a1, b1), (a2, b2) = first, second
    return a2 * a1, a2 * b1 + b2


def associative(a: Tensor, b: Tensor) -> Step:
    """All that was combined up to each step, along the first axis (L, …), in ⌈log₂ L⌉ rounds of whole tensors.

    With a state h before the first, the states are a h + b. Nothing is divided by a product, which may be 0.

    >>> a, b = torch.full((3,), 0.5), torch.ones(3)
    >>> associative(a, b)
    (tensor([0.5000, 0.2500, 0.1250]), tensor([1.0000, 1.5000, 1.7500]))
    """
    reach, L = 1, a.shape[0]
    while reach < L:
        # The identity (1, 0) stands before the first step.
        pad = (0, 0) * (a.dim() - 1) + (reach, 0)
        a, b = combine((F.pad(a[: L - reach], pad, value=1.0), F.pad(b[: L - reach], pad)), (a, b))
        reach *= 2
    return a, b


def steps(k: Tensor, v: Tensor, delta: Tensor, A: Tensor, discretization: Discretization) -> Step:
    """Ā and B̄ x, (L, B, H, E, N) each, of keys (B, H, L, N), values and Δ (B, H, L, E), A (H, E, N)."""
    k, v, delta = (x.movedim(2, 0) for x in (k, v, delta))
    decay, gain = discretization(delta.unsqueeze(-1), A)
    return decay, gain * k.unsqueeze(-2) * v.unsqueeze(-1)


def in_parallel(
    q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, h: Tensor, discretization: Discretization
) -> tuple[Tensor, Tensor]:
    """y (B, H, L, E) and the last state (B, H, E, N), by :func:`associative`."""
    if k.shape[2] == 0:
        return torch.zeros_like(v), h
    a, b = associative(*steps(k, v, delta, A, discretization))
    states = a * h + b
    return torch.einsum("bhln,lbhen->bhle", q, states), states[-1]


def one_by_one(
    q: Tensor, k: Tensor, v: Tensor, delta: Tensor, A: Tensor, h: Tensor, discretization: Discretization
) -> tuple[Tensor, Tensor]:
    """The same by the recurrence h_t = Ā_t h_{t−1} + B̄_t x_t, y_t = C_t h_t."""
    a, b = steps(k, v, delta, A, discretization)
    found = [torch.zeros_like(v[:, :, :0])]
    for t in range(k.shape[2]):
        h = a[t] * h + b[t]
        found.append((h @ q[:, :, t].unsqueeze(-1)).mT)
    return torch.cat(found, 2), h
