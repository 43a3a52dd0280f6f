"""A file of known pairs: which words it means, what it counts, and which line is none."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from regard.align.aligner import align
from regard.align.dictionary import Dictionary
from regard.align.pairs import Pairs
from regard.align.prior import read, spelt
from regard.align.recipe import RECIPES
from regard.errors import RegardError
from tests.align.exhaustive import corpus

TEXT = corpus(("a b", "x y"), ("b c", "y z"))


def known(path: Path, data: str | bytes) -> tuple[dict[tuple[str, str], float], int]:
    """The pseudo-counts by words, and how many lines meet nothing."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    pairs = Pairs.of(TEXT)
    counts, apart = read(path, TEXT, pairs)
    assert counts.dtype == np.float32
    source = np.repeat(np.arange(len(pairs.rows) - 1), np.diff(pairs.rows))
    words = [[word.decode() for word in side.words] for side in (TEXT.source, TEXT.target)]
    found = {(words[0][e], words[1][f]): float(c) for e, f, c in zip(source, pairs.target, counts, strict=True) if c}
    return found, apart


def test_lines_of_words_and_counts(tmp_path: Path) -> None:
    data = "a x 3\nb\ty\t0.5\n\nb y 2\r\na z 1\nq x 1\nc\tz\t1e1\t0.5\t0.25\n"
    assert known(tmp_path / "known", data) == ({("a", "x"): 3, ("b", "y"): 2.5, ("c", "z"): 10}, 2)
    assert known(tmp_path / "known", "") == ({}, 0)
    assert known(tmp_path / "known", "q q 1\n") == ({}, 1)


@pytest.mark.parametrize("line", ["a", "a x", "a x y", "a x -1", "a x nan", "a x inf", "a\tx", "\tx\t1e400"])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    shown = re.escape(repr(line.strip()))
    with pytest.raises(RegardError, match=rf"--prior: line 2 of \S+ is {shown}, wanted a source word, a target word"):
        known(tmp_path / "known", f"a x 1\n{line}\n")


def test_a_dictionary_is_such_a_file(tmp_path: Path) -> None:
    found = align(TEXT)
    Dictionary.of(TEXT, found.links).save(tmp_path / "words.tsv")
    counts, apart = known(tmp_path / "words.tsv", (tmp_path / "words.tsv").read_bytes())
    assert apart == 0
    assert sum(counts.values()) == len(found.links.source) > 0


def test_spelling_where_the_recipe_asks_for_it() -> None:
    text = corpus(("1867 a", "b 1867"))
    pairs = Pairs.of(text)
    best = spelt(text, pairs, RECIPES["best"])
    assert best is not None
    assert best.sum() == 1
    assert spelt(text, pairs, RECIPES["hmm"]) is None
    assert align(text).links[0] == [(0, 1), (1, 0)]
