"""Scores and masks as a watched model had them: numbers that lie in a tensor already, seen part by part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.grid import Grid
from regard.mask import Mask
from regard.numerics import wide
from regard.score import Bias, Dot, Score

#: A number that was added to a score so that nobody looks there: −inf, a format's minimum, −1e9, −1e4 in any format.
HIDDEN = -5e3


class Times(Dot):
    """s = c · q·k, for a scale that is not 1/√D."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def scale(self, width: int) -> float:
        return self.factor


class Held(Score):
    """The scores themselves, (B, H, L, S), as the model computed them; queries and keys say how many there are.

    ``sink`` (B, H, L, 1) is a column that stood beside them in the softmax: scores are counted from it.
    """

    no_dot_form = "they are numbers in a tensor"

    def __init__(self, scores: Tensor, sink: Tensor | None = None) -> None:
        super().__init__()
        self.scores, self.sink = scores, sink

    def check_widths(self, query_width: int, key_width: int) -> None:
        """There is nothing to match."""

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        s = wide(self.scores if grid is None else taken(self.scores, grid))
        if self.sink is None:
            return s
        return s - wide(self.sink if grid is None else taken(self.sink, replace(grid, j=torch.zeros_like(grid.j))))


class Lent(Bias):
    """A float mask that is no mask alone: whatever the model adds to its scores, broadcast to (B, H, L, S)."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.values = values

    def forward(self, grid: Grid) -> Tensor:
        found = wide(taken(self.values, grid))
        return torch.where(found > HIDDEN, found, 0.0)  # what hides is the mask's part


class Modified(Score):
    """FlexAttention's ``score_mod`` on c · q·k: any function of one score and its four indices."""

    no_dot_form = "a score_mod is only known as a function"

    def __init__(self, factor: float, change: Callable[..., Tensor]) -> None:
        super().__init__()
        self.factor, self.change = factor, change

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        s = (q * self.factor) @ k.transpose(-2, -1)
        assert grid is not None
        b, h, i, j = (index.flatten() for index in (grid.b, grid.h, grid.i, grid.j))
        return _over_all(self.change, (s, b, h, i, j), first=True)


@dataclass(frozen=True)
class Modular(Mask):
    """FlexAttention's ``mask_mod``, called as it is there: with one index of each axis."""

    allow: Callable[..., Tensor]

    def allows(self, grid: Grid) -> Tensor:
        if grid.j.shape[:3] == (1, 1, 1):
            b, h, i, j = (index.flatten() for index in (grid.b, grid.h, grid.i, grid.j))
            return _over_all(self.allow, (b, h, i, j), first=False)
        indices = torch.broadcast_tensors(grid.b, grid.h, grid.i, grid.j)
        flat = torch.vmap(self.allow)(*(index.flatten() for index in indices))
        return flat.view(indices[0].shape)


@dataclass(frozen=True, eq=False)
class Above(Mask):
    """values[b, h, i, j] > floor: what a float mask, or scores with one in them, lets through."""

    values: Tensor
    floor: float = HIDDEN

    def allows(self, grid: Grid) -> Tensor:
        return taken(self.values, grid) > self.floor

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor] | None:
        """Where every row is one piece, found a band of queries at a time."""
        found = []
        for start in range(0, max(1, self.values.shape[2]), 512):
            allowed = self.values[:, :, start : start + 512] > self.floor
            allowed = allowed.expand(*allowed.shape[:3], grid.S)
            seen = allowed.sum(-1)
            lo = torch.where(seen > 0, allowed.byte().argmax(-1), 0)
            hi = torch.where(seen > 0, grid.S - allowed.flip(-1).byte().argmax(-1), 0)
            if not torch.equal(hi - lo, seen):
                return None
            found.append((lo, hi))
        lo, hi = (torch.cat(edge, 2) for edge in zip(*found, strict=True))
        if lo.shape[2] > 1:  # a mask of queries says which are asked for
            lo, hi = (edge[:, :, grid.i.flatten()] for edge in (lo, hi))
        return lo, hi


@dataclass(frozen=True)
class Back(Mask):
    """j = i − steps, on the keys' own ruler where the last query stands at the last key: 0 is a query's own place."""

    steps: int

    def _place(self, grid: Grid) -> Tensor:
        return grid.query_places("end", "Back") - self.steps

    def allows(self, grid: Grid) -> Tensor:
        return grid.j == self._place(grid)

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        place = self._place(grid)[..., 0]
        inside = (place >= 0) & (place < grid.S)
        return torch.where(inside, place, 0), torch.where(inside, place + 1, 0)


def taken(x: Tensor, grid: Grid) -> Tensor:
    """x (b, h, i, j), each axis whole or 1, at the indices of the grid."""
    if grid.j.shape == (1, 1, 1, x.shape[3]) or x.shape[3] == 1:
        whole = grid.b.shape[0] in (1, grid.b.numel()) and x.shape[0] in (1, grid.b.numel())
        heads = x.shape[1] in (1, grid.h.numel())
        if whole and heads and grid.b.numel() and grid.h.numel():
            i = grid.i.flatten()
            if x.shape[2] == 1 or i.numel() == x.shape[2]:
                return x
            first, last = int(i[0]), int(i[-1])
            return x[:, :, first : last + 1] if last - first + 1 == i.numel() else x[:, :, i]
    indices = zip((grid.b, grid.h, grid.i, grid.j), x.shape, strict=True)
    b, h, i, j = (index % size for index, size in indices)
    return x[b, h, i, j]


def four_axes(x: Tensor, missing: int = 4) -> Tensor:
    """A mask that broadcasts from the right, with its four axes written out."""
    return x.reshape((1,) * (4 - x.dim()) + tuple(x.shape)) if x.dim() < 4 else x


def _over_all(fn: Callable[..., Any], given: tuple[Tensor, ...], first: bool) -> Tensor:
    """fn of single numbers over (b, h, i, j); ``first`` says that the first argument has all four axes itself."""
    along = [(0, None, None, None), (None, 0, None, None), (None, None, 0, None), (None, None, None, 0)]
    mapped = fn
    for axis in (3, 2, 1, 0):
        indices = along[axis]
        mapped = torch.vmap(mapped, in_dims=(0, *indices) if first else indices)
    found: Tensor = mapped(*given)
    return found
