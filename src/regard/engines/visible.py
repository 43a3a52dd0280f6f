"""What a mask says of a whole read, without a boolean for every pair: tiles, who sees how much."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.grid import Grid
from regard.mask import Mask, dense
from regard.mask.base import And, Not, Or
from regard.mask.tiles import cells, edges, looked, outlined
from regard.plan import Composition

_BAND = 128  # queries at a time


def block(lo: Tensor, hi: Tensor, most: int) -> int:
    """How many queries go together: ``most``, and fewer where each sees few keys, because a block computes every pair
    between its first row's first key and its last row's last."""
    width = int((hi - lo).median()) if hi.numel() and lo.numel() else 0
    return min(most, max(64, -(-width // 64) * 32))


class Cells(NamedTuple):
    """Which (size × size) tiles have a pair that may be seen, (b, h, rows, columns)."""

    live: Tensor
    size: int

    def of(self, rows: int) -> Tensor:
        """Which are computed by blocks of so many queries, a multiple of the size: all that one of its rows wants."""
        return cells(self.live.transpose(2, 3), rows // self.size).any(-1).transpose(2, 3)

    def block(self, most: int) -> int:
        """How many queries go together: what computes least. A block of few queries costs some more for each pair."""
        choices = [self.size << power for power in range(8) if self.size << power <= most]
        return min(choices, key=lambda rows: int(self.of(rows).sum()) * (rows + 8), default=most)


def live_cells(mask: Mask | None, grid: Grid, size: int, exact: bool) -> Cells | None:
    """The live tiles of a mask; None where intervals say it all.

    Without ``exact`` a tile that the mask's outline leaves open is taken to have one.
    """
    if mask is None or 0 in grid.shape or mask.spans(grid) is not None:
        return None
    some, every = outlined(mask, grid, size)
    if exact:
        some = some.clone()
        for which, allowed in looked(mask, grid, size, (some & ~every).nonzero()):
            some[which.unbind(1)] = allowed.any(2).any(1)
    return Cells(some, size)


def tiles(mask: Mask | None, grid: Grid, rows: int, columns: int, live: Cells | None) -> tuple[tuple[int, int], int]:
    """How many (rows × columns) tiles run of those there are, and how many pairs are computed in them.

    ``rows`` and ``columns`` are multiples of the size of ``live``; of a tile only live columns of cells are computed.
    """
    B, H, L, S = grid.shape
    blocks, across = -(-L // rows), -(-S // columns)
    of = B * H * blocks * across
    if mask is None or 0 in grid.shape:
        return (of, of), B * H * L * S
    if live is None:
        lo, hi = mask.hull(grid)
        mb, mh = (max(one, other) for one, other in zip(lo.shape[:2], hi.shape[:2], strict=True))
        far = torch.iinfo(torch.int64).max
        lo, hi = (x.expand(mb, mh, L) for x in (lo, hi))
        lo = torch.where(hi > lo, lo, far)
        first = torch.stack([x.amin(-1) for x in lo.split(rows, -1)], -1)
        last = torch.stack([x.amax(-1) for x in hi.split(rows, -1)], -1)
        width = (last - first.clamp(max=S)).clamp(min=0)
        run, pairs = int((-(-width // columns)).sum()), int(width.sum()) * rows
    else:
        mb, mh = live.live.shape[:2]
        wanted = live.of(rows)
        run = int(cells(wanted, columns // live.size).any(-1).sum())
        (top, bottom), (left, right) = edges(L, rows, wanted.device), edges(S, live.size, wanted.device)
        pairs = int((wanted * (bottom - top + 1).unsqueeze(1) * (right - left + 1)).sum())
    share = (B // mb) * (H // mh)  # reads that share a mask
    return (min(of, run * share), of), min(pairs * share, B * H * L * S)


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
    mask = None if c.mask is None else on(c.mask, device)
    return tiles(mask, grid, size, size, live_cells(mask, grid, size, exact))


def key_column(mask: Mask, grid: Grid, G: int) -> Tensor | None:
    """Which keys the mask allows, (B|1, G|1, S, 1), where neither the query nor a query head decides; else None."""
    b, h, queries = depends(mask, grid)
    if queries > 1 or h not in (1, G):
        return None
    return mask.allows(grid.rows(0, 1))[:b, :h].transpose(-2, -1).expand(b, h, grid.S, 1)
