"""Masks by place alone: causal, window, strided."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.grid import Anchor, Grid
from regard.mask.base import Mask
from regard.mask.tiles import Outline, edges


@dataclass(frozen=True)
class causal(Mask):
    """j ≤ i: a query sees its own place and what came before. Where L ≠ S say which ends meet with ``anchor``.

    >>> print(causal(anchor="end").draw(2, 4))
    ■ ■ ■ ·
    ■ ■ ■ ■
    """

    anchor: Anchor = None

    def allows(self, grid: Grid) -> Tensor:
        return grid.j <= grid.query_places(self.anchor, "causal()")

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        last = grid.query_places(self.anchor, "causal()")[..., 0]
        return torch.zeros_like(last[..., :1]), (last + 1).clamp(0, grid.S)

    def is_causal_flag(self, grid: Grid) -> bool:
        return grid.L == grid.S or self.anchor == "start"  # where the kernel anchors it

    def sdpa_flags(self, grid: Grid) -> tuple[bool, Tensor | None]:
        grid.query_places(self.anchor, "causal()")
        if self.anchor == "end" and grid.L == 1:
            return False, None  # the one query stands at the last key and sees everything
        return (True, None) if self.is_causal_flag(grid) else (False, self.allows(grid))


@dataclass(frozen=True)
class window(Mask):
    """−left ≤ j − i ≤ right: ``left`` neighbours before, ``right`` after, and always the query's own place.

    None means no bound on that side. So ``window(3, 0)`` allows four keys; Hugging Face's ``sliding_window=4`` is
    ``window(3, 0)``, and flash-attention's ``window_size=(3, 0)`` is ``window(3, 0)``. Where L ≠ S an ``anchor`` is
    needed.

    >>> print(window(1, 0).draw(3, 3))
    ■ · ·
    ■ ■ ·
    · ■ ■
    """

    left: int | None
    right: int | None
    anchor: Anchor = None

    def __post_init__(self) -> None:
        for name, side in (("left", self.left), ("right", self.right)):
            if side is not None and side < 0:
                raise RegardError(f"window: {name} is {side}, wanted a count of neighbours ≥ 0, or None for no bound")

    def allows(self, grid: Grid) -> Tensor:
        place = grid.query_places(self.anchor, "window()")
        sides = [] if self.left is None else [grid.j >= place - self.left]
        if self.right is not None:
            sides.append(grid.j <= place + self.right)
        return sides[0] & sides[1] if len(sides) == 2 else sides[0] if sides else (grid.j == grid.j) | (place == place)

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor]:
        place = grid.query_places(self.anchor, "window()")[..., 0]
        lo = torch.zeros_like(place) if self.left is None else (place - self.left).clamp(min=0)
        hi = torch.full_like(place, grid.S) if self.right is None else (place + self.right + 1).clamp(max=grid.S)
        return lo, hi


@dataclass(frozen=True)
class strided(Mask):
    """(i − j) mod n = 0: every n-th key counted from the query's own place (Child et al. 2019).

    >>> print((strided(2) & causal()).draw(4, 4))
    ■ · · ·
    · ■ · ·
    ■ · ■ ·
    · ■ · ■
    """

    n: int
    anchor: Anchor = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise RegardError(f"strided: n is {self.n}, wanted at least 1")

    def allows(self, grid: Grid) -> Tensor:
        return grid.query_places(self.anchor, "strided()") % self.n == grid.j % self.n

    def outline(self, grid: Grid, size: int) -> Outline:
        """i − j takes every value of a range in a tile, and the range has a multiple of n in it or has not."""
        place = grid.query_places(self.anchor, "strided()").flatten()
        (top, bottom), (left, right) = (edges(n, size, place.device) for n in grid.shape[2:])
        least, most = place[top].view(1, 1, -1, 1) - right, place[bottom].view(1, 1, -1, 1) - left
        some = most.div(self.n, rounding_mode="floor") * self.n >= least
        return Outline(some, some & (least == most) if self.n > 1 else some)
