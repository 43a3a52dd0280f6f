"""The softmax read of few queries over many pairs, straight from where a cache keeps them, as floats or in eight bits.

A fused kernel for many queries packs keys and values for its products; a few queries read each number once, so that
packing it costs more than using it. What is left is to read as fast as memory gives: sixteen keys are compared at once,
and the sums of the values stay in registers.
"""

from __future__ import annotations

import ctypes
import functools
import math

import numpy as np
import torch
from torch import Tensor

from regard.kernels.compile import entry, inline, kernel
from regard.kernels.team import together
from regard.kernels.vector import address, at, exp, larger, like, wide_vectors
from regard.kernels.workers import threads_of
from regard.memory.cache.lanes import LANES, dots_of_sixteen, gather_16, gather_64, put, size_of, taken

BLOCK = np.int64(128)  # pairs whose scores are held together: their keys lie in the nearest cache for the next query
NONE, W = np.int64(0), np.int64(LANES)

#: A job lies in memory in words: the next task, how many are done, whether a Λ is no number; the scale; addresses; for
#: keys and for values an address and strides in bytes over (B, G, S), and those of their scales (0: none); sizes.
NEXT, DONE, STRANGE, SCALE, KEYS, VALUES, SIZES = (np.int64(n) for n in (0, 1, 2, 3, 8, 16, 24))


@inline
def _five(job, first):
    return (
        at(NONE, job, first),
        at(NONE, job, first + 1),
        at(NONE, job, first + 2),
        at(NONE, job, first + 3),
        at(NONE, job, first + 4),
    )


@inline
def _eight(job, first):
    a, b, c, d, e = _five(job, first)
    return a, b, c, d, e, at(NONE, job, first + 5), at(NONE, job, first + 6), at(NONE, job, first + 7)


@kernel
def _rest(s, n, q, ref, k, step, first, D):
    """s_c ← s_c + Σ q_e k_ce over e from ``first`` on."""
    wide_vectors()
    for c in range(n):
        row = k + step * c
        total = s[c]
        for e in range(first, D):
            total += at(s[0], q, e) * like(s[0], at(ref, row, e))
        s[c] = total


@kernel
def _dots(s, n, q, ref, k, step, D):
    """s_c ← q·k_c, over n rows of ``step`` bytes from address k."""
    size = size_of(s[0])
    full, whole = D // W, n // W * W
    for c in range(np.int64(0), whole, W):
        dots_of_sixteen(ref, s[0], address(s) + size * c, q, k + step * c, step, full)
    if whole < n:
        s[whole:n] = 0
        _rest(s[whole:], n - whole, q, ref, k + step * whole, step, np.int64(0), full * W)
    if full * W < D:
        _rest(s, n, q, ref, k, step, full * W, D)


@kernel
def _scaled(s, n, scale, scales, step):
    """s_c ← scale · s_c, by scales of its own besides where there are any; the largest."""
    wide_vectors()
    if scales:
        for c in range(n):
            s[c] *= like(s[0], at(np.float32(0), scales + step * c, np.int64(0)))
    top = like(scale, -np.inf)
    for c in range(n):
        s[c] *= scale
        top = larger(top, s[c])
    return top


@kernel
def _weigh(s, n, top):
    """s ← e^{s − top}; their sum, and 0 or NaN by whether all were numbers."""
    wide_vectors()
    total, strange = like(top, 0), like(top, 0)
    for c in range(n):
        strange += s[c] * like(top, 0)
        s[c] = exp(s[c] - top)
        total += s[c]
    return total + strange


@kernel
def _times(s, n, scales, step):
    """s_c ← s_c · scale_c."""
    for c in range(n):
        s[c] *= like(s[0], at(np.float32(0), scales + step * c, np.int64(0)))


@kernel
def _gather(out, s, n, ref, v, step, E):
    """out ← out + Σ s_c v_c."""
    wide_vectors()
    kept, size = size_of(ref), size_of(s[0])
    e = np.int64(0)
    while e + 4 * W <= E:
        gather_64(ref, s[0], out + size * e, address(s), v + kept * e, step, n)
        e += 4 * W
    while e + W <= E:
        gather_16(ref, s[0], out + size * e, address(s), v + kept * e, step, n)
        e += W
    if e < E:
        for c in range(n):
            row, weight = v + step * c, s[c]
            for x in range(e, E):
                put(out, x, at(weight, out, x) + weight * like(weight, at(ref, row, x)))


@kernel
def _times_all(out, E, by):
    """out ← by · out."""
    for e in range(E):
        put(out, e, at(by, out, e) * by)


@kernel
def _part(s, tops, sums, ref, q, scale, keys, values, sizes, out, row):
    """R queries over n pairs: Σ e^{s − top} v in rows of ``row`` bytes at out, the tops, and Σ e^{s − top}."""
    R, n, D, E = sizes
    k, k_l, k_scale, ks_l = keys
    v, v_l, v_scale, vs_l = values
    for r in range(R):
        tops[r], sums[r] = -np.inf, 0.0
        for e in range(E):
            put(out + row * r, e, like(scale, 0))
    for j in range(NONE, n, BLOCK):
        m = min(BLOCK, n - j)
        for r in range(R):
            _dots(s, m, q + size_of(s[0]) * D * r, ref, k + j * k_l, k_l, D)
            top = larger(_scaled(s, m, scale, k_scale + j * ks_l if k_scale else k_scale, ks_l), tops[r])
            if top > tops[r]:
                less = exp(tops[r] - top) if tops[r] > -np.inf else like(scale, 0)
                sums[r] *= less
                _times_all(out + row * r, E, less)
                tops[r] = top
            sums[r] += _weigh(s, m, top)
            if v_scale:
                _times(s, m, v_scale + j * vs_l, vs_l)
            _gather(out + row * r, s, m, ref, v + j * v_l, v_l, E)


@kernel
def _merge(job, parts, scale, R, E, units, splits, out, lse):
    """The read and its Λ of every query, from what the parts of its pairs gave: E numbers, a top, a sum."""
    size = size_of(scale)
    for query in range(units * R):
        first = parts + size * (E + 2) * (query // R * splits * R + query % R)
        step = size * (E + 2) * R
        top, total = like(scale, -np.inf), like(scale, 0)
        for n in range(splits):
            top = larger(top, at(scale, first + step * n, E))
        for n in range(splits):
            part = first + step * n
            share = exp(at(scale, part, E) - top)
            total += share * at(scale, part, E + 1)
            for e in range(E):
                before = at(scale, first, e) if n else like(scale, 0)
                put(first, e, before + share * at(scale, part, e))
        level = top + like(scale, math.log(total))
        put(lse, query, level)
        if not level < np.inf:
            put(job, STRANGE, NEXT + 1)
        for e in range(E):
            put(out + size * E * query, e, at(scale, first, e) / total)


@kernel
def _work(job, ref, one):
    """Takes tasks until none is left: a part of the pairs of a key head, read by all its queries."""
    _, q, out, lse, parts = _five(job, SCALE)
    k, k_b, k_g, k_l, k_scale, ks_b, ks_g, ks_l = _eight(job, KEYS)
    v, v_b, v_g, v_l, v_scale, vs_b, vs_g, vs_l = _eight(job, VALUES)
    G, R, S, D, E, units, splits, _ = _eight(job, SIZES)
    scale, size = like(one, at(np.float64(0), job, SCALE)), size_of(one)
    s, tops, sums = np.full(BLOCK, one), np.full(R, one), np.full(R, one)
    while True:
        task = taken(job, NEXT)
        if task >= units * splits:
            return
        unit, part = task // splits, task % splits
        b, g, first, last = unit // G, unit % G, S * part // splits, S * (part + 1) // splits
        keys = (k + b * k_b + g * k_g + first * k_l, k_l, k_scale, ks_l)
        values = (v + b * v_b + g * v_g + first * v_l, v_l, v_scale, vs_l)
        if k_scale:
            keys = (keys[0], k_l, k_scale + b * ks_b + g * ks_g + first * ks_l, ks_l)
            values = (values[0], v_l, v_scale + b * vs_b + g * vs_g + first * vs_l, vs_l)
        here = parts + size * (E + 2) * R * task
        row = size * (E + 2)
        _part(s, tops, sums, ref, q + size * R * D * unit, scale, keys, values, (R, last - first, D, E), here, row)
        for r in range(R):
            put(here + row * r, E, tops[r])
            put(here + row * r, E + 1, sums[r])
        if taken(job, DONE) == units * splits - 1:
            _merge(job, parts, scale, R, E, units, splits, out, lse)


def _floats(job):
    _work(job, np.float32(0), np.float32(0))


def _doubles(job):
    _work(job, np.float64(0), np.float64(0))


def _eights(job):
    _work(job, np.int8(0), np.float32(0))


def _eights_in_double(job):
    _work(job, np.int8(0), np.float64(0))


_WORK = {
    (torch.float32, torch.float32): _floats,
    (torch.float64, torch.float64): _doubles,
    (torch.int8, torch.float32): _eights,
    (torch.int8, torch.float64): _eights_in_double,
}


@functools.cache
def _compiled(kept: torch.dtype, dtype: torch.dtype) -> int:
    return int(entry(_WORK[kept, dtype]).address)


def few(q: Tensor, k: tuple[Tensor, ...], v: tuple[Tensor, ...], scale: float) -> tuple[Tensor, Tensor, bool]:
    """(B, H, L, E) and Λ (B, H, L) of queries (B, H, L, D) over what a store keeps of keys and values (B, G, S, ·).

    And whether every Λ is a number.
    """
    (B, H, L, D), (_, G, S, _), E = q.shape, k[0].shape, v[0].shape[3]
    units, R, threads = B * G, H // G * L, threads_of()
    splits = 1 if units >= 4 * threads else max(1, min(S // 2048, -(-4 * threads // max(1, units))))
    asked = q.detach().contiguous()
    out, lse = asked.new_empty(B, H, L, E), asked.new_empty(B, H, L)
    parts = asked.new_empty(units * splits * R * (E + 2))
    where = (x.data_ptr() for x in (asked, out, lse, parts))
    bits = ctypes.c_int64.from_buffer(ctypes.c_double(scale)).value
    numbers = (0, 0, 0, bits, *where, *_lies(k), *_lies(v), G, R, S, D, E, units, splits, 0)
    job = (ctypes.c_int64 * len(numbers))(*numbers)
    together(_compiled(k[0].dtype, q.dtype), ctypes.addressof(job), units * splits)
    return out, lse, not job[int(STRANGE)]


def _lies(parts: tuple[Tensor, ...]) -> tuple[int, ...]:
    """Addresses of the vectors and of their scales (0: none), each with its strides in bytes over (B, G, S)."""
    found: list[int] = []
    for x in parts:
        b, g, row, _ = x.stride()
        size = x.element_size()
        found += (x.data_ptr(), size * b, size * g, size * row)
    return (*found, 0, 0, 0, 0) if len(parts) == 1 else tuple(found)
