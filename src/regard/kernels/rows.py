"""The threshold of a row: t with Σ [x − t]₊^p = 1, where x = (α−1)(s − max s) and p = 1/(α−1).

What makes it fast: few scores of a row have any weight. A cheap step from the left, t ≤ the solution, tells which
cannot; the others are gathered, and only on them is the equation solved, in double precision. The reference is
``normalize.Entmax``.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from regard.kernels.compile import inline, kernel
from regard.kernels.vector import address, exp, larger, like, log, wide_vectors


@intrinsic
def _above(typing, address, start, limit):
    """A bit for each of the 64 numbers from ``start`` on: is it above ``limit``? (Plain loops that gather are slow.)"""

    def code(context, builder, signature, args):
        address, start, limit = args
        vector = ir.VectorType(limit.type, 64)
        pointer = builder.gep(builder.inttoptr(address, limit.type.as_pointer()), [start])
        numbers = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=1)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), limit, ir.Constant(ir.IntType(32), 0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        level = builder.shuffle_vector(one, one, mask)
        return builder.bitcast(builder.fcmp_ordered(">", numbers, level), ir.IntType(64))

    return types.uint64(types.int64, types.int64, limit), code


@intrinsic
def _lowest(typing, bits):
    """Which bit is the lowest that is set; 64 where none is."""

    def code(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), code


@kernel
def solve(row, alpha, x, place):
    """Weights of a row of scores: x[:count] are those above 0, place[:count] their keys; count, max s, and t.

    A row that may see nothing has max −∞ and no weights, a row with NaN or ∞ in it has max NaN. x (float64) and
    place (int32) have room for one more than the row.
    """
    scale = alpha - 1.0
    power = 1.0 / scale
    top = top_of(row)
    if not top < np.inf:
        return np.int64(0), like(top, np.nan), np.nan
    if top == -np.inf:
        return np.int64(0), top, 0.0
    t = -1.0
    if power <= 4.0:  # for y ≤ 1 a larger whole power has a smaller sum, so what it says stays left of the solution
        for _ in range(2):
            t = _step(row, top, scale, power, t)
    count = gather(row, top, scale, t, x, place)
    t = _newton(x, count, power, t, 1e-9 if row.itemsize == 4 else 4e-15)
    return _share(x, place, count, power, t), top, t


@kernel
def top_of(row):
    """max s; NaN if there is one."""
    wide_vectors()
    top = like(row[0] if row.shape[0] > 0 else row.dtype.type(0), -np.inf)
    wrong = False
    for j in range(row.shape[0]):
        wrong |= row[j] != row[j]
        top = larger(top, row[j])
    return like(top, np.nan) if wrong else top


@kernel
def _step(row, top, scale, power, t):
    """A Newton step on ‖[x − t]₊‖ = 1, the norm to a whole power ≥ ``power``, from the left and not quite all the way.

    The norm is convex in t and nearly linear, so the step is long and never passes the solution.
    """
    wide_vectors()
    zero, scale, level = like(top, 0), like(top, scale), like(top, t)
    one, two = zero, zero
    if power <= 1.0:
        for j in range(row.shape[0]):
            y = scale * (row[j] - top) - level
            one += like(top, 1) if y > zero else zero
            two += larger(y, zero)
        step = (two - 1.0) / one
    elif power <= 2.0:
        for j in range(row.shape[0]):
            y = larger(scale * (row[j] - top) - level, zero)
            one += y
            two += y * y
        step = (two - math.sqrt(two)) / one
    else:
        for j in range(row.shape[0]):
            y = larger(scale * (row[j] - top) - level, zero)
            one += y * y * y
            two += y * y * (y * y)
        step = (two - two / math.sqrt(math.sqrt(two))) / one
    return t + larger(0.999 * np.float64(step), 0.0)


@kernel
def gather(row, top, scale, t, x, place):
    """x[:count] ← the x = scale (s − top) that lie above t, place[:count] ← where they stand; count.

    x and place have room for one more than the row.
    """
    base = np.float64(top)
    # A score in the row's own precision that is surely below all that count.
    level = base + t / scale
    limit = like(top, level - abs(level) * (1e-6 if row.itemsize == 4 else 1e-15))
    here, count, length = address(row), np.uint64(0), np.int64(row.shape[0])
    for start in range(np.int64(0), length, np.int64(64)):
        if start + 64 <= length:
            bits = _above(here, start, limit)
        else:
            bits = np.uint64(0)
            for j in range(start, length):
                bits |= np.uint64(row[j] > limit) << np.uint64(j - start)
        # Most blocks have none, one or two: those are taken without a branch, which would be guessed wrongly.
        for _ in range(2):
            bits, count = _take(bits, row, start, base, scale, t, x, place, count)
        while bits != 0:
            bits, count = _take(bits, row, start, base, scale, t, x, place, count)
    return np.int64(count)


@inline
def _take(bits, row, start, base, scale, t, x, place, count):
    """One step of ``gather``: the lowest bit is taken; where there is none, nothing is counted."""
    j = start + (_lowest(bits) & np.int64(63))
    y = scale * (np.float64(row[j]) - base)
    x[count], place[count] = y, np.int32(j)
    return bits & (bits - np.uint64(1)), count + np.uint64((y > t) & (bits != 0))


@kernel
def _sums(x, count, power, t):
    """Σ y^p and Σ y^{p−1} over the y = x − t above 0."""
    wide_vectors()
    one, two = 0.0, 0.0
    if power == 1.0:
        for j in range(count):
            y = x[j] - t
            one += 1.0 if y > 0.0 else 0.0
            two += larger(y, 0.0)
    elif power == 2.0:
        for j in range(count):
            y = larger(x[j] - t, 0.0)
            one += y
            two += y * y
    else:
        for j in range(count):
            y = x[j] - t
            z = exp((power - 1.0) * log(y if y > 0.0 else 1.0)) if y > 0.0 else 0.0
            one += z
            two += z * larger(y, 0.0)
    return two, one


@kernel
def _newton(x, count, power, t, close):
    """t with |Σ [x − t]₊^p − 1| ≤ close, or the nearest there is; from a t that is not right of it.

    For p ≥ 1 the steps come from the left and never pass the solution. They are safeguarded by bisection all the
    same: for p < 1 the sum is not convex, and where scores fall off geometrically each step may lose only one of them.
    """
    # No sum is larger than that of equal scores; a little room is left for rounding.
    low, high = t, -math.exp(-math.log(float(count)) / power) * (1 - 1e-9)
    for turn in range(200):
        two, one = _sums(x, count, power, t)
        if abs(two - 1.0) <= close:
            break
        if two > 1.0:
            low = t
        else:
            high = t
        if power == 1.0:
            root = 1.0
        elif power == 2.0:
            root = math.sqrt(two)
        else:
            root = two * math.exp(-math.log(two) / power)
        after = t + (two - root) / one
        if power >= 1.0 and (two - 1.0) ** 2 <= close and low <= after < high:
            return after  # what is left is squared by every step
        if not low < after < high or (turn > 8 and turn % 2 == 1):
            after = (low + high) / 2
            if after in (low, high):
                break
        t = after
    return t


@kernel
def _share(x, place, count, power, t):
    """x ← the weights of the x above t, made to sum to 1, and place along with them; how many there are."""
    left = np.int64(0)
    for j in range(count):
        y = x[j]
        x[left], place[left] = y, place[j]
        left += y > t
    _weigh(x[:left], t, power)
    return left


@kernel
def _weigh(x, t, power):
    """x ← y^p / Σ y^p with y = x − t."""
    wide_vectors()
    total = 0.0
    if power == 1.0:
        for j in range(x.shape[0]):
            x[j] -= t
            total += x[j]
    elif power == 2.0:
        for j in range(x.shape[0]):
            x[j] = (x[j] - t) * (x[j] - t)
            total += x[j]
    else:
        for j in range(x.shape[0]):
            x[j] = exp(power * log(x[j] - t))
            total += x[j]
    share = 1.0 / total
    for j in range(x.shape[0]):
        x[j] *= share


@kernel
def weigh_and_slope(x, g, power, t):
    """x ← w = y^p and g ← w^{2−α} = y^{p−1}, with y = x − t above 0."""
    wide_vectors()
    if power == 1.0:
        for j in range(x.shape[0]):
            x[j] -= t
            g[j] = 1.0
    elif power == 2.0:
        for j in range(x.shape[0]):
            g[j] = x[j] - t
            x[j] = g[j] * g[j]
    else:
        for j in range(x.shape[0]):
            y = x[j] - t
            g[j] = exp((power - 1.0) * log(y))
            x[j] = y * g[j]


@kernel
def forward(scores, weights, alphas, repeat, first, last):
    """weights ← those of rows first … last − 1 of scores (N, S); α of row n is alphas[n // repeat % H]."""
    x, place = np.empty(scores.shape[1] + 1), np.empty(scores.shape[1] + 1, np.int32)
    for n in range(first, last):
        row = weights[n]
        count, top, _ = solve(scores[n], alphas[n // repeat % alphas.shape[0]], x, place)
        row[:] = like(top, 0) if top < np.inf else top
        for c in range(count):
            row[place[c]] = like(top, x[c])


@kernel
def backward(weights, away, alphas, repeat, ds, dalpha, first, last):
    """ds ← g (x − x̄) with g = w^{2−α} on the support, x̄ = Σ g x / Σ g and x = ``away``; dalpha (N,) if it has size."""
    S = weights.shape[1]
    w, place, x, g = np.empty(S + 1), np.empty(S + 1, np.int32), np.empty(S), np.empty(S)
    for n in range(first, last):
        row, out = away[n], ds[n]
        alpha = alphas[n // repeat % alphas.shape[0]]
        zero = like(weights[n, 0], 0)
        count = gather(weights[n], zero, 1.0, 0.0, w, place)
        for c in range(count):
            x[c] = row[place[c]]
        _slopes(w[:count], g[:count], alpha)
        mean = centred(x[:count], g[:count])
        out[:] = zero
        for c in range(count):
            out[place[c]] = like(zero, g[c] * (x[c] - mean))
        if dalpha.shape[0] > 0:
            dalpha[n] = by_alpha(w[:count], x, mean, alpha)


@kernel
def _slopes(w, g, alpha):
    """g ← w^{2−α}, how fast a weight follows its score."""
    wide_vectors()
    if alpha == 2.0:
        g[:] = 1.0
    elif alpha == 1.5:
        for c in range(w.shape[0]):
            g[c] = math.sqrt(w[c])
    else:
        for c in range(w.shape[0]):
            g[c] = exp((2.0 - alpha) * log(w[c]))


@kernel
def centred(x, g):
    """x̄ = Σ g x / Σ g; 0 of nothing."""
    wide_vectors()
    total, mean = 0.0, 0.0
    for c in range(x.shape[0]):
        total += g[c]
        mean += g[c] * x[c]
    return mean / total if x.shape[0] > 0 else 0.0


@kernel
def by_alpha(w, x, mean, alpha):
    """Σ x dw/dα, with h = −w log w: [Σ x w − x̄] / (α−1)² + [Σ x h − x̄ Σ h] / (α−1) (Correia et al. 2019)."""
    wide_vectors()
    read, entropy = 0.0, 0.0
    for c in range(w.shape[0]):
        read += (x[c] - mean) * w[c]
        entropy -= (x[c] - mean) * w[c] * log(w[c])
    return read / (alpha - 1.0) ** 2 + entropy / (alpha - 1.0)
