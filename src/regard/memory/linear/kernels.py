"""The causal read by features as a walk through the sequence, a chunk in a core's cache at a time (CPU, forward).

The same chunks as in ``within``: sums divided by e^top, and inside a chunk by what is known at its first key. Numbers
that leave the range in which this is exact are not repaired here: the walk says so, and ``within`` does it over.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from regard.kernels.blas import N, T, product
from regard.kernels.compile import kernel
from regard.kernels.vector import address, exp, larger, like, wide_vectors


class Given(NamedTuple):
    """What is walked, as arrays; a unit U is a key head of a batch row, b · G + g, with R query heads."""

    q: Any  # (U, R, L, F): log φ(q), or q itself for elu + 1
    k: Any  # (U, L, F), likewise
    v: Any  # (U, L, E)
    there: Any  # (B, L), or (0, 0) where all are
    sums: Any  # (U, F, E), before; then after
    total: Any  # (U, F)
    top: Any  # (U, F)
    out: Any  # (U, R, L, E)
    lse: Any  # (U, R, L)
    lost: Any  # (U,): whether numbers left the range


@kernel
def walk(g, blas, elu, size, limit, first, stop):
    """Writes out, lse and the sums after all, for units first … stop − 1."""
    R, L, F = g.q.shape[1:]
    E = g.v.shape[2]
    one, zero = like(g.v[0, 0, 0], 1), like(g.v[0, 0, 0], 0)
    heads = g.k.shape[0] // max(g.there.shape[0], 1)
    new, phi = np.empty((size, F), g.v.dtype), np.empty((size, F), g.v.dtype)
    pairs = np.empty((size, size), g.v.dtype)
    shift, above, factor = np.empty(F, g.v.dtype), np.empty(F, g.v.dtype), np.empty(F, g.v.dtype)
    here = np.ones(size, np.bool_)
    for u in range(first, stop):
        s, z, top = g.sums[u], g.total[u], g.top[u]
        for start in range(0, L, size):
            n = min(size, L - start)
            if g.there.shape[0] > 0:
                here[:n] = g.there[u // heads, start : start + n]
            lead = np.int64(0)
            while lead < n and not here[lead]:
                lead += 1
            if lead == n:
                for r in range(R):
                    g.out[u, r, start : start + n] = zero
                    g.lse[u, r, start : start + n] = -np.inf
                continue
            k, v = g.k[u, start : start + n], g.v[u, start : start + n]
            if not _rise(k, here, lead, top, elu, limit, shift, above):
                g.lost[u] = True
                break
            _keys(k, here, shift, elu, factor, new)
            _scale(s, z, top, shift, factor)
            for r in range(R):
                lse, out = g.lse[u, r, start : start + n], g.out[u, r, start : start + n]
                if not _queries(g.q[u, r, start : start + n], here, shift, elu, limit, factor, phi, lse):
                    g.lost[u] = True
                product(blas, N, T, n, n, F, one, address(phi), F, address(new), F, zero, address(pairs), size)
                for i in range(n):
                    pairs[i, i + 1 : n] = zero
                product(blas, N, N, n, E, n, one, address(pairs), size, address(v), E, zero, address(out), E)
                product(blas, N, N, n, E, F, one, address(phi), F, address(s), E, one, address(out), E)
                for i in range(n):
                    _divide(out[i], pairs[i, : i + 1], phi[i], z, here[i], lse[i : i + 1])
            product(blas, T, N, F, E, n, one, address(new), F, address(v), E, one, address(s), E)
            for i in range(n):
                _add(z, new[i])
            _scale(s, z, shift, above, factor)
            top[:] = above


@kernel
def _rise(k, here, lead, top, elu, limit, shift, above):
    """shift ← the largest log φ before the chunk and at its first key, above ← after it; whether that is in range."""
    wide_vectors()
    above[:] = k[lead]
    for i in range(lead + 1, k.shape[0]):
        if here[i]:
            for f in range(above.shape[0]):
                above[f] = larger(above[f], k[i, f])
    good = True
    for f in range(above.shape[0]):
        shift[f] = max(top[f], _log(k[lead, f], elu))
        above[f] = max(shift[f], _log(above[f], elu))
        good = good and above[f] - shift[f] < limit and (not elu or abs(shift[f]) < limit)
    return good


@kernel
def _log(x, elu):
    """log φ of one number."""
    return like(x, math.log1p(x)) if elu and x > 0 else x


@kernel
def _keys(k, here, shift, elu, factor, new):
    """new ← φ(k) e^{−shift}."""
    wide_vectors()
    zero, one = like(shift[0], 0), like(shift[0], 1)
    if elu:
        for f in range(shift.shape[0]):
            factor[f] = exp(-shift[f])
    for i in range(k.shape[0]):
        if not here[i]:
            new[i] = zero
        elif elu:
            for f in range(shift.shape[0]):
                x = k[i, f]
                low = exp((x if x < zero else zero) - shift[f])
                new[i, f] = (one + x) * factor[f] if x > zero else low
        else:
            for f in range(shift.shape[0]):
                new[i, f] = exp(k[i, f] - shift[f])


@kernel
def _queries(q, here, shift, elu, limit, factor, phi, lse):
    """phi ← φ(q) e^{shift − c}, lse ← c, the largest of each row; whether no number left the range."""
    wide_vectors()
    zero, one = like(shift[0], 0), like(shift[0], 1)
    good = True
    if elu:
        for f in range(shift.shape[0]):
            factor[f] = exp(shift[f])
    for i in range(q.shape[0]):
        if not here[i]:
            phi[i] = zero
            lse[i] = zero
            continue
        c = like(zero, -np.inf)
        if elu:
            for f in range(shift.shape[0]):
                x = q[i, f]
                low = exp((x if x < zero else zero) + shift[f])
                y = (one + x) * factor[f] if x > zero else low
                phi[i, f] = y
                c = larger(c, y)
            good = good and math.log(c) > -limit / 2
            for f in range(shift.shape[0]):
                phi[i, f] = phi[i, f] * (one / c)
            lse[i] = math.log(c)
        else:
            for f in range(shift.shape[0]):
                phi[i, f] = q[i, f] + shift[f]
                c = larger(c, phi[i, f])
            good = good and c > -np.inf
            for f in range(shift.shape[0]):
                phi[i, f] = exp(phi[i, f] - c)
            lse[i] = c
    return good


@kernel
def _scale(s, z, before, after, factor):
    """The sums divided by e^after instead of e^before."""
    wide_vectors()
    for f in range(z.shape[0]):
        factor[f] = exp(before[f] - after[f]) if before[f] > -np.inf else like(z[0], 0)
        z[f] *= factor[f]
        for e in range(s.shape[1]):
            s[f, e] *= factor[f]


@kernel
def _divide(out, pairs, phi, z, here, lse):
    """out ← out / (Σ pairs + phi·z), and the logarithm of that added to lse."""
    wide_vectors()
    total = like(z[0], 0)
    for j in range(pairs.shape[0]):
        total += pairs[j]
    for f in range(z.shape[0]):
        total += phi[f] * z[f]
    if here:
        for e in range(out.shape[0]):
            out[e] /= total
        lse[0] += math.log(total)
    else:
        out[:] = like(z[0], 0)
        lse[0] = -np.inf


@kernel
def _add(z, row):
    wide_vectors()
    for f in range(z.shape[0]):
        z[f] += row[f]
