"""A mask as the kernels take it: an interval a query, and where there are gaps a bit a pair in the tiles they cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.engines.visible import Cells, block
from regard.grid import Grid
from regard.mask import EMPTY, FULL, PARTIAL, Mask
from regard.mask.tiles import edges, looked, outlined

#: The largest cell: a row of one is a word of bits.
CELL = 64
_ONES = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


@dataclass(frozen=True)
class Seen:
    """Of each query the keys lo ≤ j < hi, (b, h, l), and where there are gaps which of those, tile by tile.

    ``at`` (b, h, rows, columns) says of each (cell × cell) tile that it is EMPTY or FULL, or else PARTIAL + n, and then
    ``words`` (·, cell) has it at n: a word has a bit for each key of one row. So a mask with gaps is kept as a bit for
    each pair of the tiles that it cuts through, and as nothing for all others.
    """

    lo: Tensor
    hi: Tensor
    count: Tensor  # how many keys each query may see, (b, h, l)
    at: Tensor | None = None
    words: Tensor | None = None

    @property
    def cell(self) -> int:
        return 0 if self.words is None else self.words.shape[1]

    def block(self, most: int) -> int:
        """How many queries go together."""
        return block(self.lo, self.hi, most) if self.at is None else Cells(self.at != EMPTY, self.cell).block(most)


def seen(mask: Mask | None, grid: Grid, cell: int = CELL) -> Seen:
    """What the mask says of a whole read, at O(L + S) where every row is an interval, else at O(tiles) and a look at
    every pair of those tiles that the mask's outline leaves open."""
    if mask is None:
        nothing = grid.i.new_zeros(1, 1, 1)
        return Seen(nothing, nothing + grid.S, nothing + grid.S)
    spans = mask.spans(grid)
    if spans is not None:
        return Seen(*spans, (spans[1] - spans[0]).clamp(min=0))
    lo, hi = mask.hull(grid)
    if torch.compiler.is_compiling() or 0 in grid.shape:
        return Seen(lo, hi, *all_cells(mask, grid, cell))
    return Seen(lo, hi, *open_cells(mask, grid, cell))


def open_cells(mask: Mask, grid: Grid, cell: int) -> tuple[Tensor, Tensor, Tensor]:
    L, S = grid.shape[2:]
    some, every = outlined(mask, grid, cell)
    at = torch.where(every, FULL, EMPTY).to(torch.int32)
    first, last = edges(S, cell, at.device)
    width = last - first + 1
    seen = (every * width).sum(-1).repeat_interleave(cell, -1)
    words, known = [torch.zeros(0, cell, dtype=torch.int64)], 0
    for which, allowed in looked(mask, grid, cell, (some & ~every).nonzero()):
        b, h, row, column = which.unbind(1)
        word = _packed(allowed.numpy())
        word &= _below(width[column]).unsqueeze(1).numpy()
        ones = _count(word)
        count, word = torch.from_numpy(ones), torch.from_numpy(word)
        rows = row.unsqueeze(1) * cell + torch.arange(cell)
        seen.index_put_((b.unsqueeze(1), h.unsqueeze(1), rows), count, accumulate=True)
        total = torch.from_numpy(ones.sum(-1))
        partial = (total > 0) & (total < cell * width[column])
        number = (PARTIAL + known - 1 + partial.cumsum(0)).int()
        at[b, h, row, column] = torch.where(partial, number, torch.where(total > 0, FULL, EMPTY).int())
        words.append(word[partial])
        known += len(words[-1])
    return seen[..., :L], at, torch.cat(words)


def _packed(allowed: Any) -> Any:
    """Booleans (n, cell, cell) as words (n, cell), the first key in the lowest bit."""
    bits = np.packbits(allowed, axis=-1, bitorder="little")
    if bits.shape[-1] < 8:
        bits = np.pad(bits, ((0, 0), (0, 0), (0, 8 - bits.shape[-1])))
    return bits.view("<i8")[..., 0].astype(np.int64)


def _count(words: Any) -> Any:
    """How many bits of each are 1."""
    if hasattr(np, "bitwise_count"):  # since NumPy 2
        return np.bitwise_count(words.view(np.uint64)).astype(np.int64)
    return _ONES[words.view(np.uint8).reshape(*words.shape, 8)].sum(-1, dtype=np.int64)


def _below(width: Tensor) -> Tensor:
    """Words whose first so many bits are 1."""
    return torch.where(width >= 64, -1, (torch.ones_like(width) << width) - 1)


def all_cells(mask: Mask, grid: Grid, cell: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same with a place for every tile among the words, for a compiler that sees no numbers."""
    L, S = grid.shape[2:]
    allowed = mask.allows(grid)
    allowed = allowed.expand(*allowed.shape[:2], L, S)
    tiles = F.pad(allowed, (0, -S % cell, 0, -L % cell)).unflatten(3, (-1, cell)).unflatten(2, (-1, cell))
    words = (tiles.long() << torch.arange(cell)).sum(-1).transpose(3, 4)  # (b, h, rows, columns, cell)
    number = PARTIAL + torch.arange(words[..., 0].numel(), dtype=torch.int32).view(words.shape[:4])
    at = torch.where((words != 0).any(-1), number, EMPTY)
    return allowed.sum(-1), at, words.reshape(-1, cell)
