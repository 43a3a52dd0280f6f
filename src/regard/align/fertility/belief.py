"""What Models 3, 4 and 5 are told, and do not learn."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.errors import RegardError

__all__ = ["Belief"]


@dataclass(frozen=True)
class Belief:
    """What is believed before counting, and how far to look.

    ``p1`` is the chance that a word brings one of NULL's along; with None it is estimated, as published. It then rises
    in every iteration, and takes words away that have a translation: GIZA++ is run with 0.001, too, and links with more
    precision come from 0.01 (docs/fertility.md). ``rare`` is how many words' worth a word's fertilities are drawn to
    those of all words, ``strength`` a table of distances to the smaller one. With ``peg`` links are pegged whose move
    from the best alignment is worth so much or more: 0 all, as published, 0.03 as in GIZA++; None none. Alignments of
    less than ``least`` of the best one's probability are not counted.
    """

    p1: float | None = 0.01
    rare: float = 20.0
    strength: float = 10.0
    peg: float | None = None
    least: float = 1e-6

    def __post_init__(self) -> None:
        if self.p1 is not None and not 0 < self.p1 < 1:
            raise RegardError(f"p1: found {self.p1}, wanted a probability between 0 and 1, or None to estimate it")
        for name in ("rare", "strength"):
            if not 0 < getattr(self, name) < math.inf:
                raise RegardError(f"{name}: found {getattr(self, name)}, wanted a number above 0")
        for name in ("peg", "least"):
            if getattr(self, name) is not None and not 0 <= getattr(self, name) < 1:
                raise RegardError(f"{name}: found {getattr(self, name)}, wanted at least 0 and below 1")
