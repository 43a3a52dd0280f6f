"""Words that are spelt alike are likelier to translate each other: names, numbers, punctuation, cognates.

The likeness is the longest common subsequence over the length of the longer word (Melamed 1995, LCSR), letter case and
accents apart. It enters as a Dirichlet prior: what the text says in the end outweighs it, and where the text is small
or the word is rare it decides."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.pairs import Pairs, runs
from regard.kernels.compile import kernel
from regard.kernels.workers import share

__all__ = ["likeness", "spelling"]

Array = np.ndarray[Any, Any]

#: Likeness below this says nothing: by chance alone words of one alphabet share as much.
_FLOOR = 0.5
#: A shorter word is like another only if it is the same; a longer one than the other bound is not looked at.
_SHORT, _LONG = 4, 60


def spelling(corpus: Corpus, pairs: Pairs, *, threads: int | None = None) -> Array:
    """From 0 (likeness ½ or less) to 1 (the same word) for each of ``pairs``, float32.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from regard.align.corpus import read
    >>> with TemporaryDirectory() as folder:
    ...     text = Path(folder, "text")
    ...     _ = text.write_text("1867 Parlament ||| parliament 1867\\n")
    ...     corpus = read(text)
    >>> spelling(corpus, Pairs.of(corpus)).round(2)  # 1867·parliament, 1867·1867, Parlament·parliament, …
    array([0. , 1. , 0.8, 0. ], dtype=float32)
    """
    found = np.zeros(len(pairs), np.float32)
    source, target = (_letters(side.words) for side in (corpus.source, corpus.target))
    share(_compare, runs(np.diff(pairs.rows) + 1), pairs.rows, pairs.target, *source, *target, found, threads=threads)
    return found


def likeness(a: str, b: str) -> float:
    """The longest common subsequence of two words over the length of the longer, letter case and accents apart.

    >>> likeness("Gouvernement", "government")  # g-o-v-e-r-n-m-e-n-t is in both
    0.8333333333333334
    """
    letters, offsets = _letters([a.encode(), b.encode()])
    first, second = letters[: offsets[1]], letters[offsets[1] :]
    return float(_common(first, second, np.zeros(len(second) + 1, np.int32))) / max(1, len(first), len(second))


def _letters(words: list[bytes]) -> tuple[Array, Array]:
    """The code points of all words in a row, and where each begins."""
    plain = [_plain(word) for word in words]
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in plain], out=offsets[1:])
    return np.frombuffer("".join(plain).encode("utf-32-le"), np.int32), offsets


def _plain(word: bytes) -> str:
    if word.isascii():
        return word.decode().lower()
    text = unicodedata.normalize("NFD", word.decode("utf-8", "replace").casefold())
    return "".join(letter for letter in text if not unicodedata.combining(letter))


@kernel
def _common(a, b, row):
    """The length of the longest common subsequence; ``row`` is room for b and one more."""
    m = len(b)
    row[: m + 1] = 0
    for i in range(len(a)):
        corner = 0
        for j in range(m):
            above = row[j + 1]
            if a[i] == b[j]:
                row[j + 1] = corner + 1
            elif row[j] > above:
                row[j + 1] = row[j]
            corner = above
    return row[m]


@kernel
def _compare(rows, target, source_letters, sources, target_letters, targets, found, first, last):
    row = np.zeros(_LONG + 1, np.int32)
    for e in range(first, last):
        a = source_letters[sources[e] : sources[e + 1]]
        n = len(a)
        for p in range(rows[e], rows[e + 1]):
            f = target[p]
            m = targets[f + 1] - targets[f]
            shorter, longer = min(n, m), max(n, m)
            if n == 0 or longer > _LONG or shorter <= _FLOOR * longer:
                continue
            if shorter < _SHORT and n != m:
                continue
            b = target_letters[targets[f] : targets[f + 1]]
            common = _common(a, b, row)
            if common == longer:
                found[p] = 1
            elif shorter >= _SHORT and common > _FLOOR * longer:
                found[p] = (common / longer - _FLOOR) / (1 - _FLOOR)
