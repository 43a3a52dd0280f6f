"""Training: known numbers, a likelihood that never falls, and the same tables whatever it was divided by."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.align.aligner import align
from regard.align.corpus import Corpus, gathered, read
from regard.align.expect import Channel, expect
from regard.align.lexicon import Dirichlet, Lexicon
from regard.align.pairs import Pairs
from regard.align.places.jumps import Jumps
from regard.align.places.uniform import Uniform
from regard.align.recipe import Recipe, Stage
from regard.align.train import Iteration, State, begin, train
from tests.align.exhaustive import TRAINED, corpus, random_corpus, views

Array = np.ndarray[Any, Any]

KOEHN = (("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch"))
CHAINS = ("ibm1:8", "ibm1:3 ibm2:6", "diagonal:8", "ibm1:3 hmm:8", "hmm:3 ibm2:3 diagonal:3 ibm1:2")


def plain(stages: str, **more: Any) -> Recipe:
    """Maximum likelihood."""
    return Recipe(tuple(Stage.of(each) for each in stages.split()), **more)


def word(view_words: list[bytes], name: str) -> int:
    return view_words.index(name.encode())


def t(channel: Channel, given: str, giving: str) -> float:
    """t(given | giving) of a forward channel."""
    pairs = channel.view.pairs
    (p,) = pairs.find(
        np.array([word(channel.view.source.words, giving)]), np.array([word(channel.view.target.words, given)])
    )
    return float(channel.lexicon.table[p])


def test_koehns_corpus_without_null() -> None:
    """Model 1 in which NULL can say nothing: t(das|the) and the likelihood after each iteration, as worked by hand."""
    (view, _) = views(corpus(*KOEHN))
    nothing = np.zeros(len(view.target.words))
    channel = Channel(view, replace(Lexicon.uniform(view, np.float64), null=nothing), Uniform())
    das, haus, scores = [], [], []
    for _ in range(51):
        (found,) = expect([channel], None)
        scores.append(found.score + 6 * math.log(3 / 2))  # 1/2 for a place and not 1/3
        made = Lexicon.estimated(view, found.counts, found.null, Dirichlet())
        channel = Channel(view, replace(made, null=nothing), Uniform())
        das.append(t(channel, "das", "the"))
        haus.append(t(channel, "Haus", "house"))
    assert das[:3] == pytest.approx([0.5, 0.6364, 0.7479], abs=5e-5)
    assert das[9] == pytest.approx(0.9933, abs=5e-5)
    assert [haus[k] for k in (0, 1, 2, 9, 49)] == pytest.approx([0.5, 0.5714, 0.6534, 0.9172, 0.9891], abs=5e-5)
    assert scores[:4] == pytest.approx([-8.3178, -5.3096, -5.0011, -4.7447], abs=5e-5)
    assert -6 * math.log(2) - 0.02 < scores[-1] < -6 * math.log(2)


def test_koehns_corpus_with_null() -> None:
    """The limit of the likelihood, the same from the other side of the corpus."""
    text = corpus(*KOEHN)
    last: list[Iteration] = []
    train(
        begin(text, Pairs.of(text), plain("ibm1:3000"), np.float64),
        plain("ibm1:3000"),
        each=lambda x, _: last.append(x),
    )
    assert 6 * last[-1].forward == pytest.approx(-4.969813, abs=2e-4)
    assert 6 * last[-1].reverse == pytest.approx(-4.969813, abs=2e-4)


def rises(text: Corpus, recipe: Recipe) -> None:
    """Within every stage the likelihood of neither direction falls."""
    seen: list[Iteration] = []
    state = train(
        begin(text, Pairs.of(text), recipe, np.float64), recipe, each=lambda each, _: seen.append(each), threads=2
    )
    assert [each.done for each in seen] == list(range(1, state.done + 1))
    ends = list(itertools.accumulate(stage.iterations for stage in recipe.stages))
    for a, b in itertools.pairwise(seen):
        if a.done not in ends:
            for before, after in ((a.forward, b.forward), (a.reverse, b.reverse)):
                assert math.isfinite(before)
                assert after >= before - 1e-10 * abs(before), (a, b)
    firsts = [0, *ends[:-1]]
    for first, last in zip(firsts, ends, strict=True):
        if last - first > 1 and len(text.source.words) > 3:
            assert seen[last - 1].forward > seen[first].forward


@pytest.mark.parametrize("stages", CHAINS)
@pytest.mark.parametrize(("sentences", "longest"), [(7, 1), (11, 3), (31, 8), (13, 27)])
def test_the_likelihood_never_falls(stages: str, sentences: int, longest: int) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rises(random_corpus(rng, sentences, longest, words=(7, 11)), plain(stages, null=0.2))


@pytest.fixture(scope="session")
def hansards(corpus: Callable[[str], Path]) -> Path:
    return corpus("hansards-en-fr")


def head(folder: Path, count: int) -> Corpus:
    sides = [(folder / f"train.{name}").read_bytes().lower().split(b"\n")[:count] for name in ("en", "fr")]
    return gathered((s.split(), f.split()) for s, f in zip(*sides, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("stages", CHAINS[:4])
def test_the_likelihood_never_falls_on_real_text(stages: str, hansards: Path) -> None:
    rises(head(hansards, 300), plain(stages, null=0.2))


def tables(state: State) -> list[Array]:
    arrays = []
    for channel in state.channels:
        arrays += [channel.lexicon.table, channel.lexicon.null, channel.lexicon.rest]
        if isinstance(channel.places, Jumps):
            arrays.append(channel.places.weights)
    return arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["ibm2", "diagonal", "hmm", "agreement"])
def test_threads_change_no_bit(name: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.align.view._CELLS", 997)
    text, recipe = random_corpus(np.random.default_rng(6), 211, 9, words=(31, 37)), TRAINED[name]
    pairs = Pairs.of(text)
    one, two, three = (train(begin(text, pairs, recipe, dtype), recipe, threads=k) for k in (1, 2, 3))
    for a, b, c in zip(tables(one), tables(two), tables(three), strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
        assert a.dtype == (dtype if a.ndim == 1 else np.float64)


def test_threads_change_no_link() -> None:
    text = random_corpus(np.random.default_rng(6), 211, 9, words=(31, 37))
    one, two, three = (align(text, threads=k) for k in (1, 2, 3))
    for name in ("links", "forward", "reverse"):
        assert getattr(one, name) == getattr(two, name) == getattr(three, name)


@pytest.mark.parametrize("name", ["ibm2", "diagonal", "hmm", "agreement"])
def test_parts_added_up_are_the_whole(name: str) -> None:
    """What each of three parts expects, added up, is what the whole corpus expects."""
    text, recipe = random_corpus(np.random.default_rng(7), 53, 7), TRAINED[name]
    whole = train(begin(text, Pairs.of(text), recipe, np.float64), recipe)
    edges = (0, 11, 12, 53)
    states = [begin(text, Pairs.of(text, part=part), recipe, np.float64) for part in itertools.pairwise(edges)]
    for stage in recipe.stages:
        for k in range(stage.iterations):
            one = replace(recipe, stages=(replace(stage, iterations=1),))
            first = stage is not recipe.stages[0] and k == 0
            states = together(states, one, recipe.stages[0] if first else None)
    for a, b in zip(tables(whole), tables(states[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def together(states: list[State], recipe: Recipe, before: Stage | None) -> list[State]:
    """One iteration of all parts, ``together`` giving each the sum over all of them."""
    if before is not None:  # a stage begins: a stage of before stands in front, done
        recipe = replace(recipe, stages=(replace(before, iterations=1), *recipe.stages))
    done = sum(stage.iterations for stage in recipe.stages) - 1
    states = [replace(state, done=done) for state in states]
    heard: list[list[Array]] = [[] for _ in states]
    for state, mine in zip(states, heard, strict=True):
        train(state, recipe, together=lambda x, mine=mine: (mine.append(np.array(x)), x)[1])  # type: ignore[misc]
    sums = [sum(each) for each in zip(*heard, strict=True)]
    made = []
    for state in states:
        rest = iter(sums)
        made.append(train(state, recipe, together=lambda _, rest=rest: next(rest)))  # type: ignore[misc]
    return made


def test_agreeing_is_the_same_from_either_side() -> None:
    """Source and target exchanged: the tables change places, and the links are turned."""
    text = random_corpus(np.random.default_rng(8), 53, 7)
    turned = Corpus(text.target, text.source, text.refused)
    for name in ("agreement", "hmm"):
        recipe = replace(TRAINED[name], symmetrize="soft")
        one, other = (train(begin(each, Pairs.of(each), recipe, np.float64), recipe) for each in (text, turned))
        pairs, back = one.channels[0].view.pairs, other.channels[0].view.pairs
        e = np.repeat(np.arange(len(pairs.rows) - 1), np.diff(pairs.rows))
        at = back.find(pairs.target, e)
        for k in (0, 1):
            np.testing.assert_allclose(
                one.channels[k].lexicon.table, other.channels[1 - k].lexicon.table[at], rtol=1e-9, atol=1e-15
            )
            np.testing.assert_allclose(one.channels[k].lexicon.null, other.channels[1 - k].lexicon.null, rtol=1e-9)
        found, exchanged = align(text, recipe), align(turned, recipe)
        assert list(found.links) == list(exchanged.links.turned)
        assert list(found.forward) == list(exchanged.reverse.turned)
        assert len(found.links.source) > 10


def test_what_was_known_is_counted_each_time() -> None:
    text = corpus(("a b", "x y"), ("a b", "x y"))
    pairs = Pairs.of(text)
    known = np.zeros(len(pairs), np.float32)
    known[pairs.find(np.array([0]), np.array([1]))] = 10  # a is y
    before, after = (align(text, known=each) for each in (None, known))
    assert before.links[0] != [(0, 1), (1, 0)]
    assert after.links[:] == after.links
    assert after.links[0] == [(0, 1), (1, 0)]


def test_only_cells_are_kept_for_the_whole_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the number of each cell, training holds what a block needs, and what words and pairs need."""
    monkeypatch.setattr("regard.align.view._CELLS", 1 << 15)
    rng = np.random.default_rng(9)
    lines = rng.integers(29, size=(2, 199, 61))
    text = gathered(([b"%d" % w for w in s], [b"%d" % w for w in f]) for s, f in zip(*lines, strict=True))
    recipe = plain("ibm1:1:mean ibm2:1 hmm:1")
    align(text, recipe, threads=1)  # what is compiled is no part of it
    tracemalloc.start()
    try:
        align(text, recipe, threads=1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    cells = Pairs.of(text).cells.nbytes
    assert cells == 4 * 199 * 61 * 61
    assert most < 1.8 * cells


def test_empty_corpora_train() -> None:
    for text in (corpus(), corpus(("", ""), ("", ""))):
        for recipe in TRAINED.values():
            for symmetrize in ("soft", "grow-diag"):
                found = align(text, recipe, symmetrize=symmetrize)
                assert list(found.links) == [[]] * len(text)
                assert found.links.probability is not None


def test_a_single_word_seen_once_is_aligned() -> None:
    for recipe in TRAINED.values():
        assert len(align(corpus(("a", "x")), recipe).links) == 1
    assert align(corpus(("a", "x"))).links[0] == [(0, 0)]


def test_read_is_what_is_trained_on(tmp_path: Path) -> None:
    """From a file and from memory the same."""
    path = tmp_path / "text"
    path.write_text("".join(f"{s} ||| {f}\n" for s, f in KOEHN))
    assert align(read(path)).links == align(corpus(*KOEHN)).links
