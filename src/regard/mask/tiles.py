"""What a mask says of square tiles of pairs: by rules where it has them, by a look at every pair where it has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from regard.grid import Grid

if TYPE_CHECKING:
    from regard.mask.base import Mask

_PAIRS = 1 << 21  # that are looked at together


class Outline(NamedTuple):
    """What is sure of each tile without a look at its pairs, (B|1, H|1, rows, columns).

    Where ``some`` is False nothing in the tile may be seen, where ``every`` is True all of it may; where neither, only
    the predicate can tell.
    """

    some: Tensor
    every: Tensor

    def both(self, other: Outline) -> Outline:
        return Outline(self.some & other.some, self.every & other.every)

    def either(self, other: Outline) -> Outline:
        return Outline(self.some | other.some, self.every | other.every)

    def inverse(self) -> Outline:
        return Outline(~self.every, ~self.some)


def cells(x: Tensor, size: int) -> Tensor:
    """x (…, n) as (…, ⌈n / size⌉, size); behind the end stands the last one again."""
    places = torch.arange(-(-x.shape[-1] // size) * size, device=x.device)
    filled: Tensor = x[..., places.clamp(max=x.shape[-1] - 1)].unflatten(-1, (-1, size))
    return filled


def edges(n: int, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The first and the last index of each tile along an axis of n."""
    first = torch.arange(0, n, size, device=device)
    return first, (first + size - 1).clamp(max=n - 1)


def of_intervals(lo: Tensor, hi: Tensor, grid: Grid, size: int, gaps: bool) -> Outline:
    """The outline of a mask under which query i sees keys lo ≤ j < hi, or with ``gaps`` no others than those."""
    L, S = grid.shape[2:]
    lo, hi = (x.expand(*x.shape[:2], L) for x in torch.broadcast_tensors(lo, hi))
    lo, hi = torch.where(hi > lo, lo, S), torch.where(hi > lo, hi, 0)
    lo, hi = cells(lo, size), cells(hi, size)
    first, last = edges(S, size, lo.device)
    some = (lo.amin(-1, keepdim=True) <= last) & (hi.amax(-1, keepdim=True) > first)
    if gaps:
        return Outline(some, torch.zeros_like(some))
    return Outline(some, (lo.amax(-1, keepdim=True) <= first) & (hi.amin(-1, keepdim=True) > last))


def outlined(mask: Mask, grid: Grid, size: int) -> Outline:
    """The mask's outline over a whole grid, its leading axes as the predicate has them."""
    b, h = mask.allows(grid.rows(0, 1)).shape[:2]
    outline = mask.outline(grid, size)
    b, h = max(b, outline.some.shape[0]), max(h, outline.some.shape[1])
    return Outline(*(x.expand(b, h, -1, -1) for x in outline))


def looked(mask: Mask, grid: Grid, size: int, which: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The tiles ``which`` (n, 4), by b, h, row and column, some at a time with what they allow, (m, size, size).

    An index behind the end of its axis stands for the last.
    """
    L, S = grid.shape[2:]
    steps = torch.arange(size, device=which.device)
    for part in which.split(max(1, _PAIRS // size**2)):
        b, h, row, column = part.view(-1, 4, 1, 1).unbind(1)
        i = (row * size + steps.view(-1, 1)).clamp(max=L - 1)
        j = (column * size + steps).clamp(max=S - 1)
        allowed = mask.allows(Grid(b, h, i, j, grid.L, grid.S))
        yield part, allowed.expand(part.shape[0], size, size)
