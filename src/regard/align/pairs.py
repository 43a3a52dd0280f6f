"""Which words meet in a corpus: every pair of a source and a target word that share a pair of sentences, numbered.

A table of translations needs a number for each pair that can occur, and no other. The number of every cell (i, j) of
every pair of sentences is found once, so that each later look into a table is one load and no search. A source word's
pairs stand together, and its tokens are known: whoever adds up what a table's entries are worth goes word by word, and
no two threads ever write to one entry.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.align.corpus import Corpus
from regard.kernels.compile import kernel
from regard.kernels.workers import share

__all__ = ["Pairs", "runs"]

Array = np.ndarray[Any, Any]

#: Runs of work: many for each thread, and the same however many threads there are.
_RUNS = 128


@dataclass(frozen=True)
class Pairs:
    """The pairs of a corpus, and of the sentences ``first`` to ``last`` of it each cell's pair.

    Pairs ``rows[e]`` to ``rows[e + 1]`` are those of source word e, ``target`` is the target word of each. The cell
    (i, j) of sentence s is ``cells[starts[s] + i * m + j]``. The tokens of source word e, as places in the corpus, are
    ``tokens[words[e] : words[e + 1]]``, ascending, and ``sentence`` says in which pair of sentences a token stands.
    """

    rows: Array  # int64 [V + 1]
    target: Array  # int32 [P]
    starts: Array  # int64 [n + 1]
    cells: Array  # int32
    words: Array  # int64 [V + 1]
    tokens: Array  # int64 [N]
    sentence: Array  # int32 [N]
    first: int
    last: int

    def __len__(self) -> int:
        return len(self.target)

    @staticmethod
    def of(
        corpus: Corpus,
        *,
        part: tuple[int, int] | None = None,
        threads: int | None = None,
        spool: Path | None = None,
    ) -> Pairs:
        """Numbers the pairs of ``corpus``; cells are kept for the sentences of ``part`` alone, in a file with
        ``spool``.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from regard.align.corpus import read
        >>> with TemporaryDirectory() as folder:
        ...     text = Path(folder, "text")
        ...     _ = text.write_text("das Haus ||| the house\\nein Haus ||| a house\\n")
        ...     pairs = Pairs.of(read(text))
        >>> pairs.cells.reshape(2, 2, 2).tolist()  # Haus·house is the third pair, in both
        [[[0, 1], [2, 3]], [[5, 6], [4, 3]]]
        """
        source, target = corpus.source, corpus.target
        first, last = part if part is not None else (0, len(corpus))
        sizes = source.lengths() * target.lengths()
        starts = np.zeros(len(corpus) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        sentence = np.repeat(np.arange(len(corpus), dtype=np.int32), source.lengths())
        words, tokens = _index(source.tokens, len(source.words))
        starts -= starts[first]
        room = int(starts[last])
        cells = np.empty(room, np.int32) if spool is None else _mapped(spool / "cells", room)

        work = _weights(words, tokens, sentence, target.offsets)
        chunks = runs(work)
        rows = np.zeros(len(source.words) + 1, np.int64)
        given = (words, tokens, sentence, source.offsets, target.tokens, target.offsets, starts, len(target.words))
        share(_count, chunks, *given, rows, threads=threads)
        np.cumsum(rows, out=rows)
        if rows[-1] >= 1 << 31:
            from regard.errors import RegardError

            raise RegardError(
                f"source: {int(rows[-1]):,} pairs of words meet, more than 2³¹; "
                "split words into pieces (--tokenize) or align parts of the corpus one by one"
            )
        found = np.empty(int(rows[-1]), np.int32)
        share(_number, chunks, *given, rows, first, last, cells, found, threads=threads)
        return Pairs(rows, found, starts, cells, words, tokens, sentence, first, last)

    def find(self, source: Array, target: Array) -> Array:
        """The numbers of the pairs of these words, −1 for a pair that never meets."""
        words = int(self.target.max(initial=0)) + 1
        keys = np.repeat(np.arange(len(self.rows) - 1, dtype=np.int64), np.diff(self.rows)) * words + self.target
        order = np.argsort(keys, kind="stable")
        wanted = np.where(target < words, source.astype(np.int64) * words + target, -1)
        if not len(order):
            return np.full(len(wanted), -1, np.int64)
        at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(order) - 1)]
        return np.where(keys[at] == wanted, at, -1)


def runs(work: Array, most: int = _RUNS) -> list[tuple[int, int]]:
    """Tasks in runs of about equal work, in their order; the same whatever the number of threads."""
    total = np.cumsum(work, dtype=np.float64)
    if not len(total):
        return []
    edges = np.searchsorted(total, np.linspace(0, total[-1], min(most, len(total)) + 1)[1:-1], side="left") + 1
    edges = np.unique(np.concatenate(([0], edges, [len(total)])))
    return [(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def _index(tokens: Array, words: int) -> tuple[Array, Array]:
    """Where each word stands: a stable sort of the tokens by their word."""
    edges = np.zeros(words + 1, np.int64)
    np.cumsum(np.bincount(tokens, minlength=words), out=edges[1:])
    return edges, _sorted(tokens, edges)


def _sorted(tokens: Array, edges: Array) -> Array:
    places = np.empty(len(tokens), np.int64)
    _place(tokens, edges[:-1].copy(), places)
    return places


def _weights(words: Array, tokens: Array, sentence: Array, offsets: Array) -> Array:
    """How many cells each source word has."""
    cells = np.zeros(len(tokens) + 1, np.int64)
    np.cumsum(np.diff(offsets)[sentence[tokens]], out=cells[1:])
    return np.diff(cells[words]) + 1


def _mapped(path: Path, size: int) -> Array:
    return np.memmap(path, np.int32, "w+", shape=(size,)) if size else np.empty(0, np.int32)


@kernel
def _place(tokens, nexts, places):
    for k in range(len(tokens)):
        word = tokens[k]
        places[nexts[word]] = k
        nexts[word] += 1


@kernel
def _count(words, tokens, sentence, sources, targets, offsets, starts, vocabulary, rows, e0, e1):
    """``rows[e + 1]`` = how many target words meet e."""
    seen = np.full(vocabulary, -1, np.int32)
    for e in range(e0, e1):
        met = 0
        for o in range(words[e], words[e + 1]):
            s = sentence[tokens[o]]
            for k in range(offsets[s], offsets[s + 1]):
                f = targets[k]
                if seen[f] != e:
                    seen[f] = e
                    met += 1
        rows[e + 1] = met


@kernel
def _number(
    words, tokens, sentence, sources, targets, offsets, starts, vocabulary, rows, first, last, cells, found, e0, e1
):
    """The pairs of e are numbered as its tokens meet them."""
    seen = np.full(vocabulary, -1, np.int32)
    number = np.empty(vocabulary, np.int32)
    for e in range(e0, e1):
        following = rows[e]
        for o in range(words[e], words[e + 1]):
            k = tokens[o]
            s = sentence[k]
            m = offsets[s + 1] - offsets[s]
            row = starts[s] + (k - sources[s]) * m
            inside = first <= s and s < last
            for j in range(m):
                f = targets[offsets[s] + j]
                if seen[f] != e:
                    seen[f] = e
                    number[f] = following
                    found[following] = f
                    following += 1
                if inside:
                    cells[row + j] = number[f]
