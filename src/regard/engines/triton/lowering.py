"""A composition in the kernels' words: turned queries and keys, one number or vector of a score, and who sees what."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.engines.memory import without_hidden
from regard.engines.visible import counts, on
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Entmax, Softmax
from regard.numerics import wide
from regard.plan import Composition
from regard.score import Additive, Concat, Dot, ScaledDot, Score, Wrapped


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
    """Scores as ``scale · q·k``, or as ``energyᵀ tanh(q + k)``; ``row`` (B, H, L) stands aside: it moves no weight."""

    q: Tensor
    k: Tensor
    energy: Tensor | None
    alpha: Tensor | None
    scale: float
    row: Tensor | None
    mask: Mask | None
    sight: Sight

    def within(self, group: Mask, grid: Grid, tile: int) -> Lowered:
        """The same with the mask narrowed to ``group``."""
        group = on(group, self.q.device)
        mask = group if self.mask is None else self.mask & group
        return replace(self, mask=mask, sight=sight(mask, grid, tile))


def base_of(score: Score) -> Score:
    """The score inside those that only turn queries and keys."""
    while isinstance(score, Wrapped) and type(score).compare is Wrapped.compare:
        score = score.inner
    return score


def lowered(c: Composition, tile: int) -> tuple[Lowered, Tensor]:
    """The composition for tiles of side ``tile``, and its values."""
    mask = None if c.mask is None else on(c.mask, c.q.device)
    keys = counts(mask, c.grid)[1]
    k, v = without_hidden(c.k, c.v, None if keys is None else keys.unsqueeze(-2))
    base, tau = base_of(c.score), c.normalize.temperature if isinstance(c.normalize, Softmax) else 1.0
    # A product of queries and keys as they are is exact in half precision; whatever turns them first is not.
    q, k = (c.q, k) if type(c.score) in (Dot, ScaledDot) else (wide(c.q), wide(k))
    q, k = c.score.queries(q, c.grid), c.score.keys(k, c.grid)
    energy, row, scale = None, None, 1.0
    if isinstance(base, Additive | Concat):
        energy = base.energy.to(wide(q).dtype) / tau
    else:
        dot = base.as_dot(q, k)
        q, k, scale = dot.q, dot.k, dot.scale / tau
        row = None if dot.row is None else dot.row.squeeze(-1) / tau
    return Lowered(q, k, energy, _alpha(c), scale, row, mask, sight(mask, c.grid, tile)), v


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
