"""The kernels of Models 3, 4 and 5 against the reference: scores, changes, counts, climbing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align.fertility import cepts as c
from regard.align.fertility import climb as up
from regard.align.fertility import counting
from regard.align.fertility.tables import nothing
from tests.align.fertility.cases import Array, Case, case, internal, published
from tests.align.fertility.reference import alignments, enumerate_all, joint

MODELS = [3, 4, 5]
CLOSE = 1e-9


def score(case: Case, model: int, a: Array) -> float:
    cepts = case.cepts()
    c.arrange(cepts, a)
    return float(c.score(model, cepts, case.sentence, case.tables))


def possible(rng: np.random.Generator, l: int, m: int) -> Array:
    """An alignment that has some probability."""
    a = rng.integers(l + 1, size=m)
    while 2 * (a == l).sum() > m:
        a[rng.choice(np.flatnonzero(a == l))] = rng.integers(l)
    return a


def changes(a: Array, l: int) -> list[tuple[str, int, int, Array]]:
    """Every neighbour, made the slow way."""
    found = []
    for j in range(len(a)):
        for i in range(l + 1):
            if i != a[j]:
                other = a.copy()
                other[j] = i
                found.append(("move", j, i, other))
        for k in range(j + 1, len(a)):
            if a[j] != a[k]:
                other = a.copy()
                other[j], other[k] = a[k], a[j]
                found.append(("swap", j, k, other))
    return found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("l", "m"), [(1, 1), (1, 5), (3, 1), (2, 5), (3, 4)])
def test_a_score_is_the_published_formula(model: int, l: int, m: int) -> None:
    for seed in range(3):
        given_ = case(l, m, seed)
        for a in alignments(l, m):
            expected = joint(model, a, l, given_.reference).value
            found = math.exp(score(given_, model, internal(a, l)))
            assert found == pytest.approx(expected, rel=CLOSE, abs=1e-300)


@settings(max_examples=150, deadline=None)
@given(model=st.sampled_from(MODELS), l=st.integers(1, 11), m=st.integers(1, 13), seed=st.integers(0, 10**6))
def test_what_a_change_is_worth_is_the_difference_of_two_scores(model: int, l: int, m: int, seed: int) -> None:
    drawn = case(l, m, seed, sharp=0.3)
    a = possible(np.random.default_rng(seed), l, m)
    cepts, near = drawn.cepts(), drawn.near()
    c.arrange(cepts, a)
    up.look(model, cepts, drawn.sentence, drawn.tables, near, False, -1)
    assert (cepts.of == a).all()  # looking changes nothing
    here = score(drawn, model, a)
    for kind, j, k, other in changes(a, l):
        worth = near.move[j, k] if kind == "move" else near.swap[j, k]
        there = score(drawn, model, other)
        assert worth == pytest.approx(there - here, abs=CLOSE) or (worth == there == -math.inf), (kind, j, k)


@settings(max_examples=100, deadline=None)
@given(model=st.sampled_from(MODELS), l=st.integers(1, 7), m=st.integers(1, 11), seed=st.integers(0, 10**6))
def test_counts_of_a_neighbourhood_are_those_of_its_alignments_one_by_one(
    model: int, l: int, m: int, seed: int
) -> None:
    drawn = case(l, m, seed, sharp=0.3)
    a = possible(np.random.default_rng(seed), l, m)
    cepts, near, post = drawn.cepts(), drawn.near(), np.empty((m, l + 1))
    c.arrange(cepts, a)
    up.look(model, cepts, drawn.sentence, drawn.tables, near, False, -1)
    counts = nothing(drawn.counts)
    mass = counting.gather(model, cepts, drawn.sentence, near, 0.0, post, np.empty(l + 1), counts)
    everyone = [a] + [other for *_, other in changes(a, l)]
    scores = np.array([score(drawn, model, each) for each in everyone])
    shares = np.exp(scores - scores[0])
    assert mass == pytest.approx(math.log(shares.sum()), abs=CLOSE)
    slow, slow_post = nothing(drawn.counts), np.zeros_like(post)
    for each, share in zip(everyone, shares / shares.sum(), strict=True):
        c.arrange(cepts, each)
        counting.add(model, cepts, drawn.sentence, share, slow_post, slow)
    np.testing.assert_allclose(post, slow_post, atol=CLOSE)
    for found, wanted in zip(counts, slow, strict=True):
        np.testing.assert_allclose(found, wanted, atol=CLOSE)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("l", "m"), [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2), (4, 4)])
def test_short_sentences_are_summed_over_every_alignment(model: int, l: int, m: int) -> None:
    for seed in range(2):
        drawn = case(l, m, seed, sharp=0.5)
        total, expected, viterbi = enumerate_all(model, l, m, drawn.reference)
        cepts, post, counts = drawn.cepts(), np.empty((m, l + 1)), nothing(drawn.counts)
        scores = np.empty((l + 1) ** m)
        found = counting.whole(model, cepts, drawn.sentence, drawn.tables, scores, post, counts)
        assert found == pytest.approx(math.log(total), abs=CLOSE)
        assert published(cepts.of, l) == viterbi
        for j in range(m):
            for i in range(l + 1):
                assert post[j, i] == pytest.approx(expected.get(("t", j + 1, (i + 1) % (l + 1)), 0.0), abs=CLOSE)
        compare(drawn, model, counts, expected)


def compare(drawn: Case, model: int, counts: object, expected: dict[tuple[object, ...], float]) -> None:
    """Every table's counts, entry by entry."""
    wanted = nothing(drawn.counts)
    most, free = drawn.tables.body.shape[1] - 1, drawn.tables.onward.shape[1] - 1
    start = drawn.tables.head.shape[0] - 1
    for (kind, *key), value in expected.items():
        x = [int(each) for each in key]  # type: ignore[call-overload]
        if kind == "n":
            wanted.fertility[x[1] - 1, min(x[0], 9)] += value
        elif kind == "head":
            wanted.head[x[1] - 1 if x[1] else start, x[2] - 1, min(max(x[0], -most), most) + most] += value
        elif kind == "body":
            wanted.body[x[1] - 1, min(x[0], most)] += value
        elif kind == "opening":
            v, b, before, room = x
            if room <= free and before <= free:
                wanted.opening[b - 1, room, before, v] += value
            wanted.lean[b - 1, min(max(v - before, -most), most) + most] += value
        elif kind == "onward":
            step, b, room = x
            if room <= free:
                wanted.onward[b - 1, room, step] += value
            wanted.stride[b - 1, min(step, most)] += value
    for found, each in zip(counts, wanted, strict=True):  # type: ignore[call-overload]
        np.testing.assert_allclose(found, each, atol=CLOSE)


@pytest.mark.parametrize("model", MODELS)
def test_climbing_ends_where_no_neighbour_is_better(model: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        l, m = rng.integers(1, 8), rng.integers(1, 9)
        drawn = case(int(l), int(m), seed, sharp=0.3)
        a = possible(rng, int(l), int(m))
        cepts, near = drawn.cepts(), drawn.near()
        c.arrange(cepts, a)
        up.climb(model, cepts, drawn.sentence, drawn.tables, near, -1)
        top = cepts.of.copy()
        here = score(drawn, model, top)
        assert here >= score(drawn, model, a)
        assert all(score(drawn, model, other) <= here + CLOSE for *_, other in changes(top, int(l)))
