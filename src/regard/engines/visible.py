"""What a mask says of a whole read, never holding a boolean for every pair: spans, bands, tiles, who sees how much."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

import torch
from torch import Tensor

from regard.grid import Grid
from regard.mask import Mask, dense
from regard.mask.base import And, Not, Or
from regard.plan import Composition

_BAND = 128  # queries at a time
_CELLS = 1 << 21  # of a mask that are looked at together


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
    """How many tiles run of those there are, and how many pairs are in them.

    Without ``exact`` a mask with gaps is taken by its hull, which costs O(L).
    """
    B, H, L, S = grid.shape
    blocks, across = -(-L // rows), -(-S // columns)
    of = B * H * blocks * across
    if mask is None or 0 in grid.shape:
        return (of, of), B * H * L * S
    lo, hi = mask.hull(grid)
    mb, mh = (max(one, other) for one, other in zip(lo.shape[:2], hi.shape[:2], strict=True))
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


def on(mask: Mask, device: torch.device) -> Mask:
    """The same mask with its tensors on ``device``: inside a kernel nothing can be moved there."""
    if not is_dataclass(mask):
        return mask
    moved = copy.copy(mask)
    for one in fields(mask):
        value = getattr(mask, one.name)
        if isinstance(value, Tensor):
            object.__setattr__(moved, one.name, value.to(device))
        elif isinstance(value, Mask):
            object.__setattr__(moved, one.name, on(value, device))
    return moved


def counts(mask: Mask | None, grid: Grid) -> tuple[Tensor, Tensor | None]:
    """How many keys each query may see, (B, H, L), and which keys are seen at all, (B|1, H|1, S); None is every key."""
    B, H, L, S = grid.shape
    if mask is None:
        return torch.full((1, 1, 1), S, device=grid.i.device).expand(B, H, L), None
    spans = mask.spans(grid)
    if spans is None:
        seen: list[Tensor] = []
        keys: list[Tensor] = []
        for start in range(0, L, _BAND):
            rows = min(_BAND, L - start)
            band = mask.allows(grid.rows(start, start + rows))
            band = band.expand(*band.shape[:3], S)
            seen.append(band.sum(-1).expand(-1, -1, rows))
            keys.append(band.any(2))
        return torch.cat(seen, 2).expand(B, H, L), torch.stack(keys).any(0)
    lo, hi = torch.broadcast_tensors(*spans)
    some = hi > lo
    edges = torch.zeros(*lo.shape[:2], S + 1, dtype=torch.long, device=lo.device)
    edges.scatter_add_(2, torch.where(some, lo, S).long(), some.long())
    edges.scatter_add_(2, torch.where(some, hi, S).long(), -some.long())
    return (hi - lo).clamp(min=0).expand(B, H, L), edges.cumsum(2)[..., :S] > 0


def depends(mask: Mask, grid: Grid) -> tuple[int, int, int]:
    """(B|1, H|1, L|1): which of the leading axes the mask depends on; 1 where it does not."""
    if isinstance(mask, Not):
        return depends(mask.inner, grid)
    if isinstance(mask, And | Or):
        one, other = depends(mask.left, grid), depends(mask.right, grid)
        return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])
    if isinstance(mask, dense):  # of part of a grid it gives every axis
        mask.allows(grid)
        b, h, queries, _ = mask.allowed.shape
        return b, h, queries
    b, h, queries, _ = mask.allows(grid.rows(0, min(2, grid.L))).shape
    return b, h, grid.L if queries > 1 else 1


def live(c: Composition, size: int, exact: bool) -> tuple[tuple[int, int], int]:
    """How many (size × size) tiles run of those there are, and how many pairs are in them.

    Where it need not be exact it is counted on the CPU, so that a device is not waited for.
    """
    device = c.q.device if exact else torch.device("cpu")
    grid = c.grid if exact else Grid.of(*c.grid.shape, device)
    return tiles(None if c.mask is None else on(c.mask, device), grid, size, size, exact)


def key_column(mask: Mask, grid: Grid, G: int) -> Tensor | None:
    """Which keys the mask allows, (B|1, G|1, S, 1), where neither the query nor a query head decides; else None."""
    b, h, queries = depends(mask, grid)
    if queries > 1 or h not in (1, G):
        return None
    return mask.allows(grid.rows(0, 1))[:b, :h].transpose(-2, -1).expand(b, h, grid.S, 1)
