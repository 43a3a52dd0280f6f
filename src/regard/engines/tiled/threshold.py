"""The threshold family: a block of rows has its scores together, because a threshold depends on all of a row at once.

Of a row, forward keeps its top m and its threshold t. Backward makes the scores again: x = (α−1)(s − m), and with
y = [x − t]₊ and p = 1/(α−1) a weight is y^p and follows its score with the slope g = w^{2−α} = y^{p−1}. As every
statistic is a functional of the weights, ds_j = g_j (x_j − Σ g x / Σ g), where x_j gathers what output, entropy,
distance and masses say of key j. Where few keys have weight only those are read; where many, whole tiles are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from regard.engines.tiled.scores import NOISE, PRODUCT, SLOPE, fill, pull
from regard.engines.tiled.sight import alive, hide, reach, which
from regard.kernels.blas import N, T, product
from regard.kernels.compile import kernel
from regard.kernels.rows import by_alpha, centred, gather, solve, weigh_and_slope
from regard.kernels.vector import address, at, dice, like, log, wide_vectors

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
    threshold: Any  # float64


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
def forward(sc, va, sight, alphas, found, R, W, C, first, last):
    """Reads blocks first … last − 1 of R queries each, of all B·H·⌈L/R⌉; none sees more than W keys."""
    _, H, G, L, _, _ = sc.sizes
    E = va.width
    blocks = (L + R - 1) // R
    one, zero = like(sc.scale, 1), like(sc.scale, 0)
    s = np.empty((R, W), sc.numbers.dtype)
    none = np.empty((0, R, W), sc.numbers.dtype)
    w, place = np.empty(W + 1), np.empty(W + 1, np.int32)
    for task in range(first, last):
        n, block = task // blocks, blocks - 1 - task % blocks  # under a causal mask the long blocks come first
        b, h, i0 = n // H, n % H, block * R
        rows = min(R, L - i0)
        m = which(sight, b, h)
        start, columns = _range(sight, m, b, h, i0, rows, C)
        if columns > 0:
            fill(sc, n, i0, rows, start, columns, s, none)
        v = va.v + s.itemsize * (b * va.strides[0] + h // (H // G) * va.strides[1] + start * va.strides[2])
        near, far = columns, np.int64(0)  # of the keys that are read by a product
        for r in range(rows):
            i = i0 + r
            a = min(max(sight.lo[m, i] - start, 0), columns)
            e = max(min(sight.hi[m, i] - start, columns), a)
            row, out = s[r, a:e], found.out[n, i]
            hide(sight, b, h, i, start + a, row, like(zero, -np.inf))
            count, found.top[n, i], found.threshold[n, i] = solve(row, alphas[h], w, place)
            out[:] = zero if found.top[n, i] < np.inf else found.top[n, i]  # NaN stays NaN
            _measure(found, va, n, i, start + a, w[:count], place)
            if va.rate > 0:
                _drop(w[:count], place, start + a, va.rate, va.seed, n * L + i)
            if count == 0 or FEW * count < columns:
                _read(out, v + s.itemsize * a * va.strides[2], va.strides[2], w[:count], place)
                if far > 0:
                    s[r, :columns] = zero
            else:
                if far == 0:
                    s[:r, :columns] = zero
                s[r, :columns] = zero
                near, far = min(near, a + place[0]), max(far, a + place[count - 1] + 1)
                for c in range(count):
                    row[place[c]] = like(zero, w[c])
        if far > 0:
            product(
                sc.blas, N, N, rows, E, far - near, one, address(s) + s.itemsize * near, W,
                v + s.itemsize * near * va.strides[2], va.strides[2], one,
                address(found.out) + s.itemsize * (n * L + i0) * E, E,
            )  # fmt: skip


@kernel
def _range(sight, m, b, h, i0, rows, C):
    """The first key that some row of the block may see and how many there are to the last, to C keys where there are
    gaps."""
    start, stop = reach(sight, m, i0, rows)
    if sight.bytes != 0:
        while start < stop and not alive(sight, b, h, i0, rows, start, min(C, stop - start)):
            start += min(C, stop - start)
        while start < stop and not alive(sight, b, h, i0, rows, max(stop - C, start), min(C, stop - start)):
            stop = max(stop - C, start)
    return start, max(stop - start, 0)


@kernel
def _measure(found, va, n, i, j0, w, place):
    """Writes the statistics of a row that has weights w at keys j0 + place."""
    wide_vectors()
    wrong = 0.0 if found.top[n, i] < np.inf else np.nan
    if found.entropy.shape[0] > 0:
        total = 0.0
        for c in range(w.shape[0]):
            total -= w[c] * log(w[c])
        found.entropy[n, i] = max(total, 0.0) + wrong
    if found.at.shape[0] > 0:
        best, where = 0.0, np.int64(-1)
        for c in range(w.shape[0]):
            if w[c] > best:
                best, where = w[c], j0 + place[c]
        found.peak[n, i], found.at[n, i] = best + wrong, where
    if found.distance.shape[0] > 0:
        total, here = 0.0, np.float64(i + va.shift - j0)
        for c in range(w.shape[0]):
            total += w[c] * abs(here - place[c])
        found.distance[n, i] = total + wrong
    for t in range(va.tags.shape[0]):
        total = 0.0
        for c in range(w.shape[0]):
            total += w[c] * va.tags[t, n % va.tags.shape[1], j0 + place[c]]
        found.mass[t, n, i] = total + wrong


@kernel
def _drop(w, place, j0, rate, seed, i):
    """What softmax.drop does, to the few numbers of row i that stand at keys j0 + place."""
    limit = np.uint32(np.float64(rate) * 4294967296.0)
    for c in range(w.shape[0]):
        w[c] *= 1.0 / (1.0 - rate) if np.uint32(dice(seed, np.uint32(i), np.uint32(j0 + place[c]))) >= limit else 0.0


@kernel
def _read(out, v, stride, w, place):
    """out ← out + Σ w v, over rows of an array that begins at address v."""
    wide_vectors()
    for c in range(w.shape[0]):
        weight = like(out[0], w[c])
        value = v + out.itemsize * stride * place[c]
        for x in range(out.shape[0]):
            out[x] += weight * at(weight, value, x)


@kernel
def backward(sc, va, sight, alphas, top, threshold, slope, pulled, dv, dalpha, caps, splits, R, W, C, first, last):
    """Gradients from units first … last − 1: a unit is one of ``splits`` parts of the queries of one (b, g).

    dv (splits, B·G, S, E) and ``pulled`` are added to; units of different splits write to different parts. dalpha
    (B·H, L) is written.
    """
    B, H, G, L, S, _ = sc.sizes
    E, item = va.width, sc.numbers.itemsize
    blocks = (L + R - 1) // R
    one, zero = like(sc.scale, 1), like(sc.scale, 0)
    s, d = np.empty((R, W), sc.numbers.dtype), np.empty((R, W), sc.numbers.dtype)
    jac = np.empty((caps, R, W), sc.numbers.dtype)
    w, place = np.empty(W + 1), np.empty(W + 1, np.int32)
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
                start, columns = _range(sight, m, b, h, i0, rows, C)
                if columns == 0:
                    continue
                away = slope.out + item * (b * slope.strides[0] + h * slope.strides[1] + i0 * slope.strides[2])
                v = va.v + item * (b * va.strides[0] + bg % G * va.strides[1] + start * va.strides[2])
                fill(sc, n, i0, rows, start, columns, s, jac)
                support = _support(sc, sight, m, b, h, alphas[h], top, threshold, n, i0, rows, start, columns, s)
                few = straight and FEW * support < rows * columns
                if not few:
                    product(
                        sc.blas, N, T, rows, columns, E, one, away, slope.strides[2], v, va.strides[2], zero,
                        address(d), W,
                    )  # fmt: skip
                for r in range(rows):
                    i = i0 + r
                    a = min(max(sight.lo[m, i] - start, 0), columns)
                    e = max(min(sight.hi[m, i] - start, columns), a)
                    t, alpha = threshold[n, i], alphas[h]
                    count = gather(s[r, a:e], top[n, i], alpha - 1.0, t, w, place)
                    weigh_and_slope(w[:count], g[:count], 1.0 / (alpha - 1.0), t)
                    if few:
                        _ask(
                            x[:count], place, sc.scale, E, away + item * r * slope.strides[2],
                            v + item * a * va.strides[2], item * va.strides[2],
                        )  # fmt: skip
                    else:
                        for c in range(count):
                            x[c] = d[r, a + place[c]]
                    kept[:count] = 1.0
                    if va.rate > 0:
                        _drop(kept[:count], place, start + a, va.rate, va.seed, n * L + i)
                    _say(slope, va, n, i, start + a, w[:count], x, kept, place)
                    mean = centred(x[:count], g[:count])
                    if dalpha.shape[0] > 0:
                        dalpha[n, i] = by_alpha(w[:count], x, mean, alpha)
                    for c in range(count):
                        x[c] = g[c] * (x[c] - mean)
                        w[c] *= kept[c]
                    if few:
                        _give(
                            sc, n, i, start + a, away + item * r * slope.strides[2], w[:count], x, place,
                            pulled.q[n, i], pulled.k[part, bg], dv[part, bg],
                        )  # fmt: skip
                    else:
                        s[r, :columns] = zero
                        d[r, :columns] = zero
                        for c in range(count):
                            s[r, a + place[c]], d[r, a + place[c]] = like(zero, w[c]), like(zero, x[c])
                if not few and support > 0:
                    product(
                        sc.blas, T, N, columns, E, rows, one, address(s), W, away, slope.strides[2], one,
                        address(dv) + item * ((part * B * G + bg) * S + start) * E, E,
                    )  # fmt: skip
                    pull(sc, pulled, part, unit, n, i0, rows, start, columns, d, jac)


@kernel
def _straight(sc):
    """Whether a score's gradient goes to its query and key as it is: a product, and steps that are constants."""
    for step in range(sc.steps.shape[0]):
        if sc.steps[step, 0] != SLOPE and sc.steps[step, 0] != NOISE:
            return False
    return sc.kind == PRODUCT


@kernel
def _support(sc, sight, m, b, h, alpha, top, threshold, n, i0, rows, start, columns, s):
    """Hides what may not be seen; how many scores of the block have weight."""
    wide_vectors()
    total = np.int64(0)
    for r in range(rows):
        i = i0 + r
        a = min(max(sight.lo[m, i] - start, 0), columns)
        e = max(min(sight.hi[m, i] - start, columns), a)
        row = s[r, a:e]
        hide(sight, b, h, i, start + a, row, like(sc.scale, -np.inf))
        limit, count = like(sc.scale, np.float64(top[n, i]) + threshold[n, i] / (alpha - 1.0)), np.int32(0)
        for j in range(row.shape[0]):
            count += np.int32(1) if row[j] > limit else np.int32(0)
        total += count
    return total


@kernel
def _ask(x, place, one, E, away, v, step):
    """x ← do · v for the few keys at ``place``, in the precision of ``one``; ``step`` is in bytes."""
    wide_vectors()
    for c in range(x.shape[0]):
        value = v + step * place[c]
        total = like(one, 0)
        for e in range(E):
            total += at(one, away, e) * at(one, value, e)
        x[c] = total


@kernel
def _say(slope, va, n, i, j0, w, x, kept, place):
    """x of each key: what the read says of it as it was dropped, and what the statistics say."""
    wide_vectors()
    for c in range(w.shape[0]):
        x[c] *= kept[c]
    if slope.entropy.shape[0] > 0:
        for c in range(w.shape[0]):
            x[c] -= slope.entropy[n, i] * (log(w[c]) + 1.0)
    if slope.distance.shape[0] > 0:
        here = np.float64(i + va.shift - j0)
        for c in range(w.shape[0]):
            x[c] += slope.distance[n, i] * abs(here - place[c])
    if slope.peak.shape[0] > 0:
        for c in range(w.shape[0]):
            x[c] += slope.peak[n, i] if j0 + place[c] == slope.at[n, i] else 0.0
    for t in range(slope.mass.shape[0]):
        for c in range(w.shape[0]):
            x[c] += slope.mass[t, n, i] * va.tags[t, n % va.tags.shape[1], j0 + place[c]]


@kernel
def _give(sc, n, i, j0, away, w, ds, place, dq, dk, dv):
    """dq += Σ ds k, and for the few keys j at ``place`` dk_j += ds q and dv_j += w do."""
    wide_vectors()
    _, H, G, _, _, _ = sc.sizes
    b, h = n // H, n % H
    item = dq.itemsize
    q = sc.q + item * (b * sc.q_strides[0] + h * sc.q_strides[1] + i * sc.q_strides[2])
    k = sc.k + item * (b * sc.k_strides[0] + h // (H // G) * sc.k_strides[1] + j0 * sc.k_strides[2])
    for c in range(w.shape[0]):
        j = j0 + place[c]
        slope, weight = sc.scale * like(sc.scale, ds[c]), like(sc.scale, w[c])
        key, to_key, to_value = k + item * sc.k_strides[2] * place[c], dk[j], dv[j]
        for a in range(dq.shape[0]):
            dq[a] += slope * at(slope, key, a)
        for a in range(to_key.shape[0]):
            to_key[a] += slope * at(slope, q, a)
        for a in range(to_value.shape[0]):
            to_value[a] += weight * at(weight, away, a)
