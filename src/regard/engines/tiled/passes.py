"""One pass over a composition: its parts as the operators take them, and what an operator finds for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.engines.tiled.given import DISTANCE, ENTROPY, MOMENTS, PEAK
from regard.engines.tiled.ops import tiled_softmax
from regard.engines.tiled.recipe import NOISE, Recipe, plain, recipe
from regard.engines.tiled.seen import CELL, Seen, seen
from regard.engines.tiled.threshold_ops import tiled_threshold
from regard.grid import Grid
from regard.mask import Mask
from regard.numerics import wide
from regard.plan import Composition, Wanted


class Sums(NamedTuple):
    """What a pass measured over all queries; None where it was not asked."""

    out: Tensor
    lse: Tensor | None
    entropy: Tensor | None
    peak: Tensor | None
    at: Tensor | None
    distance: Tensor | None
    mass: Tensor  # (T, B, H, L)
    spread: Tensor | None


@dataclass(frozen=True)
class Pass:
    """A composition made ready: the score's recipe, wide values, what is seen, and the groups that only keys decide."""

    recipe: Recipe
    v: Tensor
    grid: Grid
    seen: Seen
    tile: tuple[int, int]
    tags: Tensor  # (T, B·H|1, S)
    tagged: tuple[str, ...] = ()
    placed: Mapping[str, Mask] = field(default_factory=dict)  # groups that the query decides too
    mask: Mask | None = None
    rate: float = 0.0
    seed: int = 0

    @property
    def counts(self) -> Tensor:
        """How many keys each query may see, (B, H, L)."""
        return self.seen.count.expand(self.grid.shape[:3])

    @property
    def shift(self) -> int:
        """Where query 0 stands for the distance: the last query at the last key."""
        return self.grid.S - self.grid.L

    def noisy(self, generator: torch.Generator | None) -> Pass:
        """With Gumbel noise on every score, of a seed drawn from ``generator``."""
        seed = int(torch.randint(1 << 31, (), generator=generator))
        return replace(self, recipe=self.recipe.then(NOISE), seed=seed)

    def without_values(self) -> Pass:
        """For what only the scores say: nothing is read, dropped or tagged."""
        return replace(self, v=self.v[..., :0], tags=self.tags[:0], tagged=(), placed={}, rate=0.0)

    def within(self, group: Mask) -> Pass:
        """Over the keys of a group alone, for what only the scores say."""
        both = group if self.mask is None else self.mask & group
        return replace(self.without_values(), mask=both, seen=seen(both, self.grid, _cell(self.tile)))

    def kept(self, at: Tensor) -> Tensor:
        """What dropout makes of the weight at each (b, h, i): 0, or 1 / (1 − rate)."""
        real = torch.promote_types(self.v.dtype, torch.float32)
        if not self.rate:
            return torch.ones_like(at, dtype=real)
        from regard.engines.tiled.calls import kept

        return kept(at, self.rate, self.seed, real)

    def softmax(self, want: int = 0, temperature: float = 1.0) -> Sums:
        """The read by the softmax of the scores."""
        made = self.recipe.tempered(temperature)
        out, lse, entropy, peak, at, distance, mass, moments = self._run(tiled_softmax, made, want)
        return Sums(
            out,
            lse,
            entropy if want & ENTROPY else None,
            peak if want & PEAK else None,
            at if want & PEAK else None,
            distance if want & DISTANCE else None,
            mass,
            moments[..., 2].to(lse.dtype) * temperature if want & MOMENTS else None,  # of the scores, not of scores / τ
        )

    def top(self, k: int, want: int = 0) -> Sums:
        """The read by the softmax of a row's k largest scores."""
        return self.threshold(1.0, want, k)

    def threshold(self, alpha: float | Tensor, want: int = 0, keep: int = 0) -> Sums:
        """The read by the α-entmax of the scores, α one number or one a head; α = 1 needs to be told how many stay."""
        alpha = torch.as_tensor(alpha, dtype=torch.float64).expand(self.grid.shape[1])
        out, entropy, peak, at, distance, mass, *_ = self._run(tiled_threshold, self.recipe, want, alpha, keep)
        return Sums(
            out,
            None,
            entropy if want & ENTROPY else None,
            peak if want & PEAK else None,
            at if want & PEAK else None,
            distance if want & DISTANCE else None,
            mass,
            None,
        )

    def _run(self, operator: Any, made: Recipe, want: int, *more: Any) -> Any:
        rows, columns = self.tile
        if not torch.compiler.is_compiling():
            rows = min(self.seen.block(rows), max(1, self.grid.L))
            columns = min(columns, max(1, self.grid.S))
        numbers = torch.stack(made.numbers) if made.numbers else torch.empty(0, made.q.shape[1], dtype=torch.float64)
        return operator(
            made.q,
            made.k,
            self.v,
            made.energy,
            made.table,
            made.row,
            self.seen.lo,
            self.seen.hi,
            self.seen.at,
            self.seen.words,
            self.tags,
            numbers,
            [n for step in made.steps for n in step],
            made.kind,
            made.scale,
            self.rate,
            self.seed,
            self.shift,
            want,
            [rows, columns],
            *more,
        )


def prepared(c: Composition, wanted: Wanted, tile: tuple[int, int]) -> Pass:
    # What is multiplied as it is stays in half precision; whatever turns it first, or adds to it, does so in full.
    q, k = (c.q, c.k) if plain(c.score) else (wide(c.q), wide(c.k))
    made = recipe(c.score, c.score.queries(q, c.grid), c.score.keys(k, c.grid), c.grid)
    real = torch.promote_types(made.q.dtype, torch.float32)
    B, H, _, S = c.grid.shape
    tags, tagged, placed = [], [], {}
    for name, group in wanted.groups.items():
        member = group.allows(c.grid) if _by_key(group, c.grid) else None
        if member is None:
            placed[name] = group
        else:
            tagged.append(name)
            tags.append(member.expand(B, H, 1, S).reshape(B * H, S).to(real))
    stacked = torch.stack(tags) if tags else made.q.new_empty(0, 1, S, dtype=real)
    seed = int(torch.randint(1 << 31, ())) if c.dropout else 0
    looks = seen(c.mask, c.grid, _cell(tile))
    v = c.v if c.v.element_size() < 4 and real == torch.float32 else c.v.to(real)
    return Pass(
        made, v, c.grid, looks, tile, stacked, tuple(tagged), placed, c.mask, c.dropout, seed,
    )  # fmt: skip


def _by_key(group: Mask, grid: Grid) -> bool:
    """Whether a group is decided by the key alone."""
    return group.allows(grid.rows(0, 1)).shape[2] == 1 and group.allows(grid.rows(0, 2)).shape[2] == 1


def _cell(tile: tuple[int, int]) -> int:
    """A tile is made of whole cells."""
    return min(CELL, *tile)
