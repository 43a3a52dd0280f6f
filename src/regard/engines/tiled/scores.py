"""Tiles of scores: filled from queries and keys, step by step, and pulled back to their gradients.

A score is a source (a product, or a sum of tanh) and a list of steps over the tile: a number per row, a tanh cap,
ALiBi's slope, a table of relative places, a factor, Gumbel noise. ``fill`` runs them forwards, ``pull`` backwards. The
reference for all of this is ``Score.compare``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from regard.kernels.blas import N, T, product
from regard.kernels.compile import kernel
from regard.kernels.vector import address, at, dice, exp, larger, like, tanh, wide_vectors

PRODUCT, TANH = 0, 1
ROW, CAP, SLOPE, TABLE, TIMES, NOISE = 0, 1, 2, 3, 4, 5


class Scores(NamedTuple):
    """All that a tile of scores is made of; addresses are of q (B, H, L, ·) and k (B, G, S, ·), strides in numbers."""

    blas: Any
    kind: Any
    factored: Any  # (B,): whether e^{2x} of q and of k may be taken, for a tanh sum
    q: Any
    q_strides: Any  # b, h, l
    k: Any
    k_strides: Any  # b, g, s
    sizes: Any  # B, H, G, L, S, width
    scale: Any
    energy: Any  # (width,), of a tanh sum
    steps: Any  # (n, 4): code, and up to three integers
    numbers: Any  # (n, H): a number of the step for each head
    table: Any  # (H, T): all tables of relative places, side by side
    row: Any  # (B·H, L), added to every score of a row
    seed: Any
    before: Any  # rows of other reads, for the dice of noise


class Pulled(NamedTuple):
    """Gradients of what scores are made of, summed into: parts are kept apart that different threads write."""

    q: Any  # (B·H, L, width)
    k: Any  # (parts, B·G, S, width)
    energy: Any  # (chunks, width + 1): Σ ds·r, and Σ ds at the end
    table: Any  # (chunks, H, T)
    row: Any  # (B·H, L)


@kernel
def fill(sc, n, i0, rows, j0, columns, s, slopes):
    """s[:rows, :columns] ← scores of queries i0… and keys j0… of read n = b·H + h; slopes[c] ← the cth cap's slope."""
    _, H, G, _, _, width = sc.sizes
    b, h = n // H, n % H
    item = sc.numbers.itemsize
    q = b * sc.q_strides[0] + h * sc.q_strides[1] + i0 * sc.q_strides[2]
    k = b * sc.k_strides[0] + h // (H // G) * sc.k_strides[1] + j0 * sc.k_strides[2]
    if sc.kind == PRODUCT:
        product(
            sc.blas, N, T, rows, columns, width, sc.scale, sc.q + item * q, sc.q_strides[2], sc.k + item * k,
            sc.k_strides[2], like(sc.scale, 0), address(s), s.shape[1],
        )  # fmt: skip
    elif sc.factored[b]:
        _tanh_factored(sc, q, k, rows, columns, s)
    else:
        _tanh(sc, q, k, rows, columns, s)
    cap = np.int64(0)
    for step in range(sc.steps.shape[0]):
        _step(sc, step, n, i0, rows, j0, columns, s, slopes, cap)
        cap += sc.steps[step, 0] == CAP


@kernel
def _step(sc, step, n, i0, rows, j0, columns, s, slopes, cap):
    wide_vectors()
    code, shift, offset, reach = sc.steps[step, 0], sc.steps[step, 1], sc.steps[step, 2], sc.steps[step, 3]
    h = n % sc.sizes[1]
    number = sc.numbers[step, h]
    for r in range(rows):
        tile = s[r]
        place = i0 + r + shift - j0  # the query's own place, in columns of this tile
        if code == ROW:
            for j in range(columns):
                tile[j] += sc.row[n, i0 + r]
        elif code == TIMES:
            for j in range(columns):
                tile[j] *= number
        elif code == CAP:
            for j in range(columns):
                u = tanh(tile[j] / number)
                tile[j] = number * u
                if slopes.shape[0] > 0:
                    slopes[cap, r, j] = like(u, 1) - u * u
        elif code == SLOPE:
            here = like(number, place)
            for j in range(columns):
                tile[j] -= number * abs(here - like(number, j))
        elif code == TABLE:
            near, far = _within(place, reach, columns)
            before, after = sc.table[h, offset], sc.table[h, offset + 2 * reach]
            for j in range(near):
                tile[j] += before
            for j in range(near, far):
                tile[j] += sc.table[h, offset + reach + j - place]
            for j in range(far, columns):
                tile[j] += after
        else:
            for j in range(columns):
                bits = dice(sc.seed, np.uint32(sc.before + n * sc.sizes[3] + i0 + r), np.uint32(j0 + j))
                draw = (np.float64(bits) + 0.5) / 4294967296.0
                tile[j] -= like(number, math.log(-math.log(draw)))


@kernel
def _within(place, reach, columns):
    """The columns at most ``reach`` from ``place``, as a range inside the tile."""
    near = min(max(place - reach, 0), columns)
    return near, min(max(place + reach + 1, near), columns)


@kernel
def _tanh(sc, q, k, rows, columns, s):
    """s = Σ e tanh(q + k), for queries and keys of any size."""
    wide_vectors()
    item = sc.numbers.itemsize
    for r in range(rows):
        query = sc.q + item * (q + r * sc.q_strides[2])
        for j in range(columns):
            key = sc.k + item * (k + j * sc.k_strides[2])
            total = like(sc.scale, 0)
            for a in range(sc.sizes[5]):
                total += sc.energy[a] * tanh(at(sc.scale, query, a) + at(sc.scale, key, a))
            s[r, j] = total


@kernel
def largest(x, found, first, last):
    """The largest |x| of each row, which says whether e^{2x} may be taken."""
    wide_vectors()
    for r in range(first, last):
        row = x[r]
        top = like(row[0], 0)
        for a in range(row.shape[0]):
            top = larger(top, abs(row[a]))
        found[r] = top


@kernel
def _exponentials(start, stride, width, out):
    """out ← e^{2x} of the rows x that begin at an address, and zeros behind them."""
    wide_vectors()
    two = like(out[0, 0], 2)
    for r in range(out.shape[0]):
        row = out[r, :width]
        here = start + out.itemsize * r * stride
        for a in range(row.shape[0]):
            row[a] = exp(two * at(two, here, a))
        out[r, width:] = like(two, 0)


@kernel
def _tanh_factored(sc, q, k, rows, columns, s):
    """s = Σ e tanh(q′ + k′) = Σe − 2 Σ e / (1 + e^{2q′} e^{2k′}).

    What makes it fast: no tanh is left, and four fractions are put over one denominator, so that a quarter of the
    divisions is. Energies are filled up with zeros to a multiple of four.
    """
    wide_vectors()
    item, energy = sc.numbers.itemsize, sc.energy
    quarter = energy.shape[0] // 4
    one, whole = like(sc.scale, 1), like(sc.scale, 0)
    for a in range(energy.shape[0]):
        whole += energy[a]
    x = np.empty((rows, energy.shape[0]), energy.dtype)
    y = np.empty((columns, energy.shape[0]), energy.dtype)
    _exponentials(sc.q + item * q, sc.q_strides[2], sc.sizes[5], x)
    _exponentials(sc.k + item * k, sc.k_strides[2], sc.sizes[5], y)
    e1, e2, e3, e4 = energy[:quarter], energy[quarter:], energy[2 * quarter :], energy[3 * quarter :]
    for r in range(rows):
        x1, x2, x3, x4 = x[r, :quarter], x[r, quarter:], x[r, 2 * quarter :], x[r, 3 * quarter :]
        for j in range(columns):
            y1, y2, y3, y4 = y[j, :quarter], y[j, quarter:], y[j, 2 * quarter :], y[j, 3 * quarter :]
            total = like(sc.scale, 0)
            for a in range(quarter):
                d1 = one + x1[a] * y1[a]
                d2 = one + x2[a] * y2[a]
                d3 = one + x3[a] * y3[a]
                d4 = one + x4[a] * y4[a]
                left = e1[a] * d2 + e2[a] * d1
                right = e3[a] * d4 + e4[a] * d3
                total += (left * (d3 * d4) + right * (d1 * d2)) / ((d1 * d2) * (d3 * d4))
            s[r, j] = whole - total - total


@kernel
def pull(sc, out, part, chunk, n, i0, rows, j0, columns, ds, slopes):
    """Adds to ``out`` what the gradient ``ds`` of a tile of scores is to their makings; ds is used up."""
    B, H, G, L, S, width = sc.sizes
    b, h = n // H, n % H
    item = sc.numbers.itemsize
    cap = slopes.shape[0]
    for back in range(sc.steps.shape[0]):
        step = sc.steps.shape[0] - 1 - back
        cap -= sc.steps[step, 0] == CAP
        _step_back(sc, out, chunk, step, n, i0, rows, j0, columns, ds, slopes, cap)
    g = h // (H // G)
    if sc.kind == PRODUCT:
        q = sc.q + item * (b * sc.q_strides[0] + h * sc.q_strides[1] + i0 * sc.q_strides[2])
        k = sc.k + item * (b * sc.k_strides[0] + g * sc.k_strides[1] + j0 * sc.k_strides[2])
        one = like(sc.scale, 1)
        product(
            sc.blas, N, N, rows, width, columns, sc.scale, address(ds), ds.shape[1], k, sc.k_strides[2],
            one, address(out.q) + item * (n * L + i0) * width, width,
        )  # fmt: skip
        product(
            sc.blas, T, N, columns, width, rows, sc.scale, address(ds), ds.shape[1], q, sc.q_strides[2],
            one, address(out.k) + item * (((part * B + b) * G + g) * S + j0) * width, width,
        )  # fmt: skip
    else:
        _tanh_back(sc, out, part, chunk, n, i0, rows, j0, columns, ds)


@kernel
def _step_back(sc, out, chunk, step, n, i0, rows, j0, columns, ds, slopes, cap):
    wide_vectors()
    code, shift, offset, reach = sc.steps[step, 0], sc.steps[step, 1], sc.steps[step, 2], sc.steps[step, 3]
    h = n % sc.sizes[1]
    for r in range(rows):
        tile = ds[r]
        if code == ROW:
            total = like(sc.scale, 0)
            for j in range(columns):
                total += tile[j]
            out.row[n, i0 + r] += total
        elif code == TIMES:
            for j in range(columns):
                tile[j] *= sc.numbers[step, h]
        elif code == CAP:
            for j in range(columns):
                tile[j] *= slopes[cap, r, j]
        elif code == TABLE:
            place = i0 + r + shift - j0
            near, far = _within(place, reach, columns)
            before, after = like(sc.scale, 0), like(sc.scale, 0)
            for j in range(near):
                before += tile[j]
            for j in range(near, far):
                out.table[chunk, h, offset + reach + j - place] += tile[j]
            for j in range(far, columns):
                after += tile[j]
            out.table[chunk, h, offset] += before
            out.table[chunk, h, offset + 2 * reach] += after


@kernel
def _tanh_back(sc, out, part, chunk, n, i0, rows, j0, columns, ds):
    """With r = 1 / (1 + e^{2(q′+k′)}), tanh = 1 − 2r and its slope is 4 r (1 − r); the caller multiplies by 4e."""
    wide_vectors()
    _, H, G, _, _, width = sc.sizes
    b, h = n // H, n % H
    g = h // (H // G)
    item, one = sc.numbers.itemsize, like(sc.scale, 1)
    q = sc.q + item * (b * sc.q_strides[0] + h * sc.q_strides[1] + i0 * sc.q_strides[2])
    k = sc.k + item * (b * sc.k_strides[0] + g * sc.k_strides[1] + j0 * sc.k_strides[2])
    factored = sc.factored[b]
    x = np.empty((rows if factored else 1, width), sc.numbers.dtype)
    y = np.empty((columns if factored else 1, width), sc.numbers.dtype)
    if factored:
        _exponentials(q, sc.q_strides[2], width, x)
        _exponentials(k, sc.k_strides[2], width, y)
    de = out.energy[chunk]
    for r in range(rows):
        dq = out.q[n, i0 + r]
        for j in range(columns):
            if ds[r, j] == 0:
                continue
            de[width] += ds[r, j]
            dk = out.k[part, b * G + g, j0 + j]
            if factored:
                _pair_back(ds[r, j], x[r], y[j], de, dq, dk)
            else:
                query, key = q + item * r * sc.q_strides[2], k + item * j * sc.k_strides[2]
                for a in range(width):
                    u = (one - tanh(at(one, query, a) + at(one, key, a))) / like(one, 2)
                    z = ds[r, j] * u
                    de[a] += z
                    z -= z * u
                    dq[a] += z
                    dk[a] += z


@kernel
def _pair_back(d, x, y, de, dq, dk):
    """What one pair adds to the gradients of the energy, its query and its key."""
    wide_vectors()
    one = like(d, 1)
    for a in range(x.shape[0]):
        u = one / (one + x[a] * y[a])
        z = d * u
        de[a] += z
        z -= z * u
        dq[a] += z
        dk[a] += z
