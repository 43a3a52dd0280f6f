"""Model 1: every place is as likely as every other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.lexicon import Lexicon
from regard.align.places import Found
from regard.align.places.likeliest import likeliest
from regard.align.view import Block, View
from regard.kernels.compile import kernel
from regard.kernels.vector import like
from regard.kernels.workers import share

__all__ = ["Uniform"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Uniform:
    """p(i) = 1/(l + 1), NULL one of them (Brown et al. 1993, eq. 6). Nothing is learnt."""

    def expect(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> None:
        """p(i|j) = t(f_j|e_i) / Σ_i' t(f_j|e_i')."""
        scores, _ = found.begin(block, 0)
        edges = np.array(block.runs, np.int64)
        share(
            _look, [(k, k + 1) for k in range(len(edges))], *view.layout(), lexicon.table, lexicon.null,
            edges, block.base, found.post, found.null, scores, threads=threads,
        )  # fmt: skip

    def best(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> Array:
        """Word by word: none depends on another."""
        return likeliest(view, block, found, threads)

    def sums(self, view: View, found: Found) -> Array:
        """Nothing."""
        return np.zeros(0)

    def fitted(self, view: View, sums: Array) -> Uniform:
        """Itself."""
        return self


@kernel
def _look(
    giving, gives, given, gets, cells, starts, turned, table, null, edges, base, post, nulls, scores, first, last
):  # fmt: skip
    one = like(table[0], 1.0)
    for run in range(first, last):
        score = 0.0
        for s in range(edges[run, 0], edges[run, 1]):
            l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
            along, across = (1, l) if turned else (m, 1)
            for j in range(m):
                cell = starts[s] + j * across
                none = null[given[gets[s] + j]]
                total = none
                for i in range(l):
                    total += table[cells[cell + i * along]]
                if total > 0:
                    part = one / total
                    for i in range(l):
                        post[cell - base + i * along] = table[cells[cell + i * along]] * part
                    nulls[gets[s] + j] = none * part
                    score += math.log(total / (l + 1))
                else:
                    for i in range(l):
                        post[cell - base + i * along] = one / (l + 1)
                    nulls[gets[s] + j] = one / (l + 1)
                    score = -math.inf
        scores[run] = score
