"""What is known of word pairs before they are counted: how they are spelt, and a file of pairs with their counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regard.align.corpus import Corpus, lines
from regard.align.pairs import Pairs
from regard.align.recipe import Recipe, Sampling
from regard.align.spelling import spelling
from regard.errors import RegardError

__all__ = ["read", "spelt"]

Array = np.ndarray[Any, Any]


def spelt(corpus: Corpus, pairs: Pairs, recipe: Recipe | Sampling, threads: int | None = None) -> Array | None:
    """The pseudo-counts that ``recipe`` gives for spelling, None where it gives none."""
    if recipe.spelling == 0:
        return None
    weight = np.float32(recipe.spelling)
    counts: Array = spelling(corpus, pairs, threads=threads) * weight
    return counts


def read(path: Path, corpus: Corpus, pairs: Pairs) -> tuple[Array, int]:
    """(pseudo-counts of the corpus's pairs, lines of the file whose words never meet in it).

    A line is ``source target count``, with tabs or spaces between; a pair that is there twice counts twice. A
    dictionary that ``--dictionary`` wrote is such a file: what follows the count is passed over, and so is its first
    line.

    Raises:
        RegardError: a line that is not three words with a number: names the line.
    """
    numbers = [{word: k for k, word in enumerate(side.words)} for side in (corpus.source, corpus.target)]
    found: list[tuple[int, int, float]] = []
    apart = 0
    for number, line in enumerate(lines(path), 1):
        words = line.split(b"\t") if b"\t" in line else line.split()
        if not line.strip() or (number == 1 and len(words) > 2 and words[2].strip() == b"count"):
            continue
        try:
            e, f = (index.get(word.strip(), -1) for index, word in zip(numbers, words[:2], strict=True))
            count = float(words[2])
            if not 0 <= count < np.inf:
                raise ValueError
        except (ValueError, IndexError):
            shown = line.decode("utf-8", "replace").strip()[:60]
            raise RegardError(
                f"--prior: line {number:,} of {path} is {shown!r}, wanted a source word, a target word and a count"
            ) from None
        if e < 0 or f < 0:
            apart += 1
        else:
            found.append((e, f, count))
    known = np.zeros(len(pairs), np.float32)
    if found:
        source, target, counts = (np.array(column) for column in zip(*found, strict=True))
        at = pairs.find(source, target)
        np.add.at(known, at[at >= 0], counts[at >= 0])
        apart += int((at < 0).sum())
    return known, apart
