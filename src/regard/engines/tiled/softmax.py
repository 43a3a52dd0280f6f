"""The softmax family: one pass over tiles of scores carries the read and its telemetry; backward recomputes from Λ.

For a row with scores s, top m and Λ = log Σ exp s, weights are w = exp(s − Λ). Forward keeps m, Σ e, Σ e(s − m), … and
rescales them when m grows (Milakov & Gimelshein 2018). Backward uses that every statistic is a functional of the
weights: ds_j = w_j (x_j − Σ w x), where x_j gathers what output, entropy, distance and masses say of key
j. What does not depend on j comes in as one number a row, ``delta``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from regard.engines.tiled.loops import (
    add,
    add_distance,
    drop,
    first_at,
    inside_of,
    moments_of,
    powers,
    powers_and_distance,
    top_of,
    weigh,
    weigh_and_spread,
)
from regard.engines.tiled.scores import fill, pull
from regard.engines.tiled.sight import hide, reach, run, which
from regard.kernels.blas import N, T, product
from regard.kernels.compile import kernel
from regard.kernels.vector import address, like, wide_vectors


class Values(NamedTuple):
    """v (B, G, S, E) by address, and how weights are dropped; ``tags`` (T, B·H|1, S) are members of groups, 0 or 1."""

    v: Any
    strides: Any  # b, g, s
    width: Any  # E
    tags: Any
    rate: Any  # of dropout
    seed: Any
    before: Any  # rows of other reads, for the dice
    shift: Any  # a query's place for the distance is i + shift


class Found(NamedTuple):
    """What a forward pass writes; arrays over rows are (B·H, L), an array of size 0 is not wanted."""

    out: Any  # (B·H, L, E)
    lse: Any
    entropy: Any
    peak: Any
    at: Any  # which key has the peak
    distance: Any
    mass: Any  # (T, B·H, L)
    spread: Any  # (B·H, blocks, 3) float64: how many scores, their mean, their summed squared deviation


class Slopes(NamedTuple):
    """What a backward pass is given of each row: the gradient of the read, and how x and ds depend on statistics."""

    out: Any  # (B, H, L, E) by address
    strides: Any  # b, h, l
    delta: Any  # (B·H, L)
    score: Any  # (B·H, L): x_j += score · (s_j − Λ); size 0 when no statistic wants it
    distance: Any  # (B·H, L): x_j += distance · |i − j|
    mass: Any  # (T, B·H, L): x_j += mass of each group j is in
    peak: Any  # (B·H, L): x_j += peak where j is the peak
    at: Any  # (B·H, L)
    spread: Any  # (B·H, 2): ds_j += spread₀ + spread₁ · s_j over what is seen


@kernel
def forward(sc, va, sight, found, R, C, first, last):
    """Reads blocks first … last − 1 of R queries each, of all B·H·⌈L/R⌉."""
    _, H, G, L, _, _ = sc.sizes
    E = va.width
    blocks = (L + R - 1) // R
    one = like(sc.scale, 1)
    s = np.empty((R, C), sc.numbers.dtype)
    o = np.empty((R, E), sc.numbers.dtype)
    sums = np.empty((R, 4 + va.tags.shape[0]), sc.numbers.dtype)  # top, Σe, Σe(s−m), Σe|i−j|, Σe of each group
    none = np.empty((0, R, C), sc.numbers.dtype)
    places = np.arange(C).astype(sc.numbers.dtype)
    for task in range(first, last):
        n, block = task // blocks, blocks - 1 - task % blocks  # under a causal mask the long blocks come first
        b, h, i0 = n // H, n % H, block * R
        rows = min(R, L - i0)
        sums[:, :] = like(one, 0)
        sums[:, 0] = -np.inf
        o[:, :] = like(one, 0)
        moments = (0.0, 0.0, 0.0)
        m = which(sight, b, h)
        start, stop = reach(sight, m, i0, rows)
        value = b * va.strides[0] + h // (H // G) * va.strides[1]
        j0, columns = run(sight, m, i0, rows, start, stop, C)
        while columns > 0:
            fill(sc, n, i0, rows, j0, columns, s, none)
            moments = _sum(sc, va, sight, found, m, n, i0, rows, j0, columns, s, o, sums, moments, places)
            product(
                sc.blas, N, N, rows, E, columns, one, address(s), C,
                va.v + s.itemsize * (value + j0 * va.strides[2]), va.strides[2], one, address(o), E,
            )  # fmt: skip
            j0, columns = run(sight, m, i0, rows, j0 + columns, stop, C)
        _finish(found, n, i0, rows, o, sums)
        if found.spread.shape[0] > 0:
            for x in range(3):
                found.spread[n, block, x] = moments[x]


@kernel
def _sum(sc, va, sight, found, m, n, i0, rows, j0, columns, s, o, sums, moments, places):
    """Turns a tile of scores into e = exp(s − m), 0 where nothing may be seen, and carries the sums of its rows on."""
    wide_vectors()
    H, L = sc.sizes[1], sc.sizes[3]
    low = like(sc.scale, -1e30)
    zero = like(sc.scale, 0)
    for r in range(rows):
        i = i0 + r
        a = min(max(sight.lo[m, i] - j0, 0), columns)
        e = max(min(sight.hi[m, i] - j0, columns), a)
        s[r, :a] = zero
        s[r, e:columns] = zero
        row = s[r, a:e]  # a slice, because LLVM must see that no index is negative
        seen = hide(sight, n // H, n % H, i, j0 + a, row, low)
        if seen == 0:
            row[:] = zero
            continue
        if found.spread.shape[0] > 0:
            moments, top = moments_of(row, low, seen, moments)
        else:
            top = top_of(row, low)
        before = sums[r, 0]
        if top > before:
            if found.at.shape[0] > 0:
                found.at[n, i] = j0 + a + first_at(row, top, places)
            if before > low:  # what was summed so far was relative to the old top
                factor = like(top, math.exp(before - top))
                sums[r, 2] = (sums[r, 2] + sums[r, 1] * (before - top)) * factor
                sums[r, 1] *= factor
                for x in range(3, sums.shape[1]):
                    sums[r, x] *= factor
                for x in range(o.shape[1]):
                    o[r, x] *= factor
            sums[r, 0] = top
        else:
            top = before
        if found.distance.shape[0] > 0:
            total, spent, far = powers_and_distance(row, top, like(top, i + va.shift - j0 - a), places)
            sums[r, 3] += far
        else:
            total, spent = powers(row, top)
        sums[r, 1] += total
        sums[r, 2] += spent
        for t in range(va.tags.shape[0]):
            sums[r, 4 + t] += inside_of(row, va.tags[t, n % va.tags.shape[1], j0 + a : j0 + e])
        if va.rate > 0:
            drop(row, va.rate, va.seed, va.before + n * L + i, j0 + a)
    return moments


@kernel
def _finish(found, n, i0, rows, o, sums):
    """Divides the sums of each row by its total; a row that saw nothing reads 0 and has Λ = −∞."""
    wide_vectors()
    for r in range(rows):
        i = i0 + r
        top, total = np.float64(sums[r, 0]), np.float64(sums[r, 1])
        if total == 0:
            found.out[n, i, :] = like(sums[r, 0], 0)
            found.lse[n, i] = -np.inf
            if found.entropy.shape[0] > 0:
                found.entropy[n, i] = 0
            if found.at.shape[0] > 0:
                found.at[n, i], found.peak[n, i] = -1, 0
            if found.distance.shape[0] > 0:
                found.distance[n, i] = 0
            for t in range(found.mass.shape[0]):
                found.mass[t, n, i] = 0
            continue
        share = like(sums[r, 0], 1 / total)
        for x in range(o.shape[1]):
            found.out[n, i, x] = o[r, x] * share
        found.lse[n, i] = top + math.log(total)
        if found.entropy.shape[0] > 0:
            found.entropy[n, i] = max(math.log(total) - sums[r, 2] / total, 0.0)
        if found.at.shape[0] > 0:
            found.peak[n, i] = share
        if found.distance.shape[0] > 0:
            found.distance[n, i] = sums[r, 3] * share
        for t in range(found.mass.shape[0]):
            found.mass[t, n, i] = sums[r, 4 + t] * share


@kernel
def backward(sc, va, sight, lse, slopes, pulled, dv, caps, splits, R, C, first, last):
    """Gradients from units first … last − 1: a unit is one of ``splits`` parts of the queries of one (b, g).

    dv (splits, B·G, S, E) and ``pulled`` are added to; units of different splits write to different parts.
    """
    B, H, G, L, S, _ = sc.sizes
    E, item = va.width, sc.numbers.itemsize
    blocks = (L + R - 1) // R
    one, zero = like(sc.scale, 1), like(sc.scale, 0)
    s = np.empty((R, C), sc.numbers.dtype)
    d = np.empty((R, C), sc.numbers.dtype)
    jac = np.empty((caps, R, C), sc.numbers.dtype)
    for unit in range(first, last):
        part, bg = unit % splits, unit // splits
        b, g = bg // G, bg % G
        value = b * va.strides[0] + g * va.strides[1]
        for h in range(g * (H // G), (g + 1) * (H // G)):
            n = b * H + h
            m = which(sight, b, h)
            for block in range(part, blocks, splits):
                i0 = block * R
                rows = min(R, L - i0)
                start, stop = reach(sight, m, i0, rows)
                away = slopes.out + item * (b * slopes.strides[0] + h * slopes.strides[1] + i0 * slopes.strides[2])
                j0, columns = run(sight, m, i0, rows, start, stop, C)
                while columns > 0:
                    fill(sc, n, i0, rows, j0, columns, s, jac)
                    v = va.v + item * (value + j0 * va.strides[2])
                    product(
                        sc.blas, N, T, rows, columns, E, one, away, slopes.strides[2], v, va.strides[2], zero,
                        address(d), C,
                    )  # fmt: skip
                    _slope(sc, va, sight, lse, slopes, m, n, i0, rows, j0, columns, s, d)
                    product(
                        sc.blas, T, N, columns, E, rows, one, address(s), C, away, slopes.strides[2], one,
                        address(dv) + item * ((part * B * G + bg) * S + j0) * E, E,
                    )  # fmt: skip
                    pull(sc, pulled, part, unit, n, i0, rows, j0, columns, d, jac)
                    j0, columns = run(sight, m, i0, rows, j0 + columns, stop, C)


@kernel
def _slope(sc, va, sight, lse, slopes, m, n, i0, rows, j0, columns, s, d):
    """From scores s and d = do·v: s ← the weights as they were dropped, d ← the gradient of the scores."""
    wide_vectors()
    H, L = sc.sizes[1], sc.sizes[3]
    low, zero = like(sc.scale, -1e30), like(sc.scale, 0)
    for r in range(rows):
        i = i0 + r
        a = min(max(sight.lo[m, i] - j0, 0), columns)
        e = max(min(sight.hi[m, i] - j0, columns), a)
        if hide(sight, n // H, n % H, i, j0 + a, s[r, a:e], low) == 0:
            a = e
        s[r, :a] = zero
        d[r, :a] = zero
        s[r, e:columns] = zero
        d[r, e:columns] = zero
        if a == e:
            continue
        row, grad = s[r, a:e], d[r, a:e]
        if va.rate > 0:
            drop(grad, va.rate, va.seed, va.before + n * L + i, j0 + a)
        level = lse[n, i]
        if slopes.distance.shape[0] > 0:
            add_distance(grad, slopes.distance[n, i], like(level, i + va.shift - j0 - a))
        for t in range(va.tags.shape[0]):
            add(grad, slopes.mass[t, n, i], va.tags[t, n % va.tags.shape[1], j0 + a : j0 + e], zero)
        if slopes.peak.shape[0] > 0 and j0 + a <= slopes.at[n, i] < j0 + e:
            grad[slopes.at[n, i] - j0 - a] += slopes.peak[n, i]
        if slopes.score.shape[0] > 0:
            add(grad, slopes.score[n, i], row, level)
        if slopes.spread.shape[0] > 0:
            weigh_and_spread(row, grad, level, slopes.delta[n, i], slopes.spread[n, 0], slopes.spread[n, 1], low)
        else:
            weigh(row, grad, level, slopes.delta[n, i])
        if va.rate > 0:
            drop(row, va.rate, va.seed, va.before + n * L + i, j0 + a)
