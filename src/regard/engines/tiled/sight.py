"""What a row may see, as kernels want it: an interval of keys, and inside it, where there are gaps, a byte for each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from regard.kernels.compile import kernel
from regard.kernels.vector import at, wide_vectors


class Sight(NamedTuple):
    """lo and hi (M, L) over M = mb · mh reads that differ in their mask; ``bytes`` is 0 where the interval says all."""

    lo: Any
    hi: Any
    mb: Any
    mh: Any
    bytes: Any  # the address of booleans (b, h, i, j) with j next to each other
    strides: Any  # b, h, i


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
def hide(sight, b, h, i, j0, row, low):
    """Writes ``low`` over the scores of a row, from key j0 on, that query i may not see; says how many are left."""
    wide_vectors()
    if sight.bytes == 0:
        return row.shape[0]
    start = b * sight.strides[0] + h * sight.strides[1] + i * sight.strides[2] + j0
    seen = 0
    for j in range(row.shape[0]):
        may = at(np.uint8(0), sight.bytes, start + j) != 0
        row[j] = row[j] if may else low
        seen += may
    return seen


@kernel
def alive(sight, b, h, i0, rows, j0, columns):
    """Whether any pair of the tile may be seen; a tile that is empty costs a look at its bytes and nothing more."""
    if sight.bytes == 0:
        return True
    for r in range(rows):
        start = b * sight.strides[0] + h * sight.strides[1] + (i0 + r) * sight.strides[2] + j0
        seen = False
        for j in range(columns):
            seen |= at(np.uint8(0), sight.bytes, start + j) != 0
        if seen:
            return True
    return False
