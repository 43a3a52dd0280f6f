"""Which word translates which, counted over the links of a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.links import Links
from regard.errors import RegardError
from regard.files import replace

__all__ = ["Dictionary", "Entry"]

Array = np.ndarray[Any, Any]

_HEAD = "source\ttarget\tcount\tp(target|source)\tp(source|target)\n"


@dataclass(frozen=True)
class Entry:
    """A pair of words that are linked ``count`` times, and its share of the links of either word."""

    source: str
    target: str
    count: int
    target_given_source: float
    source_given_target: float


@dataclass(frozen=True, eq=False)
class Dictionary:
    """The pairs of words that links join, most frequent first, equal counts by their words.

    p(t|s) = count(s, t) / Σ_t′ count(s, t′) over all links, those of pairs too rare to be listed among them: a share of
    the links that the word has, not of the places where it stands. A word that is never linked is not in it.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.align.corpus import read
    >>> with TemporaryDirectory() as folder:
    ...     text = Path(folder, "text")
    ...     _ = text.write_text("das Haus ||| the house\\nein Haus ||| a house\\ndas ||| this\\n")
    ...     words = Dictionary.of(read(text), Links.of([[(0, 0), (1, 1)], [(0, 0), (1, 1)], [(0, 0)]]))
    >>> words[0]
    Entry(source='Haus', target='house', count=2, target_given_source=1.0, source_given_target=1.0)
    >>> print("".join(words.lines()).expandtabs(10), end="")
    source    target    count     p(target|source)    p(source|target)
    Haus      house     2         1         1
    das       the       1         0.5       1
    das       this      1         0.5       1
    ein       a         1         1         1
    """

    corpus: Corpus
    source: Array  # int32: word numbers
    target: Array  # int32
    count: Array  # int64
    given_source: Array  # float64
    given_target: Array  # float64

    @staticmethod
    def of(corpus: Corpus, links: Links, *, least: int = 1) -> Dictionary:
        """Counts ``links`` of ``corpus``; pairs of words that are linked less than ``least`` times are left out."""
        if len(corpus) != len(links):
            raise RegardError(
                f"links: found those of {len(links):,} pairs of sentences, wanted {len(corpus):,} as in the corpus"
            )
        if least < 1:
            raise RegardError(f"least: found {least}, wanted 1 or more")
        s = _words(corpus.source.tokens, corpus.source.offsets, links, links.source, "source")
        t = _words(corpus.target.tokens, corpus.target.offsets, links, links.target, "target")
        sources, targets = corpus.source.words, corpus.target.words
        pairs, count = np.unique(s.astype(np.int64) * max(1, len(targets)) + t, return_counts=True)
        of_source, of_target = np.bincount(s, minlength=len(sources)), np.bincount(t, minlength=len(targets))
        pairs, count = pairs[count >= least], count[count >= least]
        s, t = np.divmod(pairs, max(1, len(targets)))
        order = np.lexsort((_ranks(targets)[t], _ranks(sources)[s], -count))
        s, t, count = s[order], t[order], count[order]
        shares = count / of_source[s], count / of_target[t]
        return Dictionary(corpus, s.astype(np.int32), t.astype(np.int32), count, *shares)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, n: int) -> Entry:
        sides = ((self.corpus.source, self.source), (self.corpus.target, self.target))
        source, target = (side.words[numbers[n]].decode("utf-8", "replace") for side, numbers in sides)
        return Entry(source, target, int(self.count[n]), float(self.given_source[n]), float(self.given_target[n]))

    def __iter__(self) -> Iterator[Entry]:
        return (self[n] for n in range(len(self)))

    def lines(self) -> Iterator[str]:
        """The table as text: a head, then a line for each pair, five columns with tabs between."""
        yield _HEAD
        sides = (self.corpus.source.words, self.corpus.target.words)
        sources, targets = ([word.decode("utf-8", "replace") for word in words] for words in sides)
        columns = (self.source, self.target, self.count, self.given_source, self.given_target)
        for s, t, count, p, q in zip(*(column.tolist() for column in columns), strict=True):
            yield f"{sources[s]}\t{targets[t]}\t{count}\t{p:.6g}\t{q:.6g}\n"

    def save(self, path: Path, argument: str = "dictionary") -> None:
        """Writes the table to ``path`` as UTF-8, whole or not at all; a byte that is no UTF-8 becomes U+FFFD."""
        replace(path, "".join(self.lines()).encode(), argument)


def _words(tokens: Array, offsets: Array, links: Links, at: Array, name: str) -> Array:
    """The word at the end of each link."""
    places = offsets[links.sentence] + at
    beyond = np.flatnonzero(places >= offsets[links.sentence + 1])
    if len(beyond):
        s = int(links.sentence[beyond[0]])
        raise RegardError(
            f"links: pair {s + 1:,} links {name} word {at[beyond[0]]}, its sentence has {offsets[s + 1] - offsets[s]}; "
            "are these links of this corpus?"
        )
    return np.asarray(tokens[places])


def _ranks(words: list[bytes]) -> Array:
    """The place of each word in the order of their bytes."""
    ranks = np.empty(len(words), np.int64)
    ranks[np.array(sorted(range(len(words)), key=words.__getitem__), np.int64)] = np.arange(len(words))
    return ranks
