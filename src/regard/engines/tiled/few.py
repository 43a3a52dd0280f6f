"""What is done with the few keys of a row that have weight: w, x and ds of keys that stand at j0 + place."""

from __future__ import annotations

import numpy as np

from regard.kernels.compile import kernel
from regard.kernels.vector import at, dice, like, log, wide_vectors


@kernel
def measure(found, va, n, i, j0, w, place):
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
def drop(w, place, j0, rate, seed, i):
    """What softmax.drop does, to the few numbers of row i that stand at keys j0 + place."""
    limit = np.uint32(np.float64(rate) * 4294967296.0)
    for c in range(w.shape[0]):
        w[c] *= 1.0 / (1.0 - rate) if np.uint32(dice(seed, np.uint32(i), np.uint32(j0 + place[c]))) >= limit else 0.0


@kernel
def read(out, v, stride, w, place):
    """out ← out + Σ w v, over rows of an array that begins at address v."""
    wide_vectors()
    for c in range(w.shape[0]):
        weight = like(out[0], w[c])
        value = v + out.itemsize * stride * place[c]
        for x in range(out.shape[0]):
            out[x] += weight * at(weight, value, x)


@kernel
def ask(x, place, one, E, away, v, step):
    """x ← do · v for the few keys at ``place``, in the precision of ``one``; ``step`` is in bytes."""
    wide_vectors()
    for c in range(x.shape[0]):
        value = v + step * place[c]
        total = like(one, 0)
        for e in range(E):
            total += at(one, away, e) * at(one, value, e)
        x[c] = total


@kernel
def say(slope, va, n, i, j0, w, x, kept, place):
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
def give(sc, n, i, j0, away, w, ds, place, dq, dk, dv):
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
