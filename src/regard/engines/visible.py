"""What a mask says of a whole read, never holding a boolean for every pair: who sees how much, which keys are seen."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor

from regard.engines.tiled.bands import tiles
from regard.grid import Grid
from regard.mask import Mask, dense
from regard.mask.base import And, Not, Or
from regard.plan import Composition

_BAND = 128  # queries at a time


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
