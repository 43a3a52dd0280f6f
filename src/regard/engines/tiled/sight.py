"""What a row may see, as kernels want it: an interval of keys, and where there are gaps a map of cells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from regard.kernels.compile import kernel
from regard.kernels.vector import wide_vectors

EMPTY, FULL, PARTIAL = 0, 1, 2


class Sight(NamedTuple):
    """lo and hi (M, L) over M = mb · mh reads that differ in their mask; ``cell`` is 0 where the interval says all.

    ``at`` and ``words`` are as in seen.Seen.
    """

    lo: Any
    hi: Any
    mb: Any
    mh: Any
    cell: Any
    at: Any  # (M, rows, columns) int32
    words: Any  # (n, cell) int64


@kernel
def which(sight, b, h):
    """The mask's own row of read (b, h)."""
    return (b % sight.mb) * sight.mh + h % sight.mh


@kernel
def reach(sight, m, i0, rows):
    """The keys that some row of the block may see, as a range; empty when none."""
    first, last = sight.lo[m, i0], sight.hi[m, i0]
    for r in range(rows):
        lo, hi = sight.lo[m, i0 + r], sight.hi[m, i0 + r]
        if hi > lo:
            if last <= first:
                first, last = lo, hi
            first, last = min(first, lo), max(last, hi)
    return first, last


@kernel
def run(sight, m, i0, rows, j0, stop, C):
    """The next keys from j0 to ``stop`` that some row of the block may see, as the first and how many: at most C, and
    not across a multiple of C where there are gaps; none at the end."""
    if sight.cell == 0:
        return j0, min(C, stop - j0)
    while j0 < stop and not _live(sight, m, i0, rows, j0):
        j0 = (j0 // sight.cell + 1) * sight.cell
    end, edge = j0, min((j0 // C + 1) * C, stop)
    while end < edge and _live(sight, m, i0, rows, end):
        end = min((end // sight.cell + 1) * sight.cell, edge)
    return j0, end - j0


@kernel
def _live(sight, m, i0, rows, j):
    """Whether the cells of key j and of the block's rows may have a pair that is seen."""
    for line in range(i0 // sight.cell, (i0 + rows - 1) // sight.cell + 1):
        if sight.at[m, line, j // sight.cell] != EMPTY:
            return True
    return False


@kernel
def alive(sight, b, h, i0, rows, j0, columns):
    """Whether any pair of the tile may be seen, as far as its cells tell."""
    return sight.cell == 0 or run(sight, which(sight, b, h), i0, rows, j0, j0 + columns, j0 + columns)[1] > 0


@kernel
def hide(sight, b, h, i, j0, row, low):
    """Writes ``low`` over the scores of a row, from key j0 on, that query i may not see; says how many are left."""
    wide_vectors()
    size = sight.cell
    if size == 0:
        return row.shape[0]
    line, words = sight.at[which(sight, b, h), i // size], sight.words[:, i % size]
    seen, j = 0, 0
    while j < row.shape[0]:
        inside = (j0 + j) % size
        part = row[j : j + size - inside]
        kind = line[(j0 + j) // size]
        if kind == FULL:
            seen += part.shape[0]
        elif kind == EMPTY:
            part[:] = low
        else:
            seen += _pick(part, np.uint64(words[kind - PARTIAL]) >> np.uint64(inside), low)
        j += part.shape[0]
    return seen


@kernel
def _pick(part, bits, low):
    """Writes ``low`` where a bit is 0; how many are 1."""
    wide_vectors()
    seen = np.uint64(0)
    for j in range(part.shape[0]):
        may = (bits >> np.uint64(j)) & np.uint64(1)
        part[j] = part[j] if may != 0 else low
        seen += may
    return np.int64(seen)
