"""Telemetry from a fused kernel that never shows its weights: each statistic is a few more calls of the same kernel.

With Λ(β) the log-sum-exp at scale β: entropy is Λ − E[s], any linear functional of the weights is a column of
values, the
weight of one key is exp(s − Λ), and Σ w^m = exp(Λ(mβ) − mΛ(β)) bounds the largest weight.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.engines.fused import Lowered, fused
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Softmax
from regard.plan import Composition, Wanted

_CHEAP = frozenset({"entropy", "bound", "distance"})
_ORDER = 32  # of the power mean that bounds the peak: within S^(1/32) of it
_BAND = 64  # queries at a time where the scores themselves are needed


def statistics(
    c: Composition, low: Lowered, lse: Tensor, row: Tensor | None, seen: Tensor, wanted: Wanted
) -> dict[str, Any]:
    """The fields of a :class:`~regard.reading.Reading` that were asked for; ``lse`` is of ``low``, without ``row``."""
    names = _CHEAP if wanted.cheap else wanted.names
    low = low.wide()
    nothing = lse == -math.inf
    level = torch.where(nothing, 0.0, lse)
    found: dict[str, Any] = {}
    if "entropy" in names:
        mean_key, _ = fused(low, low.k)
        mean_score = low.scale * (low.q * mean_key).sum(-1)
        found["entropy"] = torch.where(nothing, 0.0, level - mean_score).clamp(min=0)
    if "bound" in names:
        _, sharper = fused(replace(low, scale=low.scale * _ORDER), low.k)
        bound = torch.exp((torch.where(nothing, 0.0, sharper) / _ORDER) - level).clamp(max=1)
        found["bound"] = torch.where(nothing, 0.0, bound)
    if "distance" in names:
        found["distance"] = _distance(c, low, level, nothing)
    if "peak" in names or "spread" in names:
        found |= _banded(c, low, level, nothing, row, names)
    found["mass"] = {name: _mass(c, low, level, nothing, group) for name, group in wanted.groups.items()}
    return found


def _distance(c: Composition, low: Lowered, level: Tensor, nothing: Tensor) -> Tensor:
    """Σ w |i − j|: 2 m (i − p) − (i − p̄), with m and p the mass and mean place of keys up to i, p̄ that of all."""
    L, S = c.grid.L, c.grid.S
    places = c.grid.j.view(1, 1, S, 1).to(low.q.dtype) / S
    column = places.expand(*low.k.shape[:3], 1)
    here = c.grid.query_places("end", "distance")[..., 0].to(low.q.dtype) / S
    mean, _ = fused(low, column)
    past = here - mean.squeeze(-1)
    if not (low.is_causal and L == S):
        before = c.grid.j <= c.grid.query_places("end", "distance")
        if low.is_causal:
            before = before & (c.grid.j <= c.grid.i)
        both = before if low.mask is None else before & low.mask
        mean_before, level_before = fused(replace(low, is_causal=False, mask=both), column)
        mass = torch.where(level_before == -math.inf, 0.0, torch.exp(level_before - level))
        past = 2 * mass * (here - mean_before.squeeze(-1)) - past
    return torch.where(nothing, 0.0, past * S).clamp(min=0)


def _mass(c: Composition, low: Lowered, level: Tensor, nothing: Tensor, group: Mask) -> Tensor:
    """Σ of the weights in ``group``: one value column where only the key decides, else exp(Λ of the joint mask − Λ)."""
    member = group.allows(c.grid)
    G = low.k.shape[1]
    if member.shape[2] == 1 and member.shape[1] in (1, G):
        column = member.transpose(-2, -1).expand(*low.k.shape[:3], 1).to(low.q.dtype)
        return fused(low, column)[0].squeeze(-1)
    if low.is_causal:
        member = member & (c.grid.j <= c.grid.i)
    both = member if low.mask is None else member & low.mask
    _, part = fused(replace(low, is_causal=False, mask=both), low.k)
    return torch.where(nothing | (part == -math.inf), 0.0, torch.exp(torch.where(part == -math.inf, 0.0, part) - level))


def _banded(
    c: Composition, low: Lowered, level: Tensor, nothing: Tensor, row: Tensor | None, names: frozenset[str]
) -> dict[str, Tensor]:
    """Largest weight, where it lies, and the spread of the scores, from the scores, a band of queries at a time."""
    k = low.k.repeat_interleave(low.q.shape[1] // low.k.shape[1], dim=1).transpose(-2, -1)
    peaks, places, counts, sums, squares = [], [], [], [], []
    shift = None
    for start in range(0, c.grid.L, _BAND):
        stop = min(start + _BAND, c.grid.L)
        s = low.scale * (low.q[:, :, start:stop] @ k)
        visible = _visible(low, c.grid, start, stop).expand(s.shape)
        best, at = s.masked_fill(~visible, -math.inf).max(-1)
        peaks.append(torch.where(best == -math.inf, 0.0, torch.exp(best - level[:, :, start:stop])))
        places.append(torch.where(best == -math.inf, -1, at))
        if "spread" in names:
            s = s if row is None else s + row[:, :, start:stop]
            s = s.double()
            shift = s[:, :, :1, :1].detach() if shift is None else shift
            s = torch.where(visible, s - shift, 0.0)
            counts.append(visible.sum((-2, -1)))
            sums.append(s.sum((-2, -1)))
            squares.append(s.square().sum((-2, -1)))
    peak = torch.cat(peaks, -1)
    found = {"peak": peak, "peak_at": torch.cat(places, -1)}
    if "bound" in names:
        found["bound"] = peak
    if "spread" in names:
        n = torch.stack(counts).sum(0).clamp(min=1)
        mean = torch.stack(sums).sum(0) / n
        variance = torch.stack(squares).sum(0) / n - mean.square()
        assert isinstance(c.normalize, Softmax)  # the only one that lowers; the spread is that of s, not of s/τ
        found["spread"] = (c.normalize.temperature * variance.clamp(min=0).sqrt()).to(level.dtype)
    return found


def _visible(low: Lowered, grid: Grid, start: int, stop: int) -> Tensor:
    if low.is_causal:
        return grid.j <= grid.i[:, :, start:stop]
    if low.mask is None:
        return torch.ones((), dtype=torch.bool, device=low.q.device)
    return low.mask if low.mask.shape[2] == 1 else low.mask[:, :, start:stop]
