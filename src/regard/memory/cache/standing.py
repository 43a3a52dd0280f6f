"""A score taken apart for a memory whose keys are kept turned: what places do, and what is left to compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.grid import Grid
from regard.numerics import wide
from regard.position import Rotary
from regard.score import (
    Additive,
    Biased,
    Capped,
    Concat,
    Cosine,
    Dot,
    Euclidean,
    General,
    Keyed,
    Learned,
    ScaledDot,
    Score,
)

_PLAIN = (Dot, ScaledDot, Euclidean, General, Learned)  # their keys are compared as they are
_TURNING = (Cosine, Additive, Concat)
_FOLDING = (Dot, ScaledDot, Euclidean, Cosine)  # which query head asks makes no difference


@dataclass(frozen=True)
class Standing:
    """``keys`` and ``queries`` turn by the places given; ``rest`` compares what they gave, keys being kept.

    In a memory it is known where each pair and each query stands, so nobody has to say which ends meet. A bias is added
    by the engines, which see only what is held: it needs ``anchor="end"``.
    """

    whole: Score
    rest: Score
    turns: tuple[Rotary, ...] = ()
    leaf: Score | None = None
    #: Whether ``rest`` looks at places (a bias does, and who knows what a score of the user's own does).
    placed: bool = True

    @classmethod
    def of(cls, who: str, score: Score) -> Standing:
        return _apart(who, score, score) or cls(score, Turned(score))

    @property
    def folds(self) -> bool:
        """Whether query heads that share a key head may ask as queries of one head."""
        return type(self.leaf) in _FOLDING and not self.placed

    @property
    def fused(self) -> bool:
        """Whether what is left is a plain dot product."""
        return type(self.leaf) in (Dot, ScaledDot, Cosine) and not self.rest.no_dot_form

    @property
    def asks_places(self) -> bool:
        """Whether turning takes the places at all."""
        return bool(self.turns) or self.leaf is None

    def keys(self, k: Tensor, places: Tensor) -> Tensor:
        """Keys (B, G, L, D) as they are kept, standing at ``places`` (L,) or (B, L)."""
        if self.leaf is not None and not self.turns and isinstance(self.leaf, _PLAIN):
            return k
        x = wide(k)
        if self.leaf is None:
            return _by_grid(self.whole.keys, x, places).to(k.dtype)
        for turn in self.turns:
            x = turn.turned(x, places)
        return self.leaf.keys(x).to(k.dtype)

    def queries(self, q: Tensor, places: Tensor) -> Tensor:
        """Queries (B, H, L, D) as ``rest`` takes them."""
        if self.leaf is None:
            return _by_grid(self.whole.queries, wide(q), places).to(q.dtype)
        x = q
        for turn in self.turns:
            x = turn.turned(wide(x), places)
        return x.to(q.dtype)


class Turned(Keyed):
    """A score whose keys and queries are already turned."""

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        return q


def _apart(who: str, score: Score, whole: Score) -> Standing | None:
    kind = type(score)
    if isinstance(score, Keyed):
        raise RegardError(f"{who}: score is keyed already; give the score itself, the memory keeps its keys turned")
    if isinstance(score, Rotary | Biased | Capped) and kind in (Rotary, Biased, Capped):
        part = score.bias if isinstance(score, Biased) else score
        anchor = getattr(part, "anchor", "end")
        if anchor == "start" or (anchor is None and isinstance(score, Biased)):
            raise RegardError(
                f'{who}: score has {type(part).__name__}(anchor={anchor!r}), wanted anchor="end": what is asked stands '
                "at the end of what was written"
            )
        found = _apart(who, score.inner, whole)
        if found is None:
            return None
        if isinstance(score, Rotary):
            return Standing(whole, found.rest, (score, *found.turns), found.leaf, found.placed)
        rest: Score = score
        if found.rest is not score.inner:
            rest = Capped(found.rest, score.cap) if isinstance(score, Capped) else Biased(found.rest, score.bias)
        return Standing(whole, rest, found.turns, found.leaf, found.placed or isinstance(score, Biased))
    if kind in _PLAIN:
        return Standing(whole, score, (), score, False)
    if kind in _TURNING:
        return Standing(whole, score.keyed, (), score, False)
    return None


def _by_grid(turn: Callable[[Tensor, Grid], Tensor], x: Tensor, places: Tensor) -> Tensor:
    """What a score of any kind makes of x; its grid has room for one row's places only."""
    if places.dim() == 2:
        return torch.cat([_by_grid(turn, x[b : b + 1], places[b]) for b in range(x.shape[0])])
    B, H, L, _ = x.shape
    end = int(places[-1]) + 1 if L else 0
    grid = Grid.of(B, H, L, L, x.device)
    found: Tensor = turn(x, Grid(grid.b, grid.h, places.view(1, 1, L, 1), places.view(1, 1, 1, L), end, end))
    return found
