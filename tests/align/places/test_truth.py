"""Posteriors, likelihood, the likeliest alignment and every expected count equal the sum over all alignments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align.corpus import Corpus
from regard.align.expect import Channel, expect
from regard.align.lexicon import Lexicon
from regard.align.places import Found, Places
from regard.align.places.diagonal import Diagonal
from regard.align.places.jumps import Jumps
from regard.align.places.shapes import Shapes
from regard.align.places.table import Table
from regard.align.places.uniform import Uniform
from regard.align.view import View
from tests.align.exhaustive import (
    Truth,
    Words,
    bucket,
    corpus,
    enumerated,
    jumped,
    random_corpus,
    random_jumps,
    random_lexicon,
    views,
)

Array = np.ndarray[Any, Any]
KINDS = ("uniform", "table", "diagonal", "jumps", "flat")
SEEDS = st.integers(0, 2**32 - 1)


def random_places(kind: str, rng: np.random.Generator, view: View) -> Places:
    if kind == "uniform":
        return Uniform()
    if kind == "diagonal":
        return Diagonal(Shapes.found(view), float(rng.uniform(0.2, 9)), 0.13, np.float64)
    if kind == "table":
        shapes = Shapes.found(view)
        return Table(shapes, rng.random(shapes.size) + 0.01)
    return random_jumps(rng, view, flat=0.7 if kind == "flat" else 1.0)


def defined(places: Places, view: View, s: int, words: Words) -> Callable[[tuple[int, ...]], float]:
    """The probability of the places of sentence ``s``, by what the docstrings say."""
    m, l = words.table.shape
    if isinstance(places, Jumps):
        return jumped(places, words.giving)
    if isinstance(places, Uniform):
        return lambda a: float((l + 1.0) ** -m)
    bias = np.zeros((m, l + 1))  # the last for NULL, as index −1 has it
    if isinstance(places, Diagonal):
        for j in range(m):
            rise = [math.exp(-places.tension * abs((i + 1) / l - (j + 1) / m)) for i in range(l)]
            bias[j] = [*((1 - places.null) * each / sum(rise) for each in rise), places.null]
    elif isinstance(places, Table):
        shapes = list(zip(places.shapes.l.tolist(), places.shapes.m.tolist(), strict=True))
        begin = int(places.shapes.begins[shapes.index((l, m))])
        bias = places.bias[begin : begin + m * (l + 1)].reshape(m, l + 1)
    return lambda a: math.prod(float(bias[j, i]) for j, i in enumerate(a))


def cells_of(view: View, s: int, post: Array, base: int) -> Array:
    """The block's posteriors of one sentence as (generated, generating)."""
    starts = view.pairs.starts
    part = post[starts[s] - base : starts[s + 1] - base]
    l, m = (int(np.diff(side.offsets)[s]) for side in (view.generating, view.generated))
    return part.reshape(m, l) if view.turned else part.reshape(l, m).T


def compare(text: Corpus, kind: str, rng: np.random.Generator, sides: tuple[int, ...] = (0, 1)) -> None:
    for view in (views(text)[k] for k in sides):
        lexicon, places = random_lexicon(rng, view), random_places(kind, rng, view)
        found, score = Found(view, np.float64), 0.0
        counts, nulls = np.zeros(len(view.pairs)), np.zeros(len(view.generated.words))
        truths: dict[int, tuple[Words, Truth]] = {}
        for block in view.blocks():
            places.expect(view, block, lexicon, found, 1)
            best = places.best(view, block, lexicon, found, 1)
            first = int(view.generated.offsets[block.first])
            for s in range(block.first, block.last):
                words = Words.of(view, lexicon, s)
                if not words.table.size:
                    continue
                truth = enumerated(words, defined(places, view, s, words))
                truths[s] = words, truth
                at = slice(int(view.generated.offsets[s]), int(view.generated.offsets[s + 1]))
                np.testing.assert_allclose(cells_of(view, s, found.post, block.base), truth.post, atol=1e-9)
                np.testing.assert_allclose(found.null[at], truth.null, atol=1e-9)
                chosen = tuple(best[at.start - first : at.stop - first].tolist())
                assert dict(truth.each)[chosen] == pytest.approx(truth.most, rel=1e-9)  # several may be the likeliest
                score += truth.score
                np.add.at(counts, words.pairs, truth.post)
                np.add.at(nulls, words.given, truth.null)
        assert found.score == pytest.approx(score, abs=1e-9)
        np.testing.assert_allclose(places.sums(view, found), sums_of(places, view, truths), atol=1e-9)
        (expected,) = expect([Channel(view, lexicon, places)], None)
        np.testing.assert_allclose(expected.counts, counts, atol=1e-9)
        np.testing.assert_allclose(expected.null, nulls, atol=1e-9)
        assert expected.score == pytest.approx(score, abs=1e-9)


def sums_of(places: Places, view: View, truths: dict[int, tuple[Words, Truth]]) -> Array:
    """What the places are fitted to, added up over all alignments."""
    if isinstance(places, Jumps):
        wide = places.reach + 1
        jumps = np.zeros(places.weights.shape)
        origins = np.zeros((len(places.weights), wide, wide))  # class, length, place from 1, 0 before the sentence
        for words, truth in truths.values():
            for a, p in truth.each:
                before = -1
                for i in a:
                    if i >= 0:
                        kind = len(jumps) - 1 if before < 0 else int(places.classes[words.giving[before]])
                        jumps[kind, bucket(i - before)] += p
                        origins[kind, len(words.giving), before + 1] += p
                        before = i
        return np.concatenate((jumps.ravel(), origins.ravel()))
    if not isinstance(places, Table | Diagonal):
        return np.zeros(0)
    table = np.zeros(places.shapes.size)
    for s, (_, truth) in truths.items():
        begin = int(places.shapes.begins[places.shapes.of[s]])
        rows = np.concatenate((truth.post, truth.null[:, None]), axis=1)
        table[begin : begin + rows.size] += rows.ravel()
    return table


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
@settings(max_examples=7)
def test_every_number_is_that_of_all_alignments(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    compare(random_corpus(rng, 7), kind, rng)


@pytest.mark.parametrize("kind", KINDS)
def test_block_by_block_it_is_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.align.view._CELLS", 7)
    rng = np.random.default_rng(3)
    text = random_corpus(rng, 23)
    assert len(list(views(text)[0].blocks())) > 5
    compare(text, kind, rng)


@pytest.mark.parametrize("kind", ["jumps", "flat"])
def test_far_jumps_share_their_weights(kind: str) -> None:
    """Jumps of more than 21 words, forward and back."""
    rng = np.random.default_rng(5)
    long = " ".join(f"e{k % 11}" for k in range(29))
    compare(corpus((long, "f0 f1"), ("e3", "f1")), kind, rng, (0,))
    compare(corpus(("f0 f1", long), ("f1", "e3")), kind, rng, (1,))


@given(seed=SEEDS)
@settings(max_examples=7)
def test_models_1_and_2_in_closed_form(seed: int) -> None:
    """p(i|j) = softmax_i(log t + log a), and log p(f|e) = Σ_j log Σ_i t a: word by word, no alignment enumerated."""
    rng = np.random.default_rng(seed)
    text = random_corpus(rng, 7, longest=9)
    for view in views(text):
        lexicon, table = random_lexicon(rng, view), random_places("table", rng, view)
        for places in (Uniform(), table):
            found, score = Found(view, np.float64), 0.0
            (block,) = view.blocks()
            places.expect(view, block, lexicon, found, 1)
            for s in range(len(text)):
                words = Words.of(view, lexicon, s)
                m, l = words.table.shape
                bias = np.full((m, l + 1), 1 / (l + 1))
                if isinstance(places, Table) and m:
                    begin = int(places.shapes.begins[places.shapes.of[s]])
                    bias = places.bias[begin : begin + m * (l + 1)].reshape(m, l + 1)
                logits = np.log(np.concatenate((words.table, words.null[:, None]), axis=1)) + np.log(bias)
                lse = np.log(np.exp(logits).sum(axis=1, keepdims=True))
                np.testing.assert_allclose(
                    cells_of(view, s, found.post, block.base), np.exp(logits - lse)[:, :-1], atol=1e-12
                )
                score += float(lse.sum())
            assert found.score == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_that_nothing_can_say(kind: str) -> None:
    """Its likelihood is 0 and says so; every number stays finite, and what the other words look at adds up to 1."""
    rng = np.random.default_rng(1)
    text = corpus(("a b", "x y z"), ("b", "x"))
    for view in views(text):
        lexicon, places = random_lexicon(rng, view), random_places(kind, rng, view)
        word = int(view.generated.tokens[1])
        table, null = lexicon.table.copy(), lexicon.null.copy()
        null[word] = 0
        for s in range(len(text)):
            words = Words.of(view, lexicon, s)
            table[words.pairs[words.given == word]] = 0
        found = Found(view, np.float64)
        (block,) = view.blocks()
        places.expect(view, block, Lexicon(table, null, lexicon.rest), found, 1)
        places.best(view, block, Lexicon(table, null, lexicon.rest), found, 1)
        assert found.score == -math.inf
        for s in range(len(text)):
            at = slice(int(view.generated.offsets[s]), int(view.generated.offsets[s + 1]))
            whole = cells_of(view, s, found.post, block.base).sum(axis=1) + found.null[at]
            told = view.generated.tokens[at] != word
            np.testing.assert_allclose(whole[told], 1, atol=1e-12)
            assert np.isfinite(whole).all()
        assert np.isfinite(places.sums(view, found)).all()
