"""A translation in piece numbers, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.translate.decoding.penalty import Penalty
from regard.translate.decoding.walk import Walk

__all__ = ["Hypothesis", "best_of", "said"]


@dataclass(frozen=True)
class Hypothesis:
    """``ids`` of the target, closed by ``EOS`` unless the length limit cut it.

    ``score`` is what it is ranked by, ``log_p`` = log p(y | x). ``looks`` (T, S), where they were asked for, is where
    the decoder looked before each piece, the mean of so many layers and ``heads``, over the source, and all of
    its padding where any was asked for.
    """

    ids: tuple[int, ...]
    score: float
    log_p: float = 0.0
    looks: Tensor | None = field(default=None, compare=False, repr=False)
    heads: tuple[int, int] = field(default=(1, 1), compare=False, repr=False)


def said(walk: Walk, b: int, k: int, log_p: float, source: int, penalty: Penalty, pieces: int) -> Hypothesis:
    """What beginning ``k`` of row ``b`` says in its first ``pieces``; its source has ``source``, its end among them."""
    looks = None if walk.looks is None else walk.looks[b, k, :pieces, : None if walk.padding else source].clone()
    seen = None if looks is None else looks[:, : source - 1]
    ids = tuple(walk.ids[b, k, :pieces].tolist())
    return Hypothesis(ids, penalty.score(log_p, pieces, seen), log_p, looks, walk.heads)


def best_of(found: list[Hypothesis], most: int) -> list[Hypothesis]:
    """The best ones, best first; of equals the one that was found first."""
    return sorted(found, key=lambda hypothesis: -hypothesis.score)[:most]
