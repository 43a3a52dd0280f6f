"""A ridge along the diagonal, of one learnt steepness: Model 2 with a single parameter (Dyer et al. 2013)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.align.places.shapes import Biased, Shapes
from regard.align.view import View

__all__ = ["Diagonal"]

Array = np.ndarray[Any, Any]

#: The steepness stays here: flatter says nothing, steeper leaves no number for a place off the diagonal.
_LEAST, _MOST = 0.1, 14.0

#: Where the tension starts, and how strongly each word pulls it back there.
_START, _PULL = 4.0, 1 / 16


@dataclass(frozen=True)
class Diagonal(Biased):
    """a(i|j,l,m) = (1 − null) e^(tension · h(i,j)) / Z_j with h = −|i/l − j/m|, places counted from 1; NULL has
    ``null``.

    The source is Dyer, Chahuneau & Smith 2013, eq. 2; 0.08 and 4 are where its program begins.
    """

    shapes: Shapes
    tension: float = _START
    null: float = 0.08
    dtype: Any = np.float32
    bias: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bias", _ridge(self.shapes, self.tension, self.null)[0].astype(self.dtype))

    @staticmethod
    def starting(view: View, dtype: Any = np.float32) -> Diagonal:
        """As it is before training."""
        return Diagonal(Shapes.found(view), dtype=dtype)

    def fitted(self, view: View, sums: Array) -> Diagonal:
        """The tension where a word's log likelihood less (tension − 4)²/32 is highest: concave, so Newton's steps.

        The likelihood alone is highest at two to three times the tension that aligns best: links are surer of
        themselves than they are right, and every iteration makes them surer. The authors' program is held back as
        well, by places that it counts from 0 where it measures h and from 1 where it expects it.
        """
        shapes, tension = self.shapes, self.tension
        if not shapes.size:
            return self
        _, h, begin, null = _ridge(shapes, tension, self.null)
        seen = np.where(null, 0.0, sums)
        rows = np.add.reduceat(seen, begin)  # words that looked at a word, for each row
        words = float(rows.sum())
        if not words > 0:
            return self
        wanted = float(seen @ h) / words
        for _ in range(20):
            p = np.where(null, 0.0, _ridge(shapes, tension, 0.0)[0])
            mean = np.add.reduceat(p * h, begin)
            spread = np.add.reduceat(p * h * h, begin) - mean**2
            slope = wanted - float(rows @ mean) / words - _PULL * (tension - _START)
            bend = float(rows @ spread) / words + _PULL
            before, tension = tension, float(np.clip(tension + slope / bend, _LEAST, _MOST))
            if abs(tension - before) < 1e-6:
                break
        return Diagonal(shapes, tension, self.null, self.dtype)


def _ridge(shapes: Shapes, tension: float, none: float) -> tuple[Array, Array, Array, Array]:
    """(the table, h of each place, where each row begins, which places are NULL's)."""
    shape, j, begin = shapes.rows()
    wide = shapes.l[shape] + 1
    row = np.repeat(np.arange(len(begin)), wide)
    i = np.arange(shapes.size) - begin[row]
    null = i == wide[row] - 1
    l, m = np.maximum(shapes.l[shape], 1)[row], shapes.m[shape][row]
    h = np.where(null, 0.0, -np.abs((i + 1) / l - (j[row] + 1) / np.maximum(m, 1)))
    rise = np.where(null, 0.0, np.exp(tension * h))
    totals = np.add.reduceat(rise, begin) if len(begin) else rise
    return np.where(null, none, (1 - none) * rise / totals[row]), h, begin, null
