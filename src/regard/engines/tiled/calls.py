"""From tensors to kernels: the arguments of a call, as Numba takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.engines.tiled import scores
from regard.engines.tiled.given import Given
from regard.engines.tiled.sight import Sight
from regard.engines.tiled.softmax import Values
from regard.kernels import blas
from regard.kernels.workers import cut, share, splits_of

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


class Call:
    """The arguments of a kernel; what they point at lives as long as this does."""

    def __init__(self, g: Given, before: int = 0) -> None:
        """``before``: how many reads stand before the first, for the dice."""
        self.given, self.before = g, np.int64(before * g.q.shape[2])
        self.v = rows_apart(g.v)
        self.q, self.k = rows_apart(g.q), rows_apart(g.k)
        self.scores = self._scores()
        self.values = Values(
            self.v.data_ptr(), strides(self.v), g.v.shape[-1], array(g.tags), np.float64(g.rate), _dice(g.seed),
            self.before, g.shift,
        )  # fmt: skip
        self.sight = self._sight()

    @property
    def caps(self) -> int:
        return sum(code == scores.CAP for code in self.given.steps[::4])

    def _scores(self) -> scores.Scores:
        g = self.given
        B, H, G, L, S, A, _ = g.sizes
        real = np.float64 if g.q.dtype == torch.float64 else np.float32
        energy, factored = g.energy, np.zeros(B, np.bool_)
        if g.kind == scores.TANH:
            assert energy is not None
            # Of each entry of the batch by itself: it is computed in one way, whatever stands beside it.
            factored = _largest(self.q) + _largest(self.k) <= _HIGHEST
            energy = F.pad(energy.detach(), (0, -A % 4)) if A % 4 else energy
        return scores.Scores(
            blas.address(g.q.dtype),
            g.kind,
            factored,
            self.q.data_ptr(),
            strides(self.q),
            self.k.data_ptr(),
            strides(self.k),
            (B, H, G, L, S, A),
            real(g.scale),
            np.empty(0, real) if energy is None else array(energy),
            np.array(g.steps, np.int64).reshape(-1, 4),
            g.numbers.numpy().astype(real).reshape(-1, H),
            np.empty((H, 0), real) if g.table is None else array(g.table),
            np.empty((0, 0), real) if g.row is None else array(g.row).reshape(B * H, L),
            np.uint32(g.seed),
            self.before,
        )

    def _sight(self) -> Sight:
        g, L = self.given, self.q.shape[2]
        masks = [g.lo, g.hi] if g.at is None else [g.lo, g.hi, g.at]
        mb, mh = (max(sizes) for sizes in zip(*(x.shape[:2] for x in masks), strict=True))
        lo, hi = (array(x.expand(mb, mh, L).to(torch.int64)).reshape(mb * mh, L) for x in (g.lo, g.hi))
        if g.at is None or g.words is None:
            return Sight(lo, hi, mb, mh, 0, np.empty((0, 0, 0), np.int32), np.empty((0, 0), np.int64))
        at = array(g.at.expand(mb, mh, -1, -1)).reshape(mb * mh, *g.at.shape[2:])
        return Sight(lo, hi, mb, mh, g.words.shape[1], at, array(g.words))


def _largest(x: Tensor) -> Any:
    """max |x| of each entry of the batch."""
    rows = x.detach().reshape(-1, x.shape[-1])
    found = np.zeros(rows.shape[0])
    if rows.numel():
        share(scores.largest, cut(rows.shape[0], rows.numel()), array(rows), found)
    return found.reshape(x.shape[0], x.shape[1] * x.shape[2]).max(1, initial=0.0)


def _dice(seed: int) -> np.uint32:
    """For dropping weights, apart from the dice of the scores' noise."""
    return np.uint32((seed ^ 0x5BD1E995) & 0xFFFFFFFF)  # type: ignore[no-any-return]


def flat(x: Tensor | None, g: Given) -> Any:
    """(B, H, L) as (B·H, L); what was not asked for as (0, L), so that it has a type and no numbers."""
    x, L = g.q.new_empty(0) if x is None else x, g.q.shape[2]
    return array(x).reshape(-1 if L else 0, L)


class Room:
    """Room for the gradients of a call, at 0: queries in ``splits`` parts with sums of their own, one run a unit."""

    def __init__(self, call: Call, blocks: int) -> None:
        B, H, G, L, S, A = call.scores.sizes
        q, self.call, tanh = call.given.q, call, call.scores.kind != scores.PRODUCT
        self.splits = splits_of(B * G, blocks)
        units = B * G * self.splits
        self.runs = cut(units, 3 * B * H * L * S * A)
        self.v = q.new_zeros(self.splits, B * G, S, call.given.v.shape[3])
        self.parts = [
            q.new_zeros(B * H, L, A),
            q.new_zeros(self.splits, B * G, S, A),
            q.new_zeros(units if tanh else 0, A + 1),
            q.new_zeros(units if call.scores.table.shape[1] else 0, H, call.scores.table.shape[1]),
            q.new_zeros(B * H if call.scores.row.size else 0, L),
        ]
        self.pulled = scores.Pulled(*(x.numpy() for x in self.parts))

    def gradients(self) -> tuple[Tensor, ...]:
        """Of q, k, energy, table, row and v."""
        B, H, G, L, S, A = self.call.scores.sizes
        dq, dk, de, table, row = self.parts
        dq, dk = dq.view(B, H, L, A), _together(dk).view(B, G, S, A)
        energy = self.call.given.energy
        if energy is not None:
            slope = 4 * energy.detach()
            dq, dk, de = dq * slope, dk * slope, de.sum(0)
            de = de[-1] - 2 * de[:-1]
        row = row.view(B, H, L) if row.numel() else row.view(0)
        return dq, dk, de, table.sum(0), row, _together(self.v).view(B, G, S, self.v.shape[-1])


def _together(parts: Tensor) -> Tensor:
    """The sum of what the splits hold."""
    return parts[0] if parts.shape[0] == 1 else parts.sum(0)


def kept(at: Tensor, rate: float, seed: int, dtype: torch.dtype) -> Tensor:
    """What dropout makes of the weights at the keys ``at`` (B, H, L)."""
    from regard.engines.tiled.loops import drop_at

    weights = torch.ones(at.numel(), dtype=dtype)
    drop_at(weights.numpy(), array(at).reshape(-1), np.float64(rate), _dice(seed))
    return weights.view(at.shape)
