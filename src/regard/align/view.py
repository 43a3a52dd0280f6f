"""One direction over a corpus: which side generates which, and how the cells of a sentence lie for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.corpus import Corpus, Side
from regard.align.pairs import Pairs, runs

__all__ = ["Block", "View"]

Array = np.ndarray[Any, Any]

#: Cells of sentences that are looked at together: what is found of each lies in memory meanwhile.
_CELLS = 1 << 22
#: Runs of sentences in a block, whatever the number of threads.
_RUNS = 64


@dataclass(frozen=True)
class View:
    """A channel's view: forward the source generates the target, ``turned`` the target generates the source.

    Kernels take ``layout()``: the cell of generated word j and generating word i of sentence s lies at
    ``starts[s] + i * width + j`` forward, at ``starts[s] + j * width + i`` turned, ``width`` the target's length.
    """

    source: Side
    target: Side
    pairs: Pairs
    turned: bool = False

    @staticmethod
    def both(corpus: Corpus, pairs: Pairs) -> tuple[View, View]:
        """Forward and turned."""
        return View(corpus.source, corpus.target, pairs), View(corpus.source, corpus.target, pairs, turned=True)

    @property
    def generating(self) -> Side:
        """The side that is given."""
        return self.target if self.turned else self.source

    @property
    def generated(self) -> Side:
        """The side that is explained, each word from one generating word or from NULL."""
        return self.source if self.turned else self.target

    def layout(self) -> tuple[Array, Array, Array, Array, Array, Array, bool]:
        """(generating tokens, their offsets, generated tokens, their offsets, cells, starts, turned)."""
        giving, given = self.generating, self.generated
        return (
            giving.tokens,
            giving.offsets,
            given.tokens,
            given.offsets,
            self.pairs.cells,
            self.pairs.starts,
            self.turned,
        )

    def blocks(self) -> Iterator[Block]:
        """The part's sentences in blocks; the same for both views of a corpus."""
        starts, first, last = self.pairs.starts, self.pairs.first, self.pairs.last
        while first < last:
            beyond = int(np.searchsorted(starts, starts[first] + _CELLS, side="right")) - 1
            end = min(max(beyond, first + 1), last)
            yield Block.of(self, first, end)
            first = end


@dataclass(frozen=True)
class Block:
    """Sentences ``first`` to ``last``, in runs of about equal work."""

    first: int
    last: int
    base: int
    cells: int
    runs: list[tuple[int, int]]

    @staticmethod
    def of(view: View, first: int, last: int) -> Block:
        """The block of these sentences of ``view``."""
        starts = view.pairs.starts
        words = view.source.offsets[first : last + 1], view.target.offsets[first : last + 1]
        work = np.diff(starts[first : last + 1]) * (np.diff(words[0]) + np.diff(words[1])) + 1
        cut = [(first + a, first + b) for a, b in runs(work, _RUNS)]
        return Block(first, last, int(starts[first]), int(starts[last] - starts[first]), cut)
