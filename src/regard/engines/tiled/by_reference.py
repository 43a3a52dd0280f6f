"""The reference run a band of queries at a time, for what no kernel knows: O(band · S) memory, with gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.engines.reference import Reference
from regard.normalize import GumbelSoftmax
from regard.plan import Composition, Wanted
from regard.reading import TELEMETRY, Reading

HELD = 1 << 22  # scores that the reference holds together


def by_reference(c: Composition, wanted: Wanted) -> Reading:
    """The reference's reading, a band of queries at a time, each computed again on the way back: O(band · S) memory."""
    B, H, L, S = c.grid.shape
    step = max(1, HELD // max(1, B * H * S))
    drawn = isinstance(c.normalize, GumbelSoftmax) and c.normalize.training
    seed = int(torch.randint(1 << 31, (), generator=getattr(c.normalize, "generator", None))) if drawn else 0
    names = TELEMETRY if wanted.cheap else wanted.names
    inner = replace(wanted, names=names - {"spread"}, cheap=False)
    parts, moments = [], []
    for start in range(0, max(L, 1), step):
        stop = min(L, start + step)
        normalize = c.normalize
        if isinstance(normalize, GumbelSoftmax) and drawn:
            normalize = copy.copy(normalize)
        band = replace(c, q=c.q[:, :, start:stop], grid=c.grid.rows(start, stop), normalize=normalize)

        def read(band: Composition = band, seed: int = seed + start) -> tuple[Reading, tuple[Tensor, ...]]:
            if drawn and isinstance(band.normalize, GumbelSoftmax):
                band.normalize.generator = torch.Generator().manual_seed(seed)
            r = Reference().read(band, inner)
            return r, _moments(band) if "spread" in names else ()

        r, m = _again(read)
        parts.append(r)
        moments.append(m)
    if isinstance(c.normalize, GumbelSoftmax) and drawn:
        c.normalize.step += 1
    return joined(parts, spread=merged_spread(moments) if "spread" in names else None)


def _again(read: Callable[[], tuple[Reading, tuple[Tensor, ...]]]) -> tuple[Reading, tuple[Tensor, ...]]:
    if not torch.is_grad_enabled():
        return read()
    found: tuple[Reading, tuple[Tensor, ...]] = checkpoint(read, use_reentrant=False)
    return found


def _moments(band: Composition) -> tuple[Tensor, ...]:
    """Count, mean and mean squared deviation of each head's scores, (B, H)."""
    s = Reference().scores(band)
    seen = torch.ones_like(s, dtype=torch.bool) if band.mask is None else band.mask.allows(band.grid).expand(s.shape)
    count = seen.sum((-2, -1))
    mean = torch.where(seen, s, 0.0).sum((-2, -1)) / count.clamp(min=1)
    square = torch.where(seen, s - mean[..., None, None], 0.0).square().sum((-2, -1)) / count.clamp(min=1)
    return count, mean, square


def merged_spread(moments: Sequence[tuple[Tensor, ...]]) -> Tensor:
    """The standard deviation of all from count, mean and mean squared deviation of the parts, (B, H)."""
    counts, means, squares = (torch.stack(x) for x in zip(*moments, strict=True))
    total = counts.sum(0).clamp(min=1)
    mean = (counts * means).sum(0) / total
    square = (counts * (squares + (means - mean).square())).sum(0) / total
    return torch.where(square > 0, torch.where(square > 0, square, 1.0).sqrt(), 0.0)


def joined(parts: list[Reading], spread: Tensor | None) -> Reading:
    """Readings of the bands as one reading of all queries."""
    if len(parts) == 1:
        return replace(parts[0], spread=spread)

    def together(name: str) -> Tensor | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else torch.cat(values, dim=2)

    names = ("output", "lse", "seen", "entropy", "bound", "peak", "peak_at", "distance")
    mass = {name: torch.cat([part.mass[name] for part in parts], dim=2) for name in parts[0].mass}
    fields: dict[str, Any] = {name: together(name) for name in names}
    return replace(parts[0], **fields, mass=mass, spread=spread)
