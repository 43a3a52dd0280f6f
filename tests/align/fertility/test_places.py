"""Models 3, 4 and 5 over a corpus: short pairs are summed exactly, and nothing depends on threads."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regard.align.corpus import Corpus, Side
from regard.align.expect import Channel, expect
from regard.align.fertility.belief import Belief
from regard.align.fertility.places import Fertile
from regard.align.lexicon import Dirichlet, Lexicon
from regard.align.pairs import Pairs
from regard.align.places import Found
from regard.align.recipe import Recipe, Stage
from regard.align.train import begin, train
from regard.align.view import View
from regard.errors import RegardError
from tests.align.fertility import reference
from tests.align.fertility.cases import Array, published
from tests.align.fertility.reference import enumerate_all

STAGES = {3: 2, 4: 1, 5: 1}


def side(sentences: list[list[int]], words: int) -> Side:
    tokens = np.array(list(itertools.chain.from_iterable(sentences)), np.int32)
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    return Side(tokens, offsets, [b"w%d" % k for k in range(words)])


def random_corpus(seed: int, shapes: list[tuple[int, int]], words: tuple[int, int]) -> Corpus:
    rng = np.random.default_rng(seed)
    both = [[rng.integers(words[k], size=shape[k]).tolist() for shape in shapes] for k in (0, 1)]
    return Corpus(side(both[0], words[0]), side(both[1], words[1]), np.zeros(0, np.int64))


def trained(corpus: Corpus, model: int, dtype: Any = np.float64, **options: Any) -> tuple[Channel, Channel]:
    stages = [Stage("ibm1", 2), Stage("hmm", 2), *(Stage(f"ibm{k}", STAGES[k]) for k in range(3, model + 1))]
    recipe = Recipe(tuple(stages), Dirichlet(0.01, 0.01), null=0.2, classes=3, **options)
    return train(begin(corpus, Pairs.of(corpus), recipe, dtype), recipe, threads=1).channels


SHORT = [(l, m) for l in range(1, 5) for m in range(1, 5)]


@pytest.mark.parametrize("model", [3, 4, 5])
@pytest.mark.parametrize("k", [0, 1])
def test_short_pairs_are_summed_over_every_alignment_while_training(model: int, k: int) -> None:
    """Posteriors, the likelihood and the best alignment, from the tables as training made them."""
    corpus = random_corpus(model, [*SHORT, (7, 11), (0, 0), (13, 5)], (5, 7))
    channel = trained(corpus, model)[k]
    view, places = channel.view, channel.places
    assert isinstance(places, Fertile)
    found = Found(view, np.float64)
    (block,) = view.blocks()
    places.expect(view, block, channel.lexicon, found, 1)
    best = places.best(view, block, channel.lexicon, found, 1)
    giving, gives, given, gets, cells, starts, turned = view.layout()
    for s, shape in enumerate(SHORT):
        l, m = shape[::-1] if turned else shape
        grid = cells[starts[s] : starts[s] + l * m].reshape((m, l) if turned else (l, m))
        t = channel.lexicon.table[grid if turned else grid.T]
        null = channel.lexicon.null[given[gets[s] : gets[s] + m]]
        words = giving[gives[s] : gives[s] + l]
        asked = as_asked(places, t, null, words, given[gets[s] : gets[s] + m])
        _, expected, viterbi = enumerate_all(model, l, m, asked)
        post = found.post[starts[s] : starts[s] + l * m].reshape(grid.shape)
        post = post if turned else post.T
        for j, i in itertools.product(range(m), range(l)):
            assert post[j, i] == pytest.approx(expected.get(("t", j + 1, i + 1), 0.0), abs=1e-9)
        here = best[gets[s] : gets[s] + m].astype(int)
        likeliest = reference.joint(model, viterbi, l, asked).value  # a word that stands twice has equals
        reached = reference.joint(model, published(np.where(here < 0, l, here), l), l, asked).value
        assert reached == pytest.approx(likeliest, rel=1e-9)


def as_asked(places: Fertile, t: Array, null: Array, words: Array, others: Array) -> reference.Tables:
    """The tables of a sentence as the reference asks for them; distances lie within the tables for short sentences."""
    learnt: Any = places.distances
    near = (learnt.head.shape[2] - 1) // 2 if places.distances.model == 4 else 0
    n = places.fertility[words]
    return reference.Tables(
        words=lambda j, i: float(t[j - 1, i - 1] if i else null[j - 1]),
        fertility=lambda phi, i: float(n[i - 1, phi]),
        p1=places.p1,
        places=lambda j, i, m, l: model_3(learnt, j - 1, i - 1, m, l),
        head=lambda step, a, b: float(learnt.head[a - 1, b - 1, step + near]),
        body=lambda step, b: float(learnt.body[b - 1, step]),
        opening=lambda v, b, before, room: float(learnt.opening[b - 1, room, before, v]),
        onward=lambda step, b, room: float(learnt.onward[b - 1, room, step]),
        source=tuple(int(x) + 1 for x in places.source[words]),
        target=tuple(int(x) + 1 for x in places.target[others]),
    )


def model_3(learnt: Any, j: int, i: int, m: int, l: int) -> float:
    """d(j|i, m, l), found by counting shapes one by one."""
    start, longest = 0, 32
    for a, b in itertools.product(range(1, longest + 1), repeat=2):
        if (a, b) == (l, m):
            return float(learnt.places[start + j * l + i])
        start += a * b
    raise AssertionError


def test_every_table_is_a_distribution() -> None:
    corpus = random_corpus(0, [(5, 7), (3, 2), (11, 13), (2, 40), (37, 3)] * 5, (11, 13))
    for model in (3, 4, 5):
        for channel in trained(corpus, model):
            places: Any = channel.places
            learnt = places.distances
            np.testing.assert_allclose(places.fertility.sum(1), 1.0)
            if model == 3:
                tables = learnt.tables(50, np.float64)
                assert np.exp(tables.ridge).sum() == pytest.approx(tables.ridges[-1])
                for l, m in ((1, 1), (3, 2), (32, 31)):
                    for i in range(l):
                        assert sum(model_3(learnt, j, i, m, l) for j in range(m)) == pytest.approx(1.0)
            elif model == 4:
                np.testing.assert_allclose(learnt.head.sum(-1), 1.0)
                np.testing.assert_allclose(learnt.body.sum(-1), 1.0)
            else:
                for room in range(1, learnt.onward.shape[1]):
                    np.testing.assert_allclose(learnt.opening[:, room].sum(-1), 1.0)
                    assert (learnt.opening[:, room, :, room + 1 :] == 0).all()  # never where there is no room
                    np.testing.assert_allclose(learnt.onward[:, room].sum(-1), 1.0)


@pytest.mark.parametrize("peg", [None, 0.1])
def test_threads_change_nothing(peg: float | None) -> None:
    rng = np.random.default_rng(1)
    corpus = random_corpus(1, [tuple(rng.integers(1, 14, 2).tolist()) for _ in range(53)], (17, 19))
    pairs = Pairs.of(corpus)
    stages = [Stage("ibm1", 2), Stage("hmm", 2), Stage("ibm3", 2), Stage("ibm4", 2), Stage("ibm5", 2)]
    recipe = Recipe(tuple(stages), Dirichlet(0.01, 0.01), classes=3, fertility=Belief(peg=peg))
    one, two = (train(begin(corpus, pairs, recipe), recipe, threads=n).channels for n in (1, 3))
    for a, b in zip(one, two, strict=True):
        assert (a.lexicon.table == b.lexicon.table).all()
        assert isinstance(a.places, Fertile)
        assert isinstance(b.places, Fertile)
        assert (a.places.fertility == b.places.fertility).all()
        assert (a.places.tops.places == b.places.tops.places).all()


def test_parts_of_a_corpus_add_up() -> None:
    """What two processes count apart is what one counts, from the same tables."""
    rng = np.random.default_rng(2)
    corpus = random_corpus(2, [tuple(rng.integers(1, 9, 2).tolist()) for _ in range(31)], (7, 5))
    for model in (3, 4, 5):
        for channel in trained(corpus, model):
            whole = expect([channel], None, 1)[0]
            apart = []
            for part in ((0, 13), (13, 31)):
                view = View(corpus.source, corpus.target, Pairs.of(corpus, part=part), channel.view.turned)
                apart.append(expect([Channel(view, channel.lexicon, channel.places)], None, 1)[0])
            np.testing.assert_allclose(whole.sums, apart[0].sums + apart[1].sums, atol=1e-9)
            np.testing.assert_allclose(whole.counts, apart[0].counts + apart[1].counts, atol=1e-9)
            assert whole.score == pytest.approx(apart[0].score + apart[1].score)


def test_odd_shapes_have_finite_likelihood() -> None:
    """One word against many: more than nine of a cept, and NULL that may have half of them at most."""
    shapes = [(1, 1), (1, 31), (31, 1), (2, 97), (97, 2), (0, 0), (1, 2), (43, 47)]
    corpus = random_corpus(3, shapes, (3, 5))
    for model in (3, 4, 5):
        for channel in trained(corpus, model, np.float32):
            found = expect([channel], None, 1)[0]
            assert math.isfinite(found.score)
            assert np.isfinite(found.sums).all()
            assert (found.sums >= 0).all()
            places = channel.places
            assert isinstance(places, Fertile)
            offsets = channel.view.generated.offsets
            for s in range(len(shapes)):
                here = places.tops.places[offsets[s] : offsets[s + 1]]
                assert 2 * (here < 0).sum() <= len(here)


def test_a_thousand_words_do_not_hang() -> None:
    """Model 5 is trained after 3 and 4."""
    corpus = random_corpus(4, [(997, 1009), (3, 2)], (503, 499))
    start = time.process_time()
    for channel in trained(corpus, 5, np.float32):
        assert math.isfinite(expect([channel], None, 1)[0].score)
    assert time.process_time() - start < 120


def test_a_loaded_text_without_a_start_begins_where_its_guide_looks() -> None:
    corpus = random_corpus(6, [(5, 7), (11, 3), (4, 4)], (7, 11))
    channel = trained(corpus, 4)[0]
    again = View(replace(corpus.source), replace(corpus.target), channel.view.pairs)
    found = Found(again, np.float64)
    places = channel.places
    (block,) = again.blocks()
    places.expect(again, block, channel.lexicon, found, 1)
    best = places.best(again, block, channel.lexicon, found, 1)
    assert len(best) == len(corpus.target.tokens)
    assert best.min() >= -1
    # Each place's posterior with NULL's is one.
    post = found.post[: 5 * 7].reshape(5, 7).sum(0) + found.null[:7]
    np.testing.assert_allclose(post, 1.0)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(RegardError, match="stages: ibm4:3 comes first"):
        Recipe((Stage("ibm4", 3),))
    with pytest.raises(RegardError, match=r"p1: found 1.0, wanted a probability between 0 and 1"):
        Belief(p1=1.0)
    with pytest.raises(RegardError, match="rare: found 0, wanted a number above 0"):
        Belief(rare=0)
    with pytest.raises(RegardError, match="peg: found -1, wanted at least 0 and below 1"):
        Belief(peg=-1)


def test_the_share_of_null_is_estimated_if_asked() -> None:
    corpus = random_corpus(7, [(3, 5)] * 7, (5, 5))
    fixed, free = (trained(corpus, 3, fertility=Belief(p1=p1))[0].places for p1 in (0.03, None))
    assert isinstance(fixed, Fertile)
    assert isinstance(free, Fertile)
    assert fixed.p1 == 0.03
    channel = trained(corpus, 3, fertility=Belief(p1=None))[0]
    found = expect([channel], None, 1)[0]
    null, words = found.null.sum(), len(corpus.target.tokens)
    assert channel.places.fitted(channel.view, found.sums).p1 == pytest.approx(null / (words - null))  # type: ignore[attr-defined]


def test_a_lexicon_of_zeros_is_survived() -> None:
    corpus = random_corpus(8, [(6, 7), (2, 3)], (5, 5))
    channel = trained(corpus, 4)[0]
    blank = Lexicon(0 * channel.lexicon.table, 0 * channel.lexicon.null, channel.lexicon.rest)
    assert math.isfinite(expect([replace(channel, lexicon=blank)], None, 1)[0].score)
