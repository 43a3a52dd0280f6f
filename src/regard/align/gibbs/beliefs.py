"""What is believed before anything is counted, how long to sample, and the probability of links under it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.gibbs.tally import CLASSES, Tally
from regard.align.view import View
from regard.errors import RegardError
from regard.kernels.compile import kernel

__all__ = ["Beliefs", "joint", "masses", "sweeps"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Beliefs:
    """Dirichlet pseudo-counts: of each translation of a word, of each word from NULL, of each jump, of each fertility
    of a word; and the probability that a word comes from NULL (Östling & Tiedemann 2016)."""

    lexical: float = 0.001
    null: float = 0.001
    jump: float = 0.5
    fertility: float = 0.5
    empty: float = 0.2

    def __post_init__(self) -> None:
        for name in ("lexical", "null", "jump", "fertility"):
            if not 0 < getattr(self, name) < math.inf:
                raise RegardError(f"{name}: found {getattr(self, name)}, wanted a number above 0")
        if not 0 < self.empty < 1:
            raise RegardError(f"empty: found {self.empty}, wanted a probability between 0 and 1")

    def packed(self, dtype: Any) -> Array:
        """As the kernels take them."""
        return np.array([self.lexical, self.null, self.fertility, self.empty / (1 - self.empty)], dtype)


def sweeps(pairs: int) -> tuple[int, int, int]:
    """Sweeps of Model 1, the HMM and the HMM with fertilities: fewer the larger the corpus, as in eflomal.

    >>> sweeps(100), sweeps(10_000), sweeps(1_000_000)
    ((125, 125, 500), (12, 12, 50), (2, 1, 5))
    """
    most = max(2, round(5000 / math.sqrt(max(pairs, 1))))
    return max(2, most // 4), max(1, most // 4), most


def joint(view: View, links: Array, stage: int, beliefs: Beliefs, known: Array | None = None) -> float:
    """log p(generated words, links | generating words), all tables integrated out; in float64.

    Each Dirichlet-multinomial is log Γ(A) − log Γ(A + N) + Σ_k log Γ(α_k + n_k) − log Γ(α_k), with A = Σ α_k: one for
    each generating word's translations, one for NULL's, from stage 2 on one for the jumps, in stage 3 one for each
    generating word's fertilities. Every word pays ``empty`` or 1 − ``empty``, and in stage 1 the 1/l of its place.
    Without links there is nothing to pay, and the result is 0. Places with more words than the largest class of
    fertility holds count as of that class.
    """
    tally = Tally.of(view, links)
    pairs, words = view.pairs, len(view.generated.words)
    prior = np.zeros(len(pairs)) if known is None else np.asarray(known, np.float64)
    wide = beliefs.lexical * words + masses(view, prior)
    total = _urns(wide, tally.word) + _gains(beliefs.lexical + prior, tally.pair)
    total += _urns(np.array([beliefs.null * words]), tally.null[-1:])
    total += _gains(np.full(words, beliefs.null), tally.null[:-1])
    linked = int(tally.word.sum(dtype=np.int64))
    total += int(tally.null[-1]) * math.log(beliefs.empty) + linked * math.log1p(-beliefs.empty)
    if stage == 1:
        first, last = pairs.first, pairs.last
        lengths = view.generating.lengths()[first:last]
        spread = np.repeat(lengths, view.generated.lengths()[first:last])
        low, high = view.generated.offsets[first], view.generated.offsets[last]
        return total - float(np.log(spread[links[low:high] >= 0]).sum())
    size = len(tally.jumps)
    total += _urns(np.array([beliefs.jump * size]), tally.jumps.sum(keepdims=True))
    total += _gains(np.full(size, beliefs.jump), tally.jumps)
    if stage == 3:
        flat = tally.fertile.reshape(-1)
        total += _urns(np.full(len(tally.word), beliefs.fertility * CLASSES), tally.fertile.sum(axis=1))
        total += _gains(np.full(len(flat), beliefs.fertility), flat)
    return total


def masses(view: View, known: Array) -> Array:
    """The pseudo-counts ``known`` of each generating word's pairs, added up."""
    pairs, words = view.pairs, len(view.generating.words)
    owner = pairs.target if view.turned else np.repeat(np.arange(words), np.diff(pairs.rows))
    return np.bincount(owner, weights=known, minlength=words)


@kernel
def _rising(alpha, counts):
    """Σ log Γ(α + n) − log Γ(α)."""
    total = 0.0
    for k in range(len(counts)):
        if counts[k] > 0:
            total += math.lgamma(alpha[k] + counts[k]) - math.lgamma(alpha[k])
    return total


def _gains(alpha: Array, counts: Array) -> float:
    return float(_rising(alpha, counts))


def _urns(total: Array, counts: Array) -> float:
    return -float(_rising(total, counts))
