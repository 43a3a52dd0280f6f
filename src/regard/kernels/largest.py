"""The k largest scores of a row, all that tie with the last of them, and the softmax over those.

A level is looked for that they alone lie above. What makes it fast: a few counts over the row find one that somewhat
more than k lie above; those are gathered, and only among them it is looked for closely. Every row converges: levels are
halved as bit patterns too, of which there are 2³² or 2⁶⁴, and when two are left that are neighbours, what lies between
them are ties. The reference is ``normalize.TopK``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from regard.kernels.compile import kernel
from regard.kernels.rows import gather, top_of
from regard.kernels.vector import exp, like, wide_vectors

#: So many times more than asked are gathered at most, where ties do not make it more.
_MORE = 4


def _flipped(builder, bits):
    """Bits that are ordered as their numbers are, and back: below 0 all but the sign are turned over."""
    sign = builder.ashr(bits, ir.Constant(bits.type, bits.type.width - 1))
    return builder.xor(bits, builder.lshr(sign, ir.Constant(bits.type, 1)))


@intrinsic
def _order(typing, x):
    """The place of x among all numbers of its precision; −0 comes just before 0."""

    def code(context, builder, signature, args):
        bits = ir.IntType(32 if x == types.float32 else 64)
        return builder.sext(_flipped(builder, builder.bitcast(args[0], bits)), ir.IntType(64))

    return types.int64(x), code


@intrinsic
def _number(typing, ref, place):
    """The number at a place, in the precision of ``ref``."""

    def code(context, builder, signature, args):
        bits = builder.trunc(args[1], ir.IntType(32 if ref == types.float32 else 64))
        return builder.bitcast(_flipped(builder, bits), args[0].type)

    return ref(ref, types.int64), code


@kernel
def support(row, k, x, place):
    """x[:count] ← the k largest of a row and what ties with the last, in order, place[:count] ← their keys.

    Gives count, max s, and a level that those alone lie above; −∞ where k or fewer may be seen. A row that may see
    nothing has max −∞, a row with NaN or ∞ in it has max NaN. x (float64) and place (int32) have room for one more than
    the row.
    """
    top = top_of(row)
    zero, low = like(top, 0), like(top, -np.inf)
    if not top < np.inf:
        return np.int64(0), like(top, np.nan), np.nan
    if _above(row, low) <= k:
        return gather(row, zero, 1.0, -np.inf, x, place), top, -np.inf
    rough = _level(row, k, _MORE * k, low, _guess(row, top), top)
    count = gather(row, zero, 1.0, np.float64(rough), x, place)
    if count == k:
        return count, top, np.float64(rough)
    level = np.float64(_level(x[:count], k, k, rough, rough / 2 + top / 2, top))
    left = np.int64(0)
    for c in range(count):
        y = x[c]
        x[left], place[left] = y, place[c]
        left += y > level
    return left, top, level


@kernel
def support_again(row, k, level, x, place):
    """The same, of scores that were made again and may be rounded otherwise; ``level`` is what was found before."""
    zero = like(row[0] if row.shape[0] > 0 else row.dtype.type(0), 0)
    count = gather(row, zero, 1.0, level, x, place)
    if count == k or not level > -np.inf:
        return count
    if count > k:  # where they still are ties, all but the lowest are fewer
        lowest = np.inf
        for c in range(count):
            lowest = min(lowest, x[c])
        if _above(x[:count], lowest) < k:
            return count
    return support(row, k, x, place)[0]


@kernel
def _guess(row, top):
    """About the mean of what may be seen, of a few scores from all over the row."""
    total, seen = 0.0, 0
    for j in range(0, row.shape[0], row.shape[0] // 64 + 1):
        if row[j] > like(top, -np.inf):
            total += row[j]
            seen += 1
    return like(top, total / max(seen, 1))


@kernel
def _level(x, k, most, low, guess, top):
    """A level that k to ``most`` of x lie above; where ties leave none, the highest that at least k do.

    At least k lie above ``low`` and none above ``top``; a good ``guess`` makes it fast. The level has their precision.
    """
    below, beyond, turn = _order(low), _order(top), 0
    while below + 1 < beyond:
        middle = (below >> np.int64(1)) + (beyond >> np.int64(1)) + (below & beyond & np.int64(1))
        if turn % 4 < 3:  # numbers are the better guess, but to halve them may take a thousand steps
            first, last = np.float64(_number(top, below)), np.float64(_number(top, beyond))
            half = first / 2 + last / 2 if first > -np.inf else 3 * last - 2 * np.float64(top)
            number = _order(like(top, half) if turn > 0 else guess)
            middle = number if below < number < beyond else middle
        turn += 1
        count = _above(x, _number(top, middle))
        if count < k:
            beyond = middle
        else:
            below = middle
            if count <= most:
                break
    return _number(top, below)


@kernel
def _above(x, level):
    """How many of x lie above a level."""
    wide_vectors()
    count, limit = np.int32(0), like(x[0] if x.shape[0] > 0 else x.dtype.type(0), level)
    for j in range(x.shape[0]):
        count += np.int32(1) if x[j] > limit else np.int32(0)
    return np.int64(count)


@kernel
def soften(x, top):
    """x ← exp(x − top) / Σ exp(x − top)."""
    wide_vectors()
    total, base = 0.0, np.float64(top)
    for c in range(x.shape[0]):
        x[c] = exp(x[c] - base)
        total += x[c]
    share = 1.0 / total
    for c in range(x.shape[0]):
        x[c] *= share


@kernel
def forward(scores, weights, k, first, last):
    """weights ← those of rows first … last − 1 of scores (N, S)."""
    x, place = np.empty(scores.shape[1] + 1), np.empty(scores.shape[1] + 1, np.int32)
    for n in range(first, last):
        row = weights[n]
        count, top, _ = support(scores[n], k, x, place)
        soften(x[:count], top)
        row[:] = like(top, 0) if top < np.inf else top
        for c in range(count):
            row[place[c]] = like(top, x[c])
