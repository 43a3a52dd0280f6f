"""The sampler as a whole: the same links from the same seed however it is run, and links worth having."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.align.corpus import Corpus, Side
from regard.align.gibbs.beliefs import Beliefs, sweeps
from regard.align.gibbs.sampler import Sampler
from regard.align.gibbs.tally import Tally
from regard.align.pairs import Pairs
from regard.errors import RegardError
from tests.align.gibbs.urns import corpus

Array = np.ndarray[Any, Any]
SHORT = (3, 2, 4)


def translated(pairs: int, seed: int) -> tuple[Corpus, list[list[tuple[int, int]]]]:
    """Sentences of 13 to 23 words out of 61, Zipf-like, and their translation word for word: neighbours trade places,
    some words are lost and some come from nowhere; and the true links."""
    rng = np.random.default_rng(seed)
    words = 61
    often = 1 / np.arange(1, words + 1)
    often /= often.sum()
    become = rng.permutation(words)
    source: list[list[int]] = []
    target: list[list[int]] = []
    true = []
    for _ in range(pairs):
        sentence = rng.choice(words, size=int(rng.integers(13, 24)), p=often).tolist()
        order = np.arange(len(sentence))
        for i in range(0, len(sentence) - 1, 2):
            if rng.random() < 0.3:
                order[[i, i + 1]] = order[[i + 1, i]]
        made, links = [], []
        for i in order.tolist():
            if rng.random() < 0.1:
                made.append(words + int(rng.integers(3)))
            if rng.random() < 0.9:
                links.append((i, len(made)))
                made.append(int(become[sentence[i]]))
        source.append(sentence)
        target.append(made or [0])
        true.append(links)
    return Corpus(_side(source, words), _side(target, words + 3), np.zeros(0, np.int64)), true


def _side(lines: list[list[int]], words: int) -> Side:
    tokens = np.array([w for line in lines for w in line], np.int32)
    return Side(tokens, np.cumsum([0, *map(len, lines)]).astype(np.int64), [str(w).encode() for w in range(words)])


def believed(sampler: Sampler, threads: int | None = None) -> tuple[Array, Array]:
    blocks = list(sampler.believe(threads=threads))
    sizes = [each.block.cells for each in blocks]
    one = np.concatenate([each.forward[:size] for each, size in zip(blocks, sizes, strict=True)])
    two = np.concatenate([each.reverse[:size] for each, size in zip(blocks, sizes, strict=True)])
    return one, two


def error(sampler: Sampler, true: list[list[tuple[int, int]]], k: int) -> float:
    """AER of one direction's links, all true links being sure."""
    links = [link for each in sampler.believe() for link in each.links[k]]
    hits = sum(len(set(a) & set(b)) for a, b in zip(links, true, strict=True))
    return 1 - 2 * hits / (sum(map(len, links)) + sum(map(len, true)))


@pytest.mark.parametrize("live", [True, False])
def test_threads_change_nothing(live: bool) -> None:
    text, _ = translated(97, 1)
    pairs = Pairs.of(text)
    results = []
    for threads in (1, 2, 5):
        sampler = Sampler(text, pairs, seed=3, sweeps=SHORT, live=live)
        sampler.run(threads=threads)
        results.append((*(side.links for side in sampler.sides), *believed(sampler, threads)))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert (a == b).all()


def test_where_memory_lies_changes_nothing() -> None:
    """A compiler may make two versions of a loop and choose between them by the distance of its arrays: then sums
    are taken in two orders, and a posterior has other last bits from one call to the next."""
    text, _ = translated(97, 1)
    pairs, results, between = Pairs.of(text), [], []
    for k in range(12):
        sampler = Sampler(text, pairs, seed=3, sweeps=SHORT, live=k % 2 == 0)
        sampler.run(threads=1 + k % 3)
        results.append(believed(sampler, 1))
        between.append([np.empty(5 + 7 * j + k, np.float32) for j in range(k)])
    for k in range(2, 12):
        for a, b in zip(results[k % 2], results[k], strict=True):
            assert (a == b).all()


def test_another_seed_and_another_chain_draw_other_links() -> None:
    text, _ = translated(41, 1)
    pairs = Pairs.of(text)
    one, two = (Sampler(text, pairs, seed=seed, sweeps=SHORT) for seed in (1, 2))
    for sampler in (one, two):
        sampler.run()
    for side, other in zip(one.sides, two.sides, strict=True):
        assert (side.links != other.links).any()
        assert (side.links[0] != side.links[1]).any()


@pytest.mark.parametrize("live", [True, False])
def test_counts_are_those_of_the_links_after_every_sweep(live: bool) -> None:
    text, _ = translated(67, 2)
    sampler = Sampler(text, Pairs.of(text), sweeps=SHORT, chains=2, live=live)
    seen = 0

    def each(_: object, sampler: Sampler) -> None:
        nonlocal seen
        for (c, k), tally in sampler._tallies.items():
            side = sampler.sides[k]
            for have, want in zip(tally.arrays(), Tally.of(side.view, side.links[c]).arrays(), strict=True):
                assert (have == want).all()
            seen += 1

    sampler.run(each=each)
    assert seen == 2 * sampler.chains * sum(SHORT)


@pytest.mark.parametrize("live", [True, False])
def test_goes_on_where_it_was_stopped(live: bool) -> None:
    text, _ = translated(53, 3)
    pairs = Pairs.of(text)
    whole = Sampler(text, pairs, seed=7, chains=2, sweeps=SHORT, live=live)
    states: list[dict[str, Array]] = []
    whole.run(each=lambda _, sampler: states.append(sampler.state()))
    assert len(states) == whole.total
    for state in (states[0], states[-4], states[-1]):
        resumed = Sampler(text, pairs, seed=7, chains=2, sweeps=SHORT, live=live)
        resumed.resume(state)
        resumed.run()
        for a, b in zip(whole.sides, resumed.sides, strict=True):
            assert (a.links == b.links).all()


def test_what_does_not_fit_the_state_is_told() -> None:
    text, _ = translated(11, 3)
    pairs = Pairs.of(text)
    state = Sampler(text, pairs, sweeps=SHORT).state()
    with pytest.raises(RegardError, match=r"state: its settings are .* wanted .*; resume with the text, seed"):
        Sampler(text, pairs, seed=1, sweeps=SHORT).resume(state)
    shorter, _ = translated(10, 3)
    with pytest.raises(RegardError, match=r"state: its links.0 are"):
        Sampler(shorter, Pairs.of(shorter), sweeps=SHORT).resume(state)


@pytest.mark.slow
@pytest.mark.parametrize("live", [True, False])
def test_each_stage_aligns_better_than_the_one_before(live: bool) -> None:
    """Model 1 cannot tell a frequent word's copies apart; the HMM can."""
    text, true = translated(211, 4)
    pairs = Pairs.of(text)
    for k in range(2):
        errors = []
        for plan in ((30, 0, 0), (10, 30, 0), (10, 10, 30)):
            sampler = Sampler(text, pairs, seed=1, chains=2, sweeps=plan, live=live)
            sampler.run()
            errors.append(error(sampler, true, k))
        assert errors[0] > 1.5 * errors[1]
        assert errors[2] < errors[1] + 0.01
        assert errors[2] < 0.1


@pytest.mark.parametrize("live", [True, False])
def test_odd_sentences(live: bool) -> None:
    """Empty ones, of one word, of a thousand, words seen once; and a text with nothing in it."""
    rng = np.random.default_rng(0)
    lines = [[], [0], [1, 2], rng.integers(3, 400, 1000).tolist(), [], [401], [0, 0, 0]]
    other = [[], [0], [1], rng.integers(2, 300, 997).tolist(), [], [301, 302, 303], [0, 0]]
    text = Corpus(_side(lines, 402), _side(other, 304), np.zeros(0, np.int64))
    sampler = Sampler(text, Pairs.of(text), sweeps=(2, 2, 3), live=live)
    sampler.run()
    for k, side in enumerate(sampler.sides):
        assert (side.links >= -1).all()
        assert (side.links < np.repeat(side.view.generating.lengths(), side.view.generated.lengths())).all()
        for each in believed(sampler):
            assert np.isfinite(each).all()
        found = [links for each in sampler.believe() for links in each.links[k]]
        assert len(found) == 7
        assert found[0] == found[4] == []
    nothing = corpus(("", ""), ("", ""))
    empty = Sampler(nothing, Pairs.of(nothing), sweeps=(1, 1, 1), live=live)
    empty.run()
    assert [links for each in empty.believe() for links in each.links[0]] == [[], []]


def test_known_pairs_draw_links_to_them() -> None:
    """Two words on both sides, always together: nothing in the text tells which is which."""
    text = corpus(*[("ab", "xy"), ("ab", "yx"), ("ba", "xy"), ("ba", "yx")] * 3)
    pairs = Pairs.of(text)
    known = np.zeros(len(pairs))
    names = [(e, text.target.words[pairs.target[p]]) for e in range(2) for p in range(*pairs.rows[e : e + 2].tolist())]
    for p, (e, f) in enumerate(names):
        known[p] = 50.0 * ((text.source.words[e], f) in ((b"a", b"y"), (b"b", b"x")))
    sampler = Sampler(text, pairs, sweeps=(5, 5, 5), known=known, beliefs=Beliefs(empty=0.01))
    sampler.run()
    links = [link for each in sampler.believe() for link in each.links[0]]
    for s, found in enumerate(links):
        sentence = (text.source.sentence(s), text.target.sentence(s))
        assert {(sentence[0][i], sentence[1][j]) for i, j in found} == {(b"a", b"y"), (b"b", b"x")}


def test_begins_with_given_links() -> None:
    text, true = translated(31, 5)
    pairs = Pairs.of(text)
    starts = []
    for k, view in enumerate(side.view for side in Sampler(text, pairs).sides):
        links = np.full(len(view.generated.tokens), -1, np.int16)
        for s, found in enumerate(true):
            for i, j in found:
                at, to = ((i, j), (j, i))[k == 0]
                links[view.generated.offsets[s] + at] = to
        starts.append(links)
    sampler = Sampler(text, pairs, sweeps=SHORT, links=(starts[0], starts[1]))
    for side, start in zip(sampler.sides, starts, strict=True):
        assert (side.links == start).all()
    assert error(sampler, true, 0) < 0.05  # before any sweep: what the true links' counts say


def test_numbers_out_of_range_are_told() -> None:
    text = corpus(("a", "x"))
    pairs = Pairs.of(text)
    with pytest.raises(RegardError, match="lexical: found 0, wanted a number above 0"):
        Beliefs(lexical=0)
    with pytest.raises(RegardError, match="empty: found 1, wanted a probability between 0 and 1"):
        Beliefs(empty=1)
    with pytest.raises(RegardError, match="chains: found 0, wanted at least 1"):
        Sampler(text, pairs, chains=0)
    with pytest.raises(RegardError, match="sweeps: found"):
        Sampler(text, pairs, sweeps=(0, 0, 0))


def test_the_plan_of_eflomal() -> None:
    assert sweeps(1447) == (32, 32, 131)
    assert sweeps(10**8) == (2, 1, 2)
