"""Model 2: a distribution over the places for every place, in sentences of every shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.places.shapes import Biased, Shapes
from regard.align.view import View

__all__ = ["Table"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Table(Biased):
    """a(i|j,l,m), one number each, NULL among the places (Brown et al. 1993, eq. 14–22)."""

    shapes: Shapes
    bias: Array

    @staticmethod
    def uniform(view: View, dtype: Any = np.float32) -> Table:
        """a = 1/(l + 1), as Model 1 has it."""
        shapes = Shapes.found(view)
        return Table(shapes, np.repeat(1 / (shapes.l + 1), (shapes.l + 1) * shapes.m).astype(dtype))

    def taking(self, shapes: Shapes, bias: Array) -> Table:
        """With what another table knows of the shapes that both have."""
        known = {(int(l), int(m)): k for k, (l, m) in enumerate(zip(shapes.l, shapes.m, strict=True))}
        mine = self.bias.copy()
        for k, shape in enumerate(zip(self.shapes.l.tolist(), self.shapes.m.tolist(), strict=True)):
            if shape in known:
                at = known[shape]
                mine[self.shapes.begins[k] : self.shapes.begins[k + 1]] = bias[
                    shapes.begins[at] : shapes.begins[at + 1]
                ]
        return Table(self.shapes, mine)

    def fitted(self, view: View, sums: Array) -> Table:
        """The shares of each row; a row that was never reached stays as it is."""
        shape, _, begin = self.shapes.rows()
        if not len(begin):
            return self
        totals = np.repeat(np.add.reduceat(sums, begin), self.shapes.l[shape] + 1)
        bias = np.where(totals > 0, sums / np.where(totals > 0, totals, 1), self.bias)
        return Table(self.shapes, bias.astype(self.bias.dtype))
