"""Where a generated word looks before any word is seen: the part of a channel that is about places alone.

A channel is t(f_j|e_i) times a distribution over the places i, NULL among them: a score and a bias of position.
Uniform is Model 1, a table of (i, j, l, m) Model 2, a ridge along the diagonal is fast_align's, jumps from the last
place the HMM."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from regard.align.lexicon import Lexicon
from regard.align.view import Block, View

__all__ = ["Found", "Places"]

Array = np.ndarray[Any, Any]


class Found:
    """What is expected of a channel under its own tables, filled block by block.

    ``post`` is the probability of each cell of the block under way, ``null`` that each generated word comes from NULL,
    ``held`` how often each generating word is the last place looked at when the next word looks, ``score`` the log
    likelihood, ``rows`` small sums of each run of sentences, in order: whoever adds them up gets the same number
    however many threads there were."""

    def __init__(self, view: View, dtype: Any) -> None:
        self.null = np.zeros(len(view.generated.tokens), dtype)
        self.held = np.zeros(len(view.generating.tokens), dtype)
        self.post = np.zeros(0, dtype)
        self.scores: list[Array] = []
        self.rows: list[Array] = []
        self.tops = np.zeros(0, np.int16)  # places of the likeliest alignment found, by who climbs
        self.table = np.zeros(0)  # sums for each place of each shape of sentences, by who has such a table

    def begin(self, block: Block, width: int) -> tuple[Array, Array]:
        """Makes room for a block: (log likelihood, sums) of each run, zero."""
        if len(self.post) < block.cells:
            self.post = np.zeros(block.cells, self.post.dtype)
        self.scores.append(np.zeros(len(block.runs)))
        self.rows.append(np.zeros((len(block.runs), width)))
        return self.scores[-1], self.rows[-1]

    @property
    def score(self) -> float:
        """Natural log likelihood of all blocks so far."""
        return float(sum(each.sum() for each in self.scores))

    @property
    def sums(self) -> Array:
        """The small sums of all runs together."""
        total: Array = np.concatenate(self.rows).sum(axis=0)
        return total


class Places(Protocol):
    """A distribution over the generating places, NULL among them, and how it is learnt."""

    def expect(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> None:
        """Fills ``found`` for the sentences of ``block``."""

    def best(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> Array:
        """The places of the likeliest alignment of each sentence of ``block``, −1 for NULL; ``found`` is of the
        block."""

    def sums(self, view: View, found: Found) -> Array:
        """What ``fitted`` needs, as one float64 array that may be added up over parts of a corpus."""

    def fitted(self, view: View, sums: Array) -> Places:
        """The M-step."""
