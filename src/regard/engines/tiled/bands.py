"""Bands of queries: what each may see, O(band · S) of it at a time, and the reference run band by band."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.engines.reference import Reference
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import GumbelSoftmax
from regard.plan import Composition, Wanted
from regard.reading import TELEMETRY, Reading

_CELLS = 1 << 21  # of a mask that are looked at together
HELD = 1 << 22  # scores that the reference holds together


@dataclass(frozen=True)
class Band:
    """Queries start ≤ i < stop: the keys lo ≤ j < hi of each, and which of them where there are gaps.

    ``allowed`` (b, h, i, ·) begins at key ``first``.
    """

    start: int
    stop: int
    lo: Tensor
    hi: Tensor
    allowed: Tensor | None = None
    first: int = 0

    def seen(self) -> Tensor:
        """How many keys each query may see, (b, h, l)."""
        if self.allowed is None:
            return (self.hi - self.lo).clamp(min=0)
        return self.allowed.sum(-1)


def bands(mask: Mask | None, grid: Grid) -> list[Band]:
    """One band where every row is an interval; where not, as many as keep a look at the mask small."""
    L, S = grid.L, grid.S
    if mask is None:
        nothing = grid.i.new_zeros(1, 1, 1)
        return [Band(0, L, nothing, torch.full_like(nothing, S))]
    spans = mask.spans(grid)
    if spans is not None:
        return [Band(0, L, *spans)]
    if torch.compiler.is_compiling():
        lo, hi = mask.hull(grid)
        return [Band(0, L, lo, hi, _whole(mask.allows(grid), S))]
    return list(_with_gaps(mask, grid))


def _with_gaps(mask: Mask, grid: Grid) -> Iterator[Band]:
    L, S = grid.shape[2:]
    one = mask.allows(grid.rows(0, 1))
    step = max(64, _CELLS // max(1, one.shape[0] * one.shape[1] * S))
    for start in range(0, max(L, 1), step):
        rows = grid.rows(start, min(L, start + step))
        lo, hi = mask.hull(rows)
        first, last = max(0, int(lo.min())) if lo.numel() else 0, min(S, int(hi.max())) if hi.numel() else 0
        first = min(first, max(last, 0))
        part = replace(rows, j=rows.j[..., first : max(first, last)])
        allowed = _whole(mask.allows(part), part.shape[3])
        yield Band(start, min(L, start + step), lo.clamp(first, None), hi.clamp(None, last), allowed, first)


def block(lo: Tensor, hi: Tensor, most: int) -> int:
    """How many queries go together: ``most``, and fewer where each sees few keys, because a block computes every pair
    between its first row's first key and its last row's last."""
    width = int((hi - lo).max()) if hi.numel() and lo.numel() else 0
    return min(most, max(64, -(-width // 64) * 32))


def tiles(mask: Mask | None, grid: Grid, rows: int, columns: int, exact: bool) -> tuple[tuple[int, int], int]:
    """How many tiles run of those there are, and how many pairs are in them; ``rows`` is the most a tile has.

    Without ``exact`` a mask with gaps is taken by its hull, which costs O(L).
    """
    B, H, L, S = grid.shape
    if mask is not None:
        rows = block(*mask.hull(grid), rows)
    blocks, across = -(-L // rows), -(-S // columns)
    of = B * H * blocks * across
    if mask is None or 0 in grid.shape:
        return (of, of), B * H * L * S
    lo, hi = mask.hull(grid)
    mb, mh = torch.broadcast_shapes(lo.shape[:2], hi.shape[:2])
    far = torch.iinfo(torch.int64).max
    lo, hi = (x.expand(mb, mh, L) for x in (lo, hi))
    lo = torch.where(hi > lo, lo, far)
    first = torch.stack([x.amin(-1) for x in lo.split(rows, -1)], -1)
    last = torch.stack([x.amax(-1) for x in hi.split(rows, -1)], -1)
    width = (last - first.clamp(max=S)).clamp(min=0)
    run, pairs = int((-(-width // columns)).sum()), int(width.sum()) * rows
    if exact and mask.spans(grid) is None:
        run, pairs = 0, 0
        for band in bands(mask, grid):
            assert band.allowed is not None
            mb, mh = band.allowed.shape[:2]
            allowed = band.allowed.expand(mb, mh, band.stop - band.start, -1)
            for part in allowed.split(rows, 2):
                live = [(int(tile.any(-1).sum()), tile.shape[-1]) for tile in part.any(2).split(columns, -1)]
                run += sum(count for count, _ in live)
                pairs += sum(count * width for count, width in live) * part.shape[2]
    share = (B // mb) * (H // mh)  # reads that share a mask
    return (min(of, run * share), of), min(pairs * share, B * H * L * S)


def _whole(allowed: Tensor, S: int) -> Tensor:
    return allowed if allowed.shape[3] == S else allowed.expand(*allowed.shape[:3], S)


def seen_by_anyone(mask: Mask, grid: Grid) -> Tensor:
    """Which keys some query may see, (b, h, 1, S)."""
    found: Tensor | None = None
    step = max(64, _CELLS // max(1, grid.S))
    for start in range(0, max(grid.L, 1), step):
        band = _whole(mask.allows(grid.rows(start, min(grid.L, start + step))), grid.S).any(2, keepdim=True)
        found = band if found is None else found | band
    assert found is not None
    return found


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
