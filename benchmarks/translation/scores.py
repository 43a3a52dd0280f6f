"""What translations are worth: BLEU and chrF by sacrebleu, overall and by length, and how far chance moves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

__all__ = ["BANDS", "Band", "Counts", "ahead", "band", "chrf", "interval", "signatures"]

Floats = NDArray[np.float64]
ORDER = 4


@dataclass(frozen=True)
class Band:
    """Sentences of ``low`` to ``high`` source words; no bound where ``high`` is None."""

    low: int
    high: int | None

    def __str__(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}–{self.high}"

    @property
    def middle(self) -> float:
        """Where the band is drawn."""
        return self.low + 5.0 if self.high is None else (self.low + self.high) / 2

    def of(self, sources: Sequence[str]) -> list[int]:
        """Which of the sentences are in it; words are what spaces divide."""
        high = self.high or 10**9
        return [n for n, line in enumerate(sources) if self.low <= len(line.split()) <= high]


BANDS = (Band(1, 9), Band(10, 19), Band(20, 29), Band(30, 39), Band(40, None))


def band(low: int) -> Band:
    """The band that begins with so many words."""
    return next(each for each in BANDS if each.low == low)


@dataclass(frozen=True)
class Counts:
    """What BLEU counts in each of N sentences: matches and n-grams (N, 4), lengths of what was said and wanted (N,).

    They add up, so that a corpus, a part of it, or a draw from it is one sum.

    >>> said = ["the cat sat on the mat today", "a dog"]
    >>> round(Counts.of(said, said, "none").bleu(), 1)
    100.0
    """

    right: Floats
    total: Floats
    said: Floats
    wanted: Floats

    @classmethod
    def of(cls, hypotheses: Sequence[str], references: Sequence[str], tokenize: str) -> Counts:
        """Counts of every sentence, as sacrebleu cuts them."""
        metric = BLEU(tokenize=tokenize, force=True, effective_order=True)
        found = [metric.sentence_score(a, [b]) for a, b in zip(hypotheses, references, strict=True)]
        return cls(
            np.array([each.counts for each in found], float).reshape(-1, ORDER),
            np.array([each.totals for each in found], float).reshape(-1, ORDER),
            np.array([each.sys_len for each in found], float),
            np.array([each.ref_len for each in found], float),
        )

    def bleu(self, weights: Floats | None = None) -> float:
        """Corpus BLEU of the sentences, each counted ``weights`` (N,) times (once where left out)."""
        times = np.ones(len(self.said)) if weights is None else weights
        return float(
            BLEU.compute_bleu(
                correct=list(times @ self.right),
                total=list(times @ self.total),
                sys_len=int(times @ self.said),
                ref_len=int(times @ self.wanted),
                smooth_method="exp",
            ).score
        )

    def part(self, chosen: Sequence[int]) -> Counts:
        """Those of some sentences."""
        rows = np.array(chosen, int)
        return Counts(self.right[rows], self.total[rows], self.said[rows], self.wanted[rows])


def draws(count: int, samples: int, seed: int = 12345) -> list[Floats]:
    """How often each of ``count`` sentences is in each of ``samples`` draws of as many, with replacement."""
    generator = np.random.default_rng(seed)
    even = np.full(count, 1.0 / count)
    return [generator.multinomial(count, even).astype(float) for _ in range(samples)]


def interval(counts: Counts, samples: int = 1000) -> tuple[float, float]:
    """The middle 95 % of BLEU over draws of the sentences (Koehn 2004)."""
    return _middle([counts.bleu(times) for times in draws(len(counts.said), samples)])


def ahead(ours: Counts, theirs: Counts, samples: int = 1000) -> tuple[float, float, float]:
    """BLEU of ours less theirs, and its middle 95 % over draws of the same sentences for both (paired bootstrap)."""
    found = [ours.bleu(times) - theirs.bleu(times) for times in draws(len(ours.said), samples)]
    return ours.bleu() - theirs.bleu(), *_middle(found)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """chrF2 of the text (Popović 2015)."""
    return float(CHRF().corpus_score(list(hypotheses), [list(references)]).score)


def signatures(tokenize: str) -> str:
    """What sacrebleu calls these measures, so that others can compare."""
    bleu, chr_f = BLEU(tokenize=tokenize, force=True), CHRF()
    for metric in (bleu, chr_f):
        metric.corpus_score(["a"], [["a"]])  # a signature is complete once something was scored
    return f"BLEU|{bleu.get_signature()}; chrF2|{chr_f.get_signature()}"


def _middle(found: list[float]) -> tuple[float, float]:
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)
