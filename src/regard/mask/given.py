"""Masks that are given whole: a table of blocks, a tensor, a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RegardError
from regard.grid import Grid
from regard.mask.base import Mask
from regard.mask.fits import check_boolean, own
from regard.mask.tiles import Outline, edges


@dataclass(frozen=True, eq=False)
class blocks(Mask):
    """table[i // size, j // size]: whole blocks are seen or not; ``table`` (rows, columns) or (H, rows, columns).

    >>> print(blocks([[True, False], [True, True]], size=2).draw(4, 4))
    ■ ■ · ·
    ■ ■ · ·
    ■ ■ ■ ■
    ■ ■ ■ ■
    """

    table: Tensor
    size: int

    def __init__(self, table: Tensor | Sequence[Sequence[bool]], size: int) -> None:
        table = torch.as_tensor(table)
        check_boolean("blocks: table", table, "(rows, columns) or (H, rows, columns)", (2, 3))
        if size < 1:
            raise RegardError(f"blocks: size is {size}, wanted at least 1")
        object.__setattr__(self, "table", table if table.dim() == 3 else table.unsqueeze(0))
        object.__setattr__(self, "size", size)

    def allows(self, grid: Grid) -> Tensor:
        heads, rows, columns = self.table.shape
        if rows * self.size < grid.L or columns * self.size < grid.S:
            raise RegardError(
                f"blocks: a {rows} × {columns} table of size {self.size} covers L ≤ {rows * self.size}, S ≤ "
                f"{columns * self.size}; the read has L = {grid.L}, S = {grid.S}"
            )
        return self.table.to(grid.j.device)[own(grid.h, heads), grid.i // self.size, grid.j // self.size]

    def outline(self, grid: Grid, size: int) -> Outline:
        """How many of the table's entries under a tile are True, from sums over all that lies above and to the left."""
        self.allows(grid.rows(0, 0))  # raises where the table does not fit
        sums = F.pad(self.table.to(grid.j.device).long().cumsum(1).cumsum(2), (1, 0, 1, 0))
        (top, bottom), (left, right) = ([x // self.size for x in edges(n, size, sums.device)] for n in grid.shape[2:])
        top, bottom = top[:, None], bottom[:, None] + 1
        right = right + 1
        count = sums[:, bottom, right] - sums[:, top, right] - sums[:, bottom, left] + sums[:, top, left]
        return Outline((count > 0)[None], (count == (bottom - top) * (right - left))[None])

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        return 0, self.table.shape[0], self.table.shape[1] * self.size, self.table.shape[2] * self.size

    def __repr__(self) -> str:
        return f"blocks({self.table.shape[1]} × {self.table.shape[2]}, size={self.size})"


@dataclass(frozen=True, eq=False)
class dense(Mask):
    """allowed[b, h, i, j]: any boolean tensor that broadcasts to (B, H, L, S) from the right.

    A mask (B, S) or (B, L, S) needs its missing axes written as 1: ``tensor[:, None, None, :]``.

    >>> import torch
    >>> print(dense(torch.eye(2, dtype=torch.bool)).draw(2, 2))
    ■ ·
    · ■
    """

    allowed: Tensor

    def __init__(self, allowed: Tensor) -> None:
        check_boolean("dense", allowed, "up to four axes (B, H, L, S), True = may look", (0, 1, 2, 3, 4))
        object.__setattr__(self, "allowed", allowed.reshape((1,) * (4 - allowed.dim()) + tuple(allowed.shape)))

    def allows(self, grid: Grid) -> Tensor:
        wanted = (*grid.shape[:2], grid.L, grid.S) if grid.L and grid.b.dim() == 4 else None
        if wanted and any(found not in (1, size) for found, size in zip(self.allowed.shape, wanted, strict=True)):
            raise RegardError(
                f"mask dense: found (B, H, L, S) = {tuple(self.allowed.shape)}, the read has {wanted}; each axis "
                "must be that "
                "or 1. A mask (B, S) becomes mask[:, None, None, :]"
            )
        if wanted is not None and wanted == grid.shape:
            return self.allowed.to(grid.j.device)  # the whole grid: nothing to pick
        indices = zip((grid.b, grid.h, grid.i, grid.j), self.allowed.shape, strict=True)
        b, h, i, j = (own(index, size) for index, size in indices)
        return self.allowed.to(grid.j.device)[b, h, i, j]

    def spans(self, grid: Grid) -> tuple[Tensor, Tensor] | None:
        """Where every row is one piece: most masks that arrive as tensors are causal, padding, or both."""
        if torch.compiler.is_compiling():
            return None
        allowed = self.allows(grid)
        if allowed.shape[3] == 1:
            allowed = allowed.expand(*allowed.shape[:3], grid.S)
        if not grid.S:
            return None
        seen, lo, after = _ends(allowed)
        hi = torch.where(seen > 0, grid.S - after, 0)
        return (lo, hi) if torch.equal(hi - lo, seen) else None

    @property
    def natural_size(self) -> tuple[int, int, int, int]:
        B, H, L, S = self.allowed.shape
        return B, H, L, S

    def __repr__(self) -> str:
        return f"dense({tuple(self.allowed.shape)})"


@dataclass(frozen=True)
class where(Mask):
    """fn(b, h, i, j): any predicate on index tensors that broadcast together, as FlexAttention's ``mask_mod``.

    >>> print(where(lambda b, h, i, j: j != i).draw(2, 2))
    · ■
    ■ ·
    """

    fn: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

    def allows(self, grid: Grid) -> Tensor:
        allowed = self.fn(grid.b, grid.h, grid.i, grid.j)
        if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool:
            found = allowed.dtype if isinstance(allowed, Tensor) else type(allowed).__name__
            raise RegardError(f"mask where: the function gave {found}, wanted a boolean tensor (True = may look)")
        return allowed

    def __repr__(self) -> str:
        return f"where({getattr(self.fn, '__name__', type(self.fn).__name__)})"


def _ends(allowed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How many of each row are True, and how many are False before the first and behind the last; 0 if none is True."""
    if allowed.device.type != "cpu":
        return allowed.sum(-1), allowed.byte().argmax(-1), allowed.flip(-1).byte().argmax(-1)
    rows = allowed.numpy()  # where booleans are ten times faster
    found = (np.count_nonzero(rows, -1), rows.argmax(-1), rows[..., ::-1].argmax(-1))
    seen, before, after = (torch.from_numpy(np.asarray(x)) for x in found)
    return seen, before, after
