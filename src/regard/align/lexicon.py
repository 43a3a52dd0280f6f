"""Which word for which: t(generated | generating), a number for each pair of words that meets.

The table is estimated from expected counts c: t(f|e) = (c(e,f) + π(e,f) + α) / Σ_f' (…), with π what was known before
and α a Dirichlet prior's share for every word of the vocabulary. The variational form puts exp ψ(x) for x, which takes
more from small counts than from large ones (Mermer & Saraçlar 2011; Riley & Gildea 2012); its sum is over the words
that e meets, as in the programs of its authors, since a share for all others would take nearly everything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.pairs import Pairs, runs
from regard.align.view import View
from regard.kernels.compile import inline, kernel
from regard.kernels.workers import share

__all__ = ["Dirichlet", "Lexicon"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Dirichlet:
    """What is believed before counting: ``alpha`` for each pair, ``null`` for each word that NULL generates.

    0 is maximum likelihood. ``variational`` puts the geometric mean under the posterior for its mode.
    """

    alpha: float = 0.0
    null: float = 0.0
    variational: bool = False

    def __post_init__(self) -> None:
        from regard.errors import RegardError

        for name in ("alpha", "null"):
            if not 0 <= getattr(self, name) < math.inf:
                raise RegardError(f"{name}: found {getattr(self, name)}, wanted a number of at least 0")
        if self.variational and not (self.alpha > 0 and self.null > 0):
            raise RegardError(
                f"variational: found alpha {self.alpha} and null {self.null}, wanted both above 0; "
                "ψ(0) is −∞, and a word that was never counted would never be"
            )


@dataclass(frozen=True)
class Lexicon:
    """``table[p]`` is t of pair p in this direction, ``null[w]`` that of generated word w from NULL, and ``rest[w]``
    that of a word which generating word w never met."""

    table: Array
    null: Array
    rest: Array

    @staticmethod
    def uniform(view: View, dtype: type = np.float32) -> Lexicon:
        """Every word as likely as every other: where Model 1's training begins."""
        words = max(1, len(view.generated.words))
        rest: Array = np.full(len(view.generating.words), 1 / words, dtype)
        return Lexicon(np.full(len(view.pairs), 1 / words, dtype), np.full(words, 1 / words, dtype), rest)

    @staticmethod
    def estimated(
        view: View,
        counts: Array,
        null: Array,
        prior: Dirichlet,
        known: Array | None = None,
        *,
        threads: int | None = None,
    ) -> Lexicon:
        """From expected ``counts`` of the pairs and of the words from ``null``; ``known`` are pseudo-counts of pairs.

        A generating word without any count keeps its pairs alike.
        """
        pairs, words = view.pairs, max(1, len(view.generated.words))
        dtype = counts.dtype
        if known is not None:
            counts = counts + known.astype(dtype)
        sums = _sums(view.pairs, counts, view.turned, len(view.generating.words))
        totals = sums + prior.alpha * (_met(view) if prior.variational else words)
        counted = totals > 0
        # Reciprocals are taken here: a kernel's quotient may be rounded two ways, and addresses say which.
        scale = np.where(counted, 1 / np.where(counted, totals, 1.0), 0.0)
        if prior.variational:
            # In logarithms: ψ of little is far below 0.
            scale = np.array([-_psi(total) if total > 0 else 0.0 for total in totals.tolist()])
        alike = np.where(counted, 0.0, 1 / words)
        table = np.empty_like(counts)
        share(
            _estimate, runs(np.diff(pairs.rows) + 1), pairs.rows, pairs.target, counts, scale, alike, prior.alpha,
            prior.variational, view.turned, table, threads=threads,
        )  # fmt: skip
        rest = _shares(np.full(len(sums), prior.alpha), totals, words, prior.variational)
        total = np.array([float(null.sum()) + words * prior.null])
        nothing = _shares(null + prior.null, total, words, prior.variational)
        return Lexicon(table, nothing.astype(dtype), rest.astype(dtype))


def _shares(counts: Array, totals: Array, words: int, variational: bool) -> Array:
    """counts / totals, or exp ψ of both; a total of nothing is shared by all ``words`` alike."""
    totals = np.broadcast_to(totals, counts.shape)
    if variational:
        both = zip(counts.tolist(), totals.tolist(), strict=True)
        return np.array([math.exp(_psi(c) - _psi(t)) if t > 0 else 1 / words for c, t in both])
    none = totals <= 0
    return np.where(none, 1 / words, counts / np.where(none, 1.0, totals))


def _met(view: View) -> Array:
    """How many words each generating word meets."""
    if view.turned:
        return np.bincount(view.pairs.target, minlength=len(view.generating.words))
    return np.diff(view.pairs.rows)


def _sums(pairs: Pairs, counts: Array, turned: bool, words: int) -> Array:
    """The counts of each generating word, in float64."""
    if turned:
        return np.bincount(pairs.target, weights=counts, minlength=words)
    sums = np.zeros(len(pairs.rows) - 1)
    _row_sums(pairs.rows, counts, sums)
    return sums


@kernel
def _row_sums(rows, counts, sums):
    for e in range(len(sums)):
        total = 0.0
        for p in range(rows[e], rows[e + 1]):
            total += counts[p]
        sums[e] = total


@inline
def _psi(x):
    """ψ(x) for x > 0: the recurrence up to 6, then Stirling's series (error under 1e-10)."""
    back = 0.0
    while x < 6.0:
        back -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    return back + math.log(x) - 0.5 / x - series


@kernel
def _estimate(rows, target, counts, scale, alike, alpha, variational, turned, table, e0, e1):
    for e in range(e0, e1):
        for p in range(rows[e], rows[e + 1]):
            given = target[p] if turned else e
            if variational:
                table[p] = math.exp(_psi(counts[p] + alpha) + scale[given])
            else:
                table[p] = (counts[p] + alpha) * scale[given] + alike[given]
