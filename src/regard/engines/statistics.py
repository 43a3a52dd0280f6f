"""Telemetry from a fused kernel that never shows its weights: each statistic is a few more calls of the same kernel.

With Λ(β) the log-sum-exp at scale β: entropy is Λ − E[s], any linear functional of the weights is a column of values,
the weight of a group is exp(Λ of the group − Λ), and Σ w^m = exp(Λ(mβ) − mΛ(β)) bounds the largest weight.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.engines.fused import Lowered, fused, level
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Softmax
from regard.plan import Composition, Wanted

_CHEAP = frozenset({"entropy", "bound", "distance"})
_ORDER = 32  # of the power mean that bounds the peak: within S^(1/32) of it
_BAND = 64  # queries at a time where the scores themselves are needed


def measure(c: Composition, low: Lowered, v: Tensor, row: Tensor | None, wanted: Wanted) -> dict[str, Any]:
    """The output, the lse and what was wanted, as fields of a :class:`~regard.reading.Reading`.

    Whatever is linear in the weights (the output, E[k] for the entropy, the share of a group of keys, the mean place)
    is a column of values, and all columns are read by one call.
    """
    names = _CHEAP if wanted.cheap else wanted.names
    if names or wanted.groups:
        low, v = low.wide(), v.to(low.wide().q.dtype)
    columns = {"output": v}
    if "entropy" in names:
        columns["key"] = low.k
    if "distance" in names:
        columns["place"] = _places(c, low)
    for name, group in wanted.groups.items():
        member = group.allows(c.grid)
        if member.shape[2] == 1 and member.shape[1] in (1, low.k.shape[1]):  # only the key decides
            columns[f"in {name}"] = member.transpose(-2, -1).expand(*low.k.shape[:3], 1).to(low.q.dtype)
    read, lse = _read(low, columns)
    nothing = lse == -math.inf
    total = torch.where(nothing, 0.0, lse)
    found: dict[str, Any] = {"output": read["output"], "lse": lse if row is None else lse + row.squeeze(-1)}
    if "entropy" in names:
        mean_score = low.scale * (low.q * read["key"]).sum(-1)
        found["entropy"] = torch.where(nothing, 0.0, total - mean_score).clamp(min=0)
    if "bound" in names and "peak" not in names:
        sharper = level(replace(low, scale=low.scale * _ORDER))
        bound = torch.exp((torch.where(nothing, 0.0, sharper) / _ORDER) - total).clamp(max=1)
        found["bound"] = torch.where(nothing, 0.0, bound)
    if "distance" in names:
        found["distance"] = _distance(c, low, read["place"].squeeze(-1), total, nothing)
    if "peak" in names or "spread" in names:
        found |= _banded(c, low, total, nothing, row, names)
    found["mass"] = {
        name: read[f"in {name}"].squeeze(-1) if f"in {name}" in read else _mass(c, low, total, nothing, group)
        for name, group in wanted.groups.items()
    }
    return found


def _read(low: Lowered, columns: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
    widths = [column.shape[-1] for column in columns.values()]
    together, lse = fused(low, *columns.values())
    return dict(zip(columns, together.split(widths, -1), strict=True)), lse


def _places(c: Composition, low: Lowered) -> Tensor:
    """Where each key stands, as a share of S, as one column of values."""
    return (c.grid.j.view(1, 1, -1, 1).to(low.q.dtype) / c.grid.S).expand(*low.k.shape[:3], 1)


def _distance(c: Composition, low: Lowered, mean: Tensor, total: Tensor, nothing: Tensor) -> Tensor:
    """Σ w |i − j|: 2 m (i − p) − (i − p̄), with m and p the mass and mean place of keys up to i, p̄ that of all."""
    L, S = c.grid.L, c.grid.S
    here = c.grid.query_places("end", "distance")[..., 0].to(low.q.dtype) / S
    past = here - mean
    if not (low.is_causal and L == S):
        before = c.grid.j <= c.grid.query_places("end", "distance")
        mean_before, total_before = fused(_within(c, low, before), _places(c, low))
        mass = torch.where(total_before == -math.inf, 0.0, torch.exp(total_before - total))
        past = 2 * mass * (here - mean_before.squeeze(-1)) - past
    return torch.where(nothing, 0.0, past * S).clamp(min=0)


def _mass(c: Composition, low: Lowered, total: Tensor, nothing: Tensor, group: Mask) -> Tensor:
    """Σ of the weights in a group that depends on the query too: exp(Λ of the group alone − Λ)."""
    part = level(_within(c, low, group.allows(c.grid)))
    absent = nothing | (part == -math.inf)
    return torch.where(absent, 0.0, torch.exp(torch.where(absent, 0.0, part) - total))


def _within(c: Composition, low: Lowered, allowed: Tensor) -> Lowered:
    """``low`` with the mask narrowed to ``allowed``."""
    if low.is_causal:
        allowed = allowed & (c.grid.j <= c.grid.i)
    return replace(low, is_causal=False, mask=allowed if low.mask is None else allowed & low.mask)


def _banded(
    c: Composition, low: Lowered, total: Tensor, nothing: Tensor, row: Tensor | None, names: frozenset[str]
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
        peaks.append(torch.where(best == -math.inf, 0.0, torch.exp(best - total[:, :, start:stop])))
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
        found["spread"] = (c.normalize.temperature * variance.clamp(min=0).sqrt()).to(total.dtype)
    return found


def _visible(low: Lowered, grid: Grid, start: int, stop: int) -> Tensor:
    if low.is_causal:
        return grid.j <= grid.i[:, :, start:stop]
    if low.mask is None:
        return torch.ones((), dtype=torch.bool, device=low.q.device)
    return low.mask if low.mask.shape[2] == 1 else low.mask[:, :, start:stop]
