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
from regard.kernels.vector import address, at, dice, like, tanh, wide_vectors

PRODUCT, TANH, TANH_FACTORED = 0, 1, 2
ROW, CAP, SLOPE, TABLE, TIMES, NOISE = 0, 1, 2, 3, 4, 5


class Scores(NamedTuple):
    """All that a tile of scores is made of; addresses are of q (B, H, L, ·) and k (B, G, S, ·), strides in numbers."""

    blas: Any
    kind: Any
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
    elif sc.kind == TANH_FACTORED:
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
                bits = dice(sc.seed, np.uint32(n * sc.sizes[3] + i0 + r), np.uint32(j0 + j))
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
def _tanh_factored(sc, q, k, rows, columns, s):
    """s = Σ e tanh(q′ + k′) = Σe − 2 Σ e / (1 + e^{2q′} e^{2k′}), with q and k holding the two exponentials.

    What makes it fast: no tanh is left, and four fractions are put over one denominator, so that a quarter of the
    divisions is. The width is a multiple of four, filled up with zero energies.
    """
    wide_vectors()
    item = sc.numbers.itemsize
    quarter = sc.sizes[5] // 4
    energy = sc.energy
    one = like(sc.scale, 1)
    whole = like(sc.scale, 0)
    for a in range(energy.shape[0]):
        whole += energy[a]
    for r in range(rows):
        query = sc.q + item * (q + r * sc.q_strides[2])
        for j in range(columns):
            key = sc.k + item * (k + j * sc.k_strides[2])
            total = like(sc.scale, 0)
            for a in range(quarter):
                d1 = one + at(sc.scale, query, a) * at(sc.scale, key, a)
                d2 = one + at(sc.scale, query, a + quarter) * at(sc.scale, key, a + quarter)
                d3 = one + at(sc.scale, query, a + 2 * quarter) * at(sc.scale, key, a + 2 * quarter)
                d4 = one + at(sc.scale, query, a + 3 * quarter) * at(sc.scale, key, a + 3 * quarter)
                left = energy[a] * d2 + energy[a + quarter] * d1
                right = energy[a + 2 * quarter] * d4 + energy[a + 3 * quarter] * d3
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
    item = sc.numbers.itemsize
    one = like(sc.scale, 1)
    for r in range(rows):
        query = sc.q + item * (b * sc.q_strides[0] + h * sc.q_strides[1] + (i0 + r) * sc.q_strides[2])
        dq = out.q[n, i0 + r]
        for j in range(columns):
            d = ds[r, j]
            if d == 0:
                continue
            key = sc.k + item * (b * sc.k_strides[0] + g * sc.k_strides[1] + (j0 + j) * sc.k_strides[2])
            dk, de = out.k[part, b * G + g, j0 + j], out.energy[chunk]
            de[width] += d
            if sc.kind == TANH_FACTORED:
                for a in range(width):
                    x = one / (one + at(sc.scale, query, a) * at(sc.scale, key, a))
                    y = d * x
                    de[a] += y
                    y -= y * x
                    dq[a] += y
                    dk[a] += y
            else:
                for a in range(width):
                    x = (one - tanh(at(sc.scale, query, a) + at(sc.scale, key, a))) / like(sc.scale, 2)
                    y = d * x
                    de[a] += y
                    y -= y * x
                    dq[a] += y
                    dk[a] += y
