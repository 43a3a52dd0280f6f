"""The softmax read of few queries over many pairs, straight from where a cache keeps them, as floats or in eight bits.

A fused kernel for many queries packs keys and values for its products; a few queries read each number once, so that
packing it costs more than using it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.kernels.compile import kernel
from regard.kernels.vector import at, exp, larger, like, wide_vectors
from regard.kernels.workers import cut, share, splits_of

BLOCK = np.int64(512)  # pairs whose scores are held together


@kernel
def dots(s, q, ref, k, step, D, scale):
    """s_c ← scale · q·k_c, over rows of ``step`` bytes from address k."""
    wide_vectors()
    for c in range(s.shape[0]):
        row = k + step * c
        total = like(s[0], 0)
        for e in range(D):
            total += q[e] * like(s[0], at(ref, row, e))
        s[c] = total * scale


@kernel
def times(s, scales, step):
    """s_c ← s_c · scale_c."""
    for c in range(s.shape[0]):
        s[c] *= like(s[0], at(np.float32(0), scales + step * c, 0))


@kernel
def weigh(s, top):
    """s ← e^{s − top}; their sum, and 0 or NaN by whether all were numbers."""
    wide_vectors()
    total, strange = like(top, 0), like(top, 0)
    for c in range(s.shape[0]):
        strange += s[c] * like(top, 0)
        s[c] = exp(s[c] - top)
        total += s[c]
    return total + strange


@kernel
def gather(out, s, ref, v, step):
    """out ← out + Σ s_c v_c."""
    wide_vectors()
    for c in range(s.shape[0]):
        row, weight = v + step * c, s[c]
        for e in range(out.shape[0]):
            out[e] += weight * like(weight, at(ref, row, e))


@kernel
def read(one, ref, q, keys, values, sizes, scale, tops, sums, outs, first, last):
    """Tasks first … last: a part of the pairs of a key head, read by all its queries; what has to be merged of it."""
    G, R, S, D, splits = sizes
    s = np.empty(BLOCK, outs.dtype)
    for task in range(first, last):
        unit, part = task // splits, task % splits
        b, g = unit // G, unit % G
        begin, end = S * part // splits, S * (part + 1) // splits
        k, k_b, k_g, k_l, k_scale, ks_b, ks_g, ks_l = keys
        v, v_b, v_g, v_l, v_scale, vs_b, vs_g, vs_l = values
        for r in range(R):
            tops[task, r], sums[task, r] = -np.inf, 0.0
        outs[task] = 0.0
        for j in range(begin, end, BLOCK):
            n = min(BLOCK, end - j)
            for r in range(R):
                here = s[:n]
                dots(here, q[unit, r], ref, k + b * k_b + g * k_g + j * k_l, k_l, D, scale)
                if k_scale:
                    times(here, k_scale + b * ks_b + g * ks_g + j * ks_l, ks_l)
                top = tops[task, r]
                for c in range(n):
                    top = larger(top, here[c])
                if top > tops[task, r]:
                    less = exp(tops[task, r] - top) if tops[task, r] > -np.inf else like(one, 0)
                    sums[task, r] *= less
                    for e in range(outs.shape[2]):
                        outs[task, r, e] *= less
                    tops[task, r] = top
                sums[task, r] += weigh(here, top)
                if v_scale:
                    times(here, v_scale + b * vs_b + g * vs_g + j * vs_l, vs_l)
                gather(outs[task, r], here, ref, v + b * v_b + g * v_g + j * v_l, v_l)


def few(q: Tensor, k: tuple[Tensor, ...], v: tuple[Tensor, ...], scale: float) -> tuple[Tensor, Tensor]:
    """(B, G, R, E) and Λ (B, G, R) of queries (B, G, R, D) over what a store keeps of keys and values (B, G, S, ·)."""
    B, G, R, D = q.shape
    S, E = k[0].shape[2], v[0].shape[3]
    splits = splits_of(B * G, int(S // (8 * BLOCK)))
    real: Any = np.float64 if q.dtype == torch.float64 else np.float32
    tops, sums = (np.empty((B * G * splits, R), real) for _ in range(2))
    outs = np.empty((B * G * splits, R, E), real)
    ref = np.int8(0) if k[0].dtype == torch.int8 else real(0)
    asked = q.detach().reshape(B * G, R, D).contiguous().numpy()
    sizes = (G, R, S, D, splits)
    tasks = cut(B * G * splits, float(B * G * R * S) * (D + E))
    share(read, tasks, real(0), ref, asked, _where(k), _where(v), sizes, real(scale), tops, sums, outs)
    top, total, out = (torch.from_numpy(x).unflatten(0, (B, G, splits)) for x in (tops, sums, outs))
    if splits > 1:
        highest = top.amax(2, keepdim=True)
        shares = (top - highest).exp()
        top, total, out = (
            highest,
            (total * shares).sum(2, keepdim=True),
            (out * shares.unsqueeze(-1)).sum(2, keepdim=True),
        )
    lse = top + total.log()
    return (out / total.unsqueeze(-1))[:, :, 0], lse[:, :, 0]


def _where(parts: tuple[Tensor, ...]) -> tuple[int, ...]:
    """Addresses of the vectors and of their scales (0: none), each with its strides in bytes over (B, G, S)."""
    found: list[int] = []
    for x in parts:
        b, g, row, _ = x.stride()
        found += [x.data_ptr(), *(x.element_size() * n for n in (b, g, row))]
    return tuple(found + [0] * (8 - len(found)))
