"""The walk of ``kernels`` over tensors on the CPU. Importing this file loads no Numba: that waits for a call."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.memory.linear.features import EluPlusOne, FeatureMap
from regard.memory.linear.within import Sums

#: Pairs of a chunk, and how many there must be at least for the call to be worth it.
CHUNK, LEAST = 32, 32


def can_walk(x: Tensor) -> bool:
    """Whether the kernel is for x (B, H, L, D): on the CPU, and long enough."""
    return x.device.type == "cpu" and x.shape[2] >= LEAST and not torch.compiler.is_compiling()


def in_kernel(features: FeatureMap) -> bool:
    """Whether the kernel makes these features itself, a chunk at a time; others are made before it."""
    return type(features) is EluPlusOne


def walked(
    features: FeatureMap, state: Sums, q: Tensor, k: Tensor, v: Tensor, valid: Tensor | None
) -> tuple[tuple[Tensor, Tensor], Sums] | None:
    """What q (B, H, L, D) reads and its lse, and the sums after; None where numbers leave the kernel's range."""
    import numpy as np

    from regard.kernels.blas import address
    from regard.kernels.workers import share
    from regard.memory.linear import kernels

    elu = in_kernel(features)
    if not elu:
        q, k = features.log(q), features.log(k)
    B, G, L, F = k.shape
    U, E = B * G, v.shape[-1]
    sums, total, top = (x.detach().clone(memory_format=torch.contiguous_format).flatten(0, 1) for x in state)
    out, lse = v.new_empty(B, q.shape[1], L, E), v.new_empty(B, q.shape[1], L)
    lost = np.zeros(U, np.bool_)
    given = kernels.Given(
        _array(q).reshape(U, -1, L, F), _array(k).reshape(U, L, F), _array(v).reshape(U, L, E),
        np.zeros((0, 0), np.bool_) if valid is None else valid.contiguous().numpy(),
        sums.numpy(), total.numpy(), top.numpy(),
        out.numpy().reshape(U, -1, L, E), lse.numpy().reshape(U, -1, L), lost,
    )  # fmt: skip
    limit = v.new_tensor(0.6 * math.log(torch.finfo(v.dtype).max)).numpy()[()]
    share(kernels.walk, [(u, u + 1) for u in range(U)], given, address(v.dtype), elu, np.int64(CHUNK), limit)
    if lost.any():
        return None
    return (out, lse), (sums.unflatten(0, (B, G)), total.unflatten(0, (B, G)), top.unflatten(0, (B, G)))


def _array(x: Tensor) -> Any:
    return x.detach().contiguous().numpy()
