"""From tensors to kernels: the arguments of a call, as Numba takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.engines.tiled import scores
from regard.engines.tiled.sight import Sight
from regard.kernels import blas
from regard.kernels.workers import cut, share

_HIGHEST = 11.0  # of |q′| + |k′| up to which four factors 1 + e^{2(q′+k′)} have a product in single precision


def rows_apart(x: Tensor) -> Tensor:
    """x (…, L, D) as a BLAS takes it: the numbers of a row next to each other, rows that do not overlap."""
    x = x.detach()
    fits = x.stride(-1) == 1 and (x.stride(-2) >= x.shape[-1] or x.shape[-2] <= 1)
    return x if fits else x.contiguous()


def strides(x: Tensor) -> tuple[int, int, int]:
    """Of the leading axes of a four-axis tensor, in numbers; a row is never said to be shorter than it is wide."""
    b, h, row, _ = x.stride()
    return b, h, max(row, x.shape[-1], 1)


def array(x: Tensor) -> Any:
    return x.detach().contiguous().numpy()


def scores_of(
    q: Tensor,
    k: Tensor,
    kind: int,
    scale: float,
    energy: Tensor | None,
    table: Tensor | None,
    row: Tensor | None,
    numbers: Tensor,
    steps: Sequence[int],
    seed: int,
) -> tuple[scores.Scores, list[Tensor]]:
    """The namedtuple, and the tensors that must live as long as it is used."""
    B, H, L, A = q.shape
    G, S = k.shape[1:3]
    real = np.float64 if q.dtype == torch.float64 else np.float32
    if kind == scores.TANH:
        assert energy is not None
        if _largest(q) + _largest(k) <= _HIGHEST:
            kind = scores.TANH_FACTORED
        energy = F.pad(energy.detach(), (0, -A % 4)) if A % 4 else energy
    q, k = rows_apart(q), rows_apart(k)
    made = scores.Scores(
        blas.address(q.dtype),
        kind,
        q.data_ptr(),
        strides(q),
        k.data_ptr(),
        strides(k),
        (B, H, G, L, S, A),
        real(scale),
        np.empty(0, real) if energy is None else array(energy),
        np.array(steps, np.int64).reshape(-1, 4),
        numbers.numpy().astype(real).reshape(-1, H),
        np.empty((H, 0), real) if table is None else array(table),
        np.empty((0, 0), real) if row is None else array(row).reshape(B * H, L),
        np.uint32(seed),
    )
    return made, [q, k]


def _largest(x: Tensor) -> float:
    """max |x|."""
    rows = x.detach().reshape(-1, x.shape[-1])
    found = np.zeros(rows.shape[0])
    if rows.numel():
        share(scores.largest, cut(rows.shape[0], rows.numel()), array(rows), found)
    return float(found.max()) if found.size else 0.0


def sight_of(lo: Tensor, hi: Tensor, allowed: Tensor | None, first: int, L: int) -> tuple[Sight, list[Tensor]]:
    """Spans (b, h, l) that broadcast, and where they have gaps booleans (b, h, l, ·), whose first key is ``first``."""
    mb, mh = torch.broadcast_shapes(lo.shape[:2], hi.shape[:2])
    lo, hi = (x.expand(mb, mh, L).to(torch.int64).reshape(mb * mh, L).contiguous() for x in (lo, hi))
    address, steps, held = 0, (0, 0, 0), []
    if allowed is not None:
        allowed = allowed if allowed.stride(-1) == 1 else allowed.contiguous()
        b, h, i, _ = (0 if n == 1 else stride for n, stride in zip(allowed.shape, allowed.stride(), strict=True))
        address, steps, held = allowed.data_ptr() - first, (b, h, i), [allowed]
    return Sight(lo.numpy(), hi.numpy(), mb, mh, address, steps), held


def values_of(v: Tensor, tags: Tensor, rate: float, seed: int, shift: int) -> tuple[Any, list[Tensor]]:
    from regard.engines.tiled.softmax import Values

    v = rows_apart(v)
    return Values(v.data_ptr(), strides(v), v.shape[-1], array(tags), np.float64(rate), _dice(seed), shift), [v]


def _dice(seed: int) -> np.uint32:
    """For dropping weights, apart from the dice of the scores' noise."""
    return np.uint32((seed ^ 0x5BD1E995) & 0xFFFFFFFF)  # type: ignore[no-any-return]


def flat(x: Tensor | None, like: Tensor, L: int) -> Any:
    """(B, H, L) as (B·H, L); what was not asked for as (0, L), so that it has a type and no numbers."""
    x = like.new_empty(0) if x is None else x
    return array(x).reshape(-1 if L else 0, L)


def pulled_like(sc: scores.Scores, q: Tensor, splits: int, units: int) -> tuple[scores.Pulled, list[Tensor]]:
    """Room for the gradients of scores, at 0."""
    B, H, G, L, S, A = sc.sizes
    tanh = sc.kind != scores.PRODUCT
    room = [
        q.new_zeros(B * H, L, A),
        q.new_zeros(splits, B * G, S, A),
        q.new_zeros(units if tanh else 0, A + 1),
        q.new_zeros(units if sc.table.shape[1] else 0, H, sc.table.shape[1]),
        q.new_zeros(B * H if sc.row.size else 0, L),
    ]
    return scores.Pulled(*(x.numpy() for x in room)), room


def together(parts: Tensor) -> Tensor:
    """The sum of what the splits hold."""
    return parts[0] if parts.shape[0] == 1 else parts.sum(0)


def pulled_back(sc: scores.Scores, room: list[Tensor], width: int, energy: Tensor | None) -> tuple[Tensor, ...]:
    """Gradients of q, k, energy, table and row from the room they were summed in."""
    B, H, G, L, S, A = sc.sizes
    dq, dk, de, table, row = room
    dq, dk = dq.view(B, H, L, A)[..., :width], together(dk).view(B, G, S, A)[..., :width]
    if energy is not None:
        slope = 4 * energy.detach()
        dq, dk = dq * slope, dk * slope
        de = de.sum(0)
        de = (de[-1] - 2 * de[:-1])[:width]
    return dq, dk, de, table.sum(0), row.view(B, H, L) if row.numel() else row.view(0)


def kept(at: Tensor, rate: float, seed: int, dtype: torch.dtype) -> Tensor:
    """What dropout makes of the weights at the keys ``at`` (B, H, L)."""
    from regard.engines.tiled.loops import drop_at

    weights = torch.ones(at.numel(), dtype=dtype)
    drop_at(weights.numpy(), array(at).reshape(-1), np.float64(rate), _dice(seed))
    return weights.view(at.shape)
