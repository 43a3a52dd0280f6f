"""The threshold family: a block of rows has its scores together, because a threshold depends on all of a row at once.

Of a row, forward keeps its top m and its threshold t. Backward makes the scores again: x = (α−1)(s − m), and with
y = [x − t]₊ and p = 1/(α−1) a weight is y^p and follows its score with the slope g = w^{2−α} = y^{p−1}. Top-k has α = 1
and a softmax of the scores that lie above t: g = w. As every statistic is a functional of the weights,
ds_j = g_j (x_j − Σ g x / Σ g), where x_j gathers what output, entropy, distance and masses say of key j. Where few keys
have weight only those are read; where many, whole tiles are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from regard.engines.tiled.columns import between, hide_columns, places, slopes, stretches, tile
from regard.engines.tiled.few import ask, drop, give, measure, read, say
from regard.engines.tiled.scores import NOISE, PRODUCT, SLOPE, fill, pull
from regard.engines.tiled.sight import which
from regard.kernels.blas import N, T, product
from regard.kernels.compile import kernel
from regard.kernels.largest import soften, support, support_again
from regard.kernels.rows import by_alpha, centred, gather, solve, weigh_and_slope
from regard.kernels.vector import address, like, wide_vectors

#: A key read by itself costs as much as so many that are read in a product.
FEW = 8


class Found(NamedTuple):
    """What a forward pass writes; arrays over rows are (B·H, L), an array of size 0 is not wanted."""

    out: Any  # (B·H, L, E)
    entropy: Any
    peak: Any
    at: Any  # which key has the peak
    distance: Any
    mass: Any  # (T, B·H, L)
    top: Any
    threshold: Any  # float64: of x; of top-k a level of the scores themselves


class Slopes(NamedTuple):
    """What a backward pass is given of each row: the gradients of the read and of its statistics (size 0: none)."""

    out: Any  # (B, H, L, E) by address
    strides: Any  # b, h, l
    entropy: Any  # (B·H, L)
    distance: Any
    mass: Any  # (T, B·H, L)
    peak: Any
    at: Any


@kernel
def forward(sc, va, sight, alphas, keep, found, R, W, C, first, last):
    """Reads blocks first … last − 1 of R queries each, of all B·H·⌈L/R⌉; none sees more than W keys.

    ``keep`` is the k of top-k, and 0 where α of each head says what the weights are.
    """
    _, H, G, L, _, _ = sc.sizes
    E = va.width
    blocks = (L + R - 1) // R
    one, zero = like(sc.scale, 1), like(sc.scale, 0)
    room, none = np.empty(R * W + W, sc.numbers.dtype), np.empty((0, R, W), sc.numbers.dtype)
    s, stretch = tile(room, 0, R, W), np.empty((W // C + 2, 3), np.int64)
    w, place, key = np.empty(W + 1), np.empty(W + 1, np.int32), np.empty(W + 1, np.int32)
    for task in range(first, last):
        n, block = task // blocks, blocks - 1 - task % blocks  # under a causal mask the long blocks come first
        b, h, i0 = n // H, n % H, block * R
        rows = min(R, L - i0)
        m = which(sight, b, h)
        pieces, columns = stretches(sight, m, b, h, i0, rows, C, stretch)
        for x in range(pieces):
            fill(sc, n, i0, rows, stretch[x, 0], stretch[x, 2], tile(room, stretch[x, 1], R, W), none)
        start = stretch[0, 0] if pieces > 0 else np.int64(0)
        v = va.v + s.itemsize * (b * va.strides[0] + h // (H // G) * va.strides[1] + start * va.strides[2])
        near, far = columns, np.int64(0)  # of the columns that are read by a product
        for r in range(rows):
            i = i0 + r
            a, e = between(stretch, pieces, sight.lo[m, i], sight.hi[m, i])
            hide_columns(sight, b, h, i, stretch, pieces, a, e, s[r], like(zero, -np.inf))
            row, out = s[r, a:e], found.out[n, i]
            count, found.top[n, i], found.threshold[n, i] = _solve(row, alphas[h], keep, w, place)
            out[:] = zero if found.top[n, i] < np.inf else found.top[n, i]  # NaN stays NaN
            places(stretch, pieces, a, place[:count], key)
            measure(found, va, n, i, start, w[:count], key)
            if va.rate > 0:
                drop(w[:count], key, start, va.rate, va.seed, va.before + n * L + i)
            if count == 0 or FEW * count < columns:
                read(out, v, va.strides[2], w[:count], key)
                if far > 0:
                    s[r, :columns] = zero
            else:
                if far == 0:
                    s[:r, :columns] = zero
                s[r, :columns] = zero
                near, far = min(near, a + place[0]), max(far, a + place[count - 1] + 1)
                for c in range(count):
                    row[place[c]] = like(zero, w[c])
        for x in range(pieces):
            a, e = max(near, stretch[x, 1]), min(far, stretch[x, 1] + stretch[x, 2])
            if a < e:
                value = v + s.itemsize * (stretch[x, 0] - start + a - stretch[x, 1]) * va.strides[2]
                product(
                    sc.blas, N, N, rows, E, e - a, one, address(s) + s.itemsize * a, W, value, va.strides[2], one,
                    address(found.out) + s.itemsize * (n * L + i0) * E, E,
                )  # fmt: skip


@kernel
def _solve(row, alpha, keep, w, place):
    """The weights above 0 of a row, in w, and their keys; how many, max s, and the threshold."""
    if keep == 0:
        return solve(row, alpha, w, place)
    count, top, t = support(row, keep, w, place)
    soften(w[:count], top)
    return count, top, t


@kernel
def _solve_again(row, top, alpha, keep, t, w, g, place):
    """The same of scores that were made again, and of each weight its slope g; how many."""
    if keep == 0:
        count = gather(row, top, alpha - 1.0, t, w, place)
        weigh_and_slope(w[:count], g[:count], 1.0 / (alpha - 1.0), t)
    else:
        count = support_again(row, keep, t, w, place)
        soften(w[:count], top)
        g[:count] = w[:count]
    return count


@kernel
def backward(
    sc, va, sight, alphas, keep, top, threshold, slope, pulled, dv, dalpha, caps, splits, R, W, C, first, last
):  # fmt: skip
    """Gradients from units first … last − 1: a unit is one of ``splits`` parts of the queries of one (b, g).

    dv (splits, B·G, S, E) and ``pulled`` are added to; units of different splits write to different parts. dalpha
    (B·H, L) is written.
    """
    B, H, G, L, S, _ = sc.sizes
    E, item = va.width, sc.numbers.itemsize
    blocks = (L + R - 1) // R
    one, zero = like(sc.scale, 1), like(sc.scale, 0)
    room, more = np.empty(R * W + W, sc.numbers.dtype), np.empty(R * W + W, sc.numbers.dtype)
    steep = np.empty(caps * R * W + W, sc.numbers.dtype)
    s, d, stretch = tile(room, 0, R, W), tile(more, 0, R, W), np.empty((W // C + 2, 3), np.int64)
    w, place, key = np.empty(W + 1), np.empty(W + 1, np.int32), np.empty(W + 1, np.int32)
    x, g, kept = np.empty(W), np.empty(W), np.empty(W)
    straight = _straight(sc)
    for unit in range(first, last):
        part, bg = unit % splits, unit // splits
        b = bg // G
        for h in range(bg % G * (H // G), (bg % G + 1) * (H // G)):
            n, m = b * H + h, which(sight, b, h)
            for block in range(part, blocks, splits):
                i0 = block * R
                rows = min(R, L - i0)
                pieces, columns = stretches(sight, m, b, h, i0, rows, C, stretch)
                if pieces == 0:
                    continue
                start = stretch[0, 0]
                away = slope.out + item * (b * slope.strides[0] + h * slope.strides[1] + i0 * slope.strides[2])
                v = va.v + item * (b * va.strides[0] + bg % G * va.strides[1] + start * va.strides[2])
                for y in range(pieces):
                    j0, at, keys = stretch[y, 0], stretch[y, 1], stretch[y, 2]
                    fill(sc, n, i0, rows, j0, keys, tile(room, at, R, W), slopes(steep, at, caps, R, W))
                weighed = _hide(sc, sight, m, b, h, alphas[h], keep, top, threshold, n, i0, rows, stretch, pieces, s)
                few = straight and FEW * weighed < rows * columns
                for y in range(0 if few else pieces):
                    value = v + item * (stretch[y, 0] - start) * va.strides[2]
                    product(
                        sc.blas, N, T, rows, stretch[y, 2], E, one, away, slope.strides[2], value, va.strides[2], zero,
                        address(d) + item * stretch[y, 1], W,
                    )  # fmt: skip
                for r in range(rows):
                    i = i0 + r
                    a, e = between(stretch, pieces, sight.lo[m, i], sight.hi[m, i])
                    count = _solve_again(s[r, a:e], top[n, i], alphas[h], keep, threshold[n, i], w, g, place)
                    places(stretch, pieces, a, place[:count], key)
                    mine = away + item * r * slope.strides[2]
                    if few:
                        ask(x[:count], key, sc.scale, E, mine, v, item * va.strides[2])
                    else:
                        for c in range(count):
                            x[c] = d[r, a + place[c]]
                    kept[:count] = 1.0
                    if va.rate > 0:
                        drop(kept[:count], key, start, va.rate, va.seed, va.before + n * L + i)
                    say(slope, va, n, i, start, w[:count], x, kept, key)
                    mean = centred(x[:count], g[:count])
                    if dalpha.shape[0] > 0:
                        dalpha[n, i] = by_alpha(w[:count], x, mean, alphas[h])
                    for c in range(count):
                        x[c] = g[c] * (x[c] - mean)
                        w[c] *= kept[c]
                    if few:
                        give(
                            sc, n, i, start, mine, w[:count], x, key, pulled.q[n, i], pulled.k[part, bg], dv[part, bg]
                        )  # fmt: skip
                    else:
                        s[r, :columns] = zero
                        d[r, :columns] = zero
                        for c in range(count):
                            s[r, a + place[c]], d[r, a + place[c]] = like(zero, w[c]), like(zero, x[c])
                for y in range(0 if few or weighed == 0 else pieces):
                    j0, at, keys = stretch[y, 0], stretch[y, 1], stretch[y, 2]
                    product(
                        sc.blas, T, N, keys, E, rows, one, address(s) + item * at, W, away, slope.strides[2], one,
                        address(dv) + item * ((part * B * G + bg) * S + j0) * E, E,
                    )  # fmt: skip
                    pull(
                        sc, pulled, part, unit, n, i0, rows, j0, keys, tile(more, at, R, W),
                        slopes(steep, at, caps, R, W),
                    )  # fmt: skip


@kernel
def _straight(sc):
    """Whether a score's gradient goes to its query and key as it is: a product, and steps that are constants."""
    for step in range(sc.steps.shape[0]):
        if sc.steps[step, 0] != SLOPE and sc.steps[step, 0] != NOISE:
            return False
    return sc.kind == PRODUCT


@kernel
def _hide(sc, sight, m, b, h, alpha, keep, top, threshold, n, i0, rows, stretch, pieces, s):
    """Hides what may not be seen; how many scores of the block have weight."""
    wide_vectors()
    total = np.int64(0)
    for r in range(rows):
        i = i0 + r
        a, e = between(stretch, pieces, sight.lo[m, i], sight.hi[m, i])
        hide_columns(sight, b, h, i, stretch, pieces, a, e, s[r], like(sc.scale, -np.inf))
        row = s[r, a:e]
        level = threshold[n, i] if keep > 0 else np.float64(top[n, i]) + threshold[n, i] / (alpha - 1.0)
        limit, count = like(sc.scale, level), np.int32(0)
        for j in range(row.shape[0]):
            count += np.int32(1) if row[j] > limit else np.int32(0)
        total += count
    return total
