"""A composition in the kernels' words: a recipe of scores, and who sees what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.engines.memory import without_hidden
from regard.engines.tiled.recipe import Recipe, recipe
from regard.engines.visible import counts, on
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Entmax, Softmax
from regard.numerics import wide
from regard.plan import Composition
from regard.score import Dot, ScaledDot, Score, Wrapped


@dataclass(frozen=True)
class Sight:
    """Which keys a query sees: lo ≤ j < hi (B, H, L), the hull of each block of ``side`` queries, and the gaps."""

    side: int
    lo: Tensor
    hi: Tensor
    first: Tensor
    last: Tensor
    allowed: Tensor | None = None
    tiles: Tensor | None = None


@dataclass(frozen=True)
class Lowered:
    """A recipe of scores, α of every head where rows are normalised by entmax, and what may be seen."""

    recipe: Recipe
    alpha: Tensor | None
    mask: Mask | None
    sight: Sight

    def within(self, group: Mask, grid: Grid) -> Lowered:
        """The same with the mask narrowed to ``group``."""
        group = on(group, grid.i.device)
        mask = group if self.mask is None else self.mask & group
        return replace(self, mask=mask, sight=sight(mask, grid, self.sight.side))

    @property
    def scores(self) -> tuple[Any, ...]:
        """The recipe as the operator takes it: tensors, and then numbers."""
        made, dtype = self.recipe, wide(self.recipe.q).dtype
        B, H, L, _ = made.q.shape
        numbers = [x.to(made.q.device, dtype) for x in made.numbers]
        learnt = [None if x is None else x.to(dtype).contiguous() for x in (made.energy, made.row, made.table)]
        return (
            learnt[0],
            self.alpha,
            None if learnt[1] is None else learnt[1].expand(B, H, L).contiguous(),
            learnt[2],
            torch.stack(numbers) if numbers else made.q.new_zeros((1, H), dtype=dtype),
        )


def leaf(score: Score) -> Score:
    """The product inside all that is put around it."""
    while isinstance(score, Wrapped):
        score = score.inner
    return score


def lowered(c: Composition, side: int) -> tuple[Lowered, Tensor]:
    """The composition for tiles of that side, and its values."""
    mask = None if c.mask is None else on(c.mask, c.q.device)
    keys = counts(mask, c.grid)[1]
    k, v = without_hidden(c.k, c.v, None if keys is None else keys.unsqueeze(-2))
    # A product of queries and keys as they are is exact in half precision; whatever turns them first is not.
    q, k = (c.q, k) if type(c.score) in (Dot, ScaledDot) else (wide(c.q), wide(k))
    made = recipe(c.score, c.score.queries(q, c.grid), c.score.keys(k, c.grid), c.grid)
    if isinstance(c.normalize, Softmax):
        made = made.tempered(c.normalize.temperature)
    return Lowered(made, _alpha(c), mask, sight(mask, c.grid, side)), v


def sight(mask: Mask | None, grid: Grid, tile: int) -> Sight:
    """Two numbers a query where it sees one interval, as under most masks; else those and a byte a pair."""
    B, H, L, S = grid.shape
    if mask is None:
        lo, hi = grid.i.new_zeros(1, 1, 1), grid.i.new_full((1, 1, 1), S)
        return Sight(tile, *_blocks(lo, hi, grid, tile))
    spans = mask.spans(grid)
    edges = _blocks(*(mask.hull(grid) if spans is None else spans), grid, tile)
    if spans is not None:
        return Sight(tile, *edges)
    allowed = mask.allows(grid)
    b, h = allowed.shape[:2]
    whole = F.pad(allowed.expand(b, h, L, S), (0, -S % tile, 0, -L % tile))
    tiles = whole.unflatten(3, (-1, tile)).any(4).unflatten(2, (-1, tile)).any(3)
    tiles = tiles.expand(B, H, *tiles.shape[2:]).contiguous()
    return Sight(tile, *edges, allowed.contiguous().view(torch.uint8), tiles.view(torch.uint8))


def _blocks(lo: Tensor, hi: Tensor, grid: Grid, tile: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """lo and hi of every query, S and 0 where it sees nothing, and the least and the largest of each block."""
    B, H, L, S = grid.shape
    lo, hi = (x.clamp(0, S) for x in torch.broadcast_tensors(lo, hi))
    empty = hi <= lo
    lo, hi = torch.where(empty, S, lo), torch.where(empty, 0, hi)
    lo, hi = (x.expand(B, H, L).to(torch.int32).contiguous() for x in (lo, hi))
    first = F.pad(lo, (0, -L % tile), value=S).unflatten(2, (-1, tile)).amin(3)
    last = F.pad(hi, (0, -L % tile), value=0).unflatten(2, (-1, tile)).amax(3)
    return lo, hi, first, last


def _alpha(c: Composition) -> Tensor | None:
    """α of every head, (H,); None for softmax."""
    if not isinstance(c.normalize, Entmax):
        return None
    alpha = torch.as_tensor(c.normalize.alpha, dtype=wide(c.q).dtype, device=c.q.device)
    return alpha.expand(c.grid.shape[1]).contiguous()
