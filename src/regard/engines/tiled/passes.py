"""One pass over a composition: its parts as the operators take them, run for each band of queries and put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.engines.tiled.by_reference import merged_spread
from regard.engines.tiled.given import DISTANCE, ENTROPY, MOMENTS, PEAK
from regard.engines.tiled.ops import tiled_softmax
from regard.engines.tiled.recipe import NOISE, Recipe, recipe
from regard.engines.tiled.threshold_ops import tiled_threshold
from regard.engines.visible import Band, bands, block
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
    seen: list[Band]
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
        B, H = self.grid.shape[:2]
        parts = [band.seen().expand(-1, -1, band.stop - band.start).expand(B, H, -1) for band in self.seen]
        return torch.cat(parts, 2) if len(parts) > 1 else parts[0]

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
        return replace(self.without_values(), mask=both, seen=bands(both, self.grid))

    def kept(self, at: Tensor) -> Tensor:
        """What dropout makes of the weight at each (b, h, i): 0, or 1 / (1 − rate)."""
        if not self.rate:
            return torch.ones_like(at, dtype=self.v.dtype)
        from regard.engines.tiled.calls import kept

        parts = [kept(at[:, :, x.start : x.stop], self.rate, self._seed(x), self.v.dtype) for x in self.seen]
        return torch.cat(parts, 2)

    def _seed(self, band: Band) -> int:
        """Bands do not share their dice."""
        return (self.seed + 0x9E3779B1 * band.start) & 0xFFFFFFFF

    def softmax(self, want: int = 0, temperature: float = 1.0) -> Sums:
        """The read by the softmax of the scores."""
        made = self.recipe.tempered(temperature)
        found = [self._band(tiled_softmax, made, band, want) for band in self.seen]
        out, lse, entropy, peak, at, distance = (_joined(x, 2) for x in list(zip(*found, strict=True))[:6])
        spread = None
        if want & MOMENTS:
            moments = [(m[7][..., 0], m[7][..., 1], m[7][..., 2].square()) for m in found]
            spread = found[0][7][..., 2] if len(found) == 1 else merged_spread(moments)
            spread = spread.to(out.dtype) * temperature  # of the scores, not of scores / τ
        return Sums(
            out,
            lse,
            entropy if want & ENTROPY else None,
            peak if want & PEAK else None,
            at if want & PEAK else None,
            distance if want & DISTANCE else None,
            _joined([x[6] for x in found], 3),
            spread,
        )

    def top(self, k: int, want: int = 0) -> Sums:
        """The read by the softmax of a row's k largest scores."""
        return self.threshold(1.0, want, k)

    def threshold(self, alpha: float | Tensor, want: int = 0, keep: int = 0) -> Sums:
        """The read by the α-entmax of the scores, α one number or one a head; α = 1 needs to be told how many stay."""
        alpha = torch.as_tensor(alpha, dtype=torch.float64).expand(self.grid.shape[1])
        found = [self._band(tiled_threshold, self.recipe, band, want, alpha, keep) for band in self.seen]
        out, entropy, peak, at, distance = (_joined(x, 2) for x in list(zip(*found, strict=True))[:5])
        return Sums(
            out,
            None,
            entropy if want & ENTROPY else None,
            peak if want & PEAK else None,
            at if want & PEAK else None,
            distance if want & DISTANCE else None,
            _joined([x[5] for x in found], 3),
            None,
        )

    def _band(self, operator: Any, made: Recipe, band: Band, want: int, *more: Any) -> Any:
        start, stop = band.start, band.stop
        rows, columns = self.tile
        if not torch.compiler.is_compiling():
            rows = min(block(band.lo, band.hi, rows), max(1, stop - start))
            columns = min(columns, max(1, self.grid.S))
        # What a step knows of a query is its place, which begins at 0 in every band.
        steps = [n for code, shift, offset, reach in made.steps for n in (code, shift + start, offset, reach)]
        numbers = torch.stack(made.numbers) if made.numbers else torch.empty(0, made.q.shape[1], dtype=torch.float64)
        return operator(
            made.q[:, :, start:stop],
            made.k,
            self.v,
            made.energy,
            made.table,
            None if made.row is None else made.row[:, :, start:stop],
            band.lo,
            band.hi,
            band.allowed,
            self.tags,
            numbers,
            steps,
            made.kind,
            made.scale,
            self.rate,
            self._seed(band),
            self.shift + start,
            band.first,
            want,
            [rows, columns],
            *more,
        )


def prepared(c: Composition, wanted: Wanted, tile: tuple[int, int]) -> Pass:
    q, k = c.score.queries(wide(c.q), c.grid), c.score.keys(wide(c.k), c.grid)
    made = recipe(c.score, q, k, c.grid)
    B, H, _, S = c.grid.shape
    tags, tagged, placed = [], [], {}
    for name, group in wanted.groups.items():
        member = group.allows(c.grid) if _by_key(group, c.grid) else None
        if member is None:
            placed[name] = group
        else:
            tagged.append(name)
            tags.append(member.expand(B, H, 1, S).reshape(B * H, S).to(made.q.dtype))
    stacked = torch.stack(tags) if tags else made.q.new_empty(0, 1, S)
    seed = int(torch.randint(1 << 31, ())) if c.dropout else 0
    return Pass(
        made, wide(c.v).to(made.q.dtype), c.grid, bands(c.mask, c.grid), tile, stacked, tuple(tagged), placed,
        c.mask, c.dropout, seed,
    )  # fmt: skip


def _by_key(group: Mask, grid: Grid) -> bool:
    """Whether a group is decided by the key alone."""
    return group.allows(grid.rows(0, 1)).shape[2] == 1 and group.allows(grid.rows(0, 2)).shape[2] == 1


def _joined(parts: tuple[Tensor, ...] | list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 or parts[0].dim() <= dim else torch.cat(parts, dim)
