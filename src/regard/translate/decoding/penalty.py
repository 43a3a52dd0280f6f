"""What a translation is worth: its log-probability, made comparable between lengths, less what it left untranslated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from regard.errors import RegardError

__all__ = ["Length", "Penalty"]

Length = Literal["power", "wu"]
_UNSEEN = 1e-6  # what a piece that nothing looked at counts as: sparse weights are exactly 0, and log 0 would level all


@dataclass(frozen=True)
class Penalty:
    """s(y, x) = log p(y | x) / lp(|y|) + cp(x, y), over |y| pieces, the end mark among them.

    ::

        lp(n) = n^α                             length "power"
              = (5 + n)^α / (5 + 1)^α           length "wu" (Wu et al. 2016, arXiv:1609.08144, equation 14)
        cp    = β Σ_i log(min(Σ_j a_ij, 1))     over the source's pieces i, its end mark apart; a_ij looks (same place)

    ``normalise`` is α ≥ 0: 0 prefers short targets, 1 with "power" compares means over pieces. ``coverage`` is β ≥ 0;
    a piece that nothing looked at counts as 10⁻⁶.

    >>> Penalty(normalise=1.0).score(-6.0, 3), Penalty(normalise=0.0).score(-6.0, 3)
    (-2.0, -6.0)
    >>> Penalty(1.0, "wu").score(-6.0, 7)
    -3.0
    """

    normalise: float = 1.0
    length: Length = "power"
    coverage: float = 0.0

    def __post_init__(self) -> None:
        for name in ("normalise", "coverage"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise RegardError(f"{name}: found {value}, wanted a number of at least 0")
        if self.length not in get_args(Length):
            raise RegardError(f"length: found {self.length!r}, wanted {' or '.join(get_args(Length))}")

    def divisor(self, pieces: int) -> float:
        """lp(n), at least 1 and never falling as n grows."""
        more = 5 if self.length == "wu" else 0
        return float(((more + pieces) / (more + 1)) ** self.normalise)

    def score(self, log_p: float, pieces: int, looks: Tensor | None = None) -> float:
        """s of a target of so many pieces; ``looks`` (T, I) are its weights on the source's pieces without its end."""
        score = log_p / self.divisor(pieces)
        if self.coverage and looks is not None:
            score += self.coverage * float(looks.double().sum(0).clamp(_UNSEEN, 1.0).log().sum())
        return score

    def bound(self, log_p: float, longest: int) -> float:
        """No target that goes on from a beginning of this log p, to at most ``longest`` pieces, scores more."""
        return log_p / self.divisor(longest)
