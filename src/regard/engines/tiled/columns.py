"""The keys that a block of queries may see, side by side: a tile in which nothing may be seen has no columns.

A stretch is tiles next to each other in which something may be seen: its first key, its first column, and how many it
has of either. A block without gaps has one.
"""

from __future__ import annotations

import numpy as np

from regard.engines.tiled.sight import alive, hide, reach
from regard.kernels.compile import kernel


@kernel
def stretches(sight, m, b, h, i0, rows, C, found):
    """found[:n] ← the block's stretches, made of tiles of C keys; n, and how many columns there are in all."""
    start, stop = reach(sight, m, i0, rows)
    n, columns = np.int64(0), np.int64(0)
    for j0 in range(start, stop, C):
        keys = min(C, stop - j0)
        if not alive(sight, b, h, i0, rows, j0, keys):
            continue
        if n > 0 and found[n - 1, 0] + found[n - 1, 2] == j0:
            found[n - 1, 2] += keys
        else:
            found[n, 0], found[n, 1], found[n, 2] = j0, columns, keys
            n += 1
        columns += keys
    return n, columns


@kernel
def column(stretch, n, key):
    """The column of a key, or of the next that has one."""
    for x in range(n):
        if key < stretch[x, 0] + stretch[x, 2]:
            return stretch[x, 1] + max(key - stretch[x, 0], 0)
    return stretch[n - 1, 1] + stretch[n - 1, 2] if n > 0 else np.int64(0)


@kernel
def between(stretch, n, lo, hi):
    """The columns of the keys lo … hi − 1, as a range."""
    a = column(stretch, n, lo)
    return a, max(column(stretch, n, hi), a)


@kernel
def hide_columns(sight, b, h, i, stretch, n, a, e, s, low):
    """Writes ``low`` over the scores in columns a … e − 1 of a row that query i may not see."""
    for x in range(n):
        first, last = max(a, stretch[x, 1]), min(e, stretch[x, 1] + stretch[x, 2])
        if first < last:
            hide(sight, b, h, i, stretch[x, 0] + first - stretch[x, 1], s[first:last], low)


@kernel
def places(stretch, n, a, column, key):
    """key ← how far behind the block's first key the keys of ascending columns a + ``column`` stand."""
    if n == 1:
        for c in range(column.shape[0]):
            key[c] = np.int32(a) + column[c]
        return
    x = 0
    for c in range(column.shape[0]):
        while a + column[c] >= stretch[x, 1] + stretch[x, 2]:
            x += 1
        key[c] = np.int32(stretch[x, 0] - stretch[0, 0] + a + column[c] - stretch[x, 1])


@kernel
def tile(room, column, R, W):
    """What of (R, W) numbers in ``room`` stands from a column on, as an array of the same rows."""
    return room[column : column + R * W].reshape(R, W)


@kernel
def slopes(room, column, caps, R, W):
    """The same of (caps, R, W)."""
    return room[column : column + caps * R * W].reshape(caps, R, W)
