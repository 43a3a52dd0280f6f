"""Every cell of every pair of sentences has the number of its pair of words, and no pair has two."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.align.corpus import Corpus
from regard.align.pairs import Pairs, runs
from tests.align.exhaustive import corpus, random_corpus


def check(text: Corpus, pairs: Pairs) -> None:
    source = np.repeat(np.arange(len(text.source.words)), np.diff(pairs.rows))
    meeting = set()
    for s in range(len(text)):
        e = text.source.tokens[text.source.offsets[s] : text.source.offsets[s + 1]]
        f = text.target.tokens[text.target.offsets[s] : text.target.offsets[s + 1]]
        meeting |= set(itertools.product(e.tolist(), f.tolist()))
        if pairs.first <= s < pairs.last:
            cells = pairs.cells[pairs.starts[s] : pairs.starts[s + 1]].reshape(len(e), len(f))
            assert (source[cells] == e[:, None]).all()
            assert (pairs.target[cells] == f[None, :]).all()
    numbered = list(zip(source.tolist(), pairs.target.tolist(), strict=True))
    assert len(numbered) == len(set(numbered))
    assert set(numbered) == meeting
    for word in range(len(text.source.words)):
        tokens = pairs.tokens[pairs.words[word] : pairs.words[word + 1]]
        assert tokens.tolist() == np.flatnonzero(text.source.tokens == word).tolist()
    lengths = text.source.lengths()
    assert pairs.sentence.tolist() == np.repeat(np.arange(len(text)), lengths).tolist()


@given(st.integers(0, 2**32 - 1), st.integers(0, 23), st.integers(0, 23))
def test_numbers_of_the_whole_and_of_a_part(seed: int, a: int, b: int) -> None:
    text = random_corpus(np.random.default_rng(seed), 23)
    whole = Pairs.of(text)
    check(text, whole)
    part = Pairs.of(text, part=(min(a, b), max(a, b)))
    check(text, part)
    assert (part.target == whole.target).all()
    assert len(part.cells) == whole.starts[max(a, b)] - whole.starts[min(a, b)]


@given(st.integers(0, 2**32 - 1))
def test_threads_and_a_spool_change_nothing(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    text = random_corpus(np.random.default_rng(seed), 13)
    folder = tmp_path_factory.mktemp("spool")
    one = Pairs.of(text, threads=1)
    for other in (Pairs.of(text, threads=3), Pairs.of(text, threads=2, spool=folder)):
        for name in ("rows", "target", "starts", "cells", "words", "tokens", "sentence"):
            assert (getattr(one, name) == getattr(other, name)).all(), name


@given(st.integers(0, 2**32 - 1))
def test_found_by_its_words(seed: int) -> None:
    text = random_corpus(np.random.default_rng(seed), 7, words=(5, 7))
    pairs = Pairs.of(text)
    source = np.repeat(np.arange(len(text.source.words)), np.diff(pairs.rows))
    number = {key: p for p, key in enumerate(zip(source.tolist(), pairs.target.tolist(), strict=True))}
    every = list(itertools.product(range(len(text.source.words)), range(len(text.target.words) + 2)))
    e, f = np.array(every, np.int64).T
    assert pairs.find(e, f).tolist() == [number.get(key, -1) for key in every]


def test_no_sentence_has_no_pair(tmp_path: Path) -> None:
    for text in (corpus(), corpus(("", ""), ("", "x"))):
        for spool in (None, tmp_path):
            pairs = Pairs.of(text, spool=spool)
            assert (len(pairs), len(pairs.cells)) == (0, 0)
            assert pairs.find(np.array([0]), np.array([0])).tolist() == [-1]


@given(st.lists(st.integers(1, 1000), max_size=97), st.integers(1, 13))
def test_runs_are_everything_once_in_order(work: list[int], most: int) -> None:
    found = runs(np.array(work, np.int64), most)
    assert [k for a, b in found for k in range(a, b)] == list(range(len(work)))
    assert len(found) <= most
    assert all(a < b for a, b in found)


def test_runs_are_of_about_equal_work() -> None:
    found = runs(np.ones(1000), 10)
    assert {b - a for a, b in found} <= {99, 100, 101}
    assert len(found) == 10
