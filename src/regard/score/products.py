"""Scores that are a dot product in disguise, which a fused kernel can run: dot, cosine, distance, bilinear."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.grid import Grid
from regard.numerics import wide
from regard.score.base import DotForm, Score, check_projected


class Dot(Score):
    """s = q·k. Widths Dq = Dk.

    >>> import torch
    >>> Dot()(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[11.,  2.]])
    """

    def scale(self, width: int) -> float:
        return 1.0

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        # The query is scaled before the product: in half precision the unscaled product may already be inf.
        return (q * self.scale(q.shape[-1])) @ k.transpose(-2, -1)

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        return DotForm(q, k, self.scale(q.shape[-1]))


class ScaledDot(Dot):
    """s = q·k / √D, so that unit-variance queries and keys give unit-variance scores (Vaswani et al. 2017, eq. 1).

    >>> import torch
    >>> ScaledDot()(torch.ones(1, 4), torch.ones(1, 4))
    tensor([[2.]])
    """

    def scale(self, width: int) -> float:
        return 1.0 / math.sqrt(width)


class Cosine(Score):
    """s = β · q·k / (‖q‖‖k‖), in [−β, β]; a zero vector scores 0 against everything.

    >>> import torch
    >>> Cosine(beta=10.0)(torch.tensor([[2.0, 0.0]]), torch.tensor([[5.0, 0.0], [0.0, 0.0]]))
    tensor([[10.,  0.]])
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = beta

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        return _unit(q)

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        return _unit(k)

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return self.beta * (q @ k.transpose(-2, -1))

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        return DotForm(q, k, self.beta)


class Euclidean(Score):
    """s = −‖q − k‖², the negative squared distance.

    The softmax of it is that of ``2 q·k − ‖k‖²``: a dot product with one more column, which is how a fused kernel
    runs it.

    >>> import torch
    >>> Euclidean()(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 1.0], [4.0, 5.0]]))
    tensor([[ -0., -25.]])
    """

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return -(q.unsqueeze(-2) - k.unsqueeze(-3)).square().sum(-1)

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        q, k = wide(q), wide(k)  # ‖k‖² is out of reach of half precision
        # Distances do not move when both sides do, and the terms below cancel best near the origin. The median is a
        # place among the keys that a few masked slots full of rubbish cannot move.
        middle = (
            k.detach().nanmedian(-2, keepdim=True).values if k.shape[-2] else k.new_zeros(*k.shape[:-2], 1, k.shape[-1])
        )
        k = k - middle
        if q.shape[-3:-2] != middle.shape[-3:-2]:
            middle = middle.repeat_interleave(q.shape[-3] // middle.shape[-3], dim=-3)
        q = q - middle
        augmented_q = torch.cat([2.0 * q, -torch.ones_like(q[..., :1])], dim=-1)
        augmented_k = torch.cat([k, k.square().sum(-1, keepdim=True)], dim=-1)
        return DotForm(augmented_q, augmented_k, 1.0, row=-q.square().sum(-1, keepdim=True))


class General(Score):
    """s = qᵀ W k, with W (Dq, Dk), or (H, Dq, Dk) when ``heads`` is given (Luong et al. 2015, eq. 8, "general").

    >>> import torch
    >>> General(3, 5)(torch.ones(1, 2, 3), torch.ones(1, 7, 5)).shape
    torch.Size([1, 2, 7])
    """

    def __init__(self, query_width: int, key_width: int, heads: int | None = None) -> None:
        super().__init__()
        shape = (query_width, key_width) if heads is None else (heads, query_width, key_width)
        self.weight = nn.Parameter(torch.empty(shape).normal_(0.0, query_width**-0.5))

    def check_widths(self, query_width: int, key_width: int) -> None:
        check_projected(self, query_width, key_width, self.weight.shape[-2], self.weight.shape[-1])

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        return q @ self.weight.to(q.dtype)

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return q @ k.transpose(-2, -1)

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        return DotForm(q, k, 1.0)


def _unit(x: Tensor) -> Tensor:
    """x / ‖x‖, and 0 with zero gradient for a zero vector (an epsilon would bend every other vector)."""
    single = wide(x)  # the square of a half-precision vector easily overflows
    square = single.square().sum(-1, keepdim=True)
    zero = square == 0
    return (single * torch.where(zero, 1.0, square).rsqrt() * ~zero).to(x.dtype)
