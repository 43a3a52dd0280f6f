"""What places learn makes what was expected of them likelier, and where there is a best, it is found."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.align.lexicon import Lexicon
from regard.align.places import Found
from regard.align.places.diagonal import Diagonal
from regard.align.places.jumps import NEAR, Jumps
from regard.align.places.likeliest import likeliest
from regard.align.places.shapes import Shapes
from regard.align.places.table import Table
from regard.align.places.uniform import Uniform
from regard.align.view import View
from regard.errors import RegardError
from tests.align.exhaustive import bucket, corpus, random_corpus, random_jumps, random_lexicon, views

Array = np.ndarray[Any, Any]
SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS)
def test_a_table_is_the_shares_of_its_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for view in views(random_corpus(rng, 7)):
        start = Table.uniform(view, np.float64)
        sums = rng.random(start.shapes.size)
        for k, (l, m) in enumerate(zip(start.shapes.l.tolist(), start.shapes.m.tolist(), strict=True)):
            at = slice(int(start.shapes.begins[k]), int(start.shapes.begins[k + 1]))
            rows = sums[at].reshape(m, l + 1)
            rows[: m // 2] = 0  # never reached
            found = start.fitted(view, sums).bias[at].reshape(m, l + 1)
            np.testing.assert_allclose(found[m // 2 :], rows[m // 2 :] / rows[m // 2 :].sum(axis=1, keepdims=True))
            assert (found[: m // 2] == start.bias[at].reshape(m, l + 1)[: m // 2]).all()


def test_a_table_takes_what_another_knows_of_its_shapes() -> None:
    one, other = views(corpus(("a b", "x"), ("a", "x y z")))[0], views(corpus(("a", "x y z"), ("c d e", "u")))[0]
    rng = np.random.default_rng(1)
    known = Table(Shapes.found(one), rng.random(Shapes.found(one).size))
    taken = Table.uniform(other, np.float64).taking(known.shapes, known.bias)
    of = {shape: k for k, shape in enumerate(zip(known.shapes.l.tolist(), known.shapes.m.tolist(), strict=True))}
    for k, shape in enumerate(zip(taken.shapes.l.tolist(), taken.shapes.m.tolist(), strict=True)):
        mine = taken.bias[taken.shapes.begins[k] : taken.shapes.begins[k + 1]]
        if shape in of:
            at = of[shape]
            assert (mine == known.bias[known.shapes.begins[at] : known.shapes.begins[at + 1]]).all()
        else:
            assert (mine == 1 / (shape[0] + 1)).all()
    assert set(of) == {(2, 1), (1, 3)}


def believed(shapes: Shapes, sums: Array, tension: float) -> float:
    """Σ of what looked where × log p, by the docstring, less what each word that looked pulls back; NULL's share does
    not depend on the tension."""
    total = 0.0
    for k, (l, m) in enumerate(zip(shapes.l.tolist(), shapes.m.tolist(), strict=True)):
        rows = sums[int(shapes.begins[k]) : int(shapes.begins[k + 1])].reshape(m, l + 1)
        for j in range(m):
            h = np.array([-abs((i + 1) / l - (j + 1) / m) for i in range(l)])
            total += float(rows[j, :-1] @ (tension * h - math.log(np.exp(tension * h).sum())))
            total -= float(rows[j, :-1].sum()) * (tension - 4) ** 2 / 32
    return total


@settings(max_examples=23)
@given(seed=SEEDS, start=st.floats(0.1, 14.0), sharp=st.floats(0.0, 40.0))
def test_the_tension_is_the_likeliest_one(seed: int, start: float, sharp: float) -> None:
    rng = np.random.default_rng(seed)
    (view, _) = views(random_corpus(rng, 11, longest=13))
    shapes = Shapes.found(view)
    sums = rng.random(shapes.size) * Diagonal(shapes, min(sharp, 14.0), 0.1, np.float64).bias ** (1 + sharp / 14)
    found = Diagonal(shapes, start, 0.1, np.float64).fitted(view, sums)
    assert 0.1 <= found.tension <= 14
    best = believed(shapes, sums, found.tension)
    slack = 1e-9 * max(1.0, abs(best))
    for other in (0.1, 14.0, start, found.tension * 0.99, found.tension * 1.01, *np.linspace(0.1, 14, 13)):
        if 0.1 <= other <= 14:
            assert believed(shapes, sums, float(other)) <= best + slack, (found.tension, other)


def paths(rng: np.random.Generator, view: View, jumps: Jumps, count: float) -> Array:
    """The sums of random walks over the sentences, each worth ``count``."""
    wide = jumps.reach + 1
    made, origins = np.zeros(jumps.weights.shape), np.zeros((len(jumps.weights), wide, wide))
    for s in range(len(view.source.offsets) - 1):
        giving = view.generating.tokens[view.generating.offsets[s] : view.generating.offsets[s + 1]]
        before = -1
        for i in rng.integers(max(1, len(giving)), size=7 * (len(giving) > 0)).tolist():
            kind = len(made) - 1 if before < 0 else int(jumps.classes[giving[before]])
            worth = count * rng.random()
            made[kind, bucket(i - before)] += worth
            origins[kind, len(giving), before + 1] += worth
            before = i
    return np.concatenate((made.ravel(), origins.ravel()))


def worth(jumps: Jumps, weights: Array, sums: Array) -> float:
    """Σ n(d) log c(d) − Σ N(o) log Σ_{d stays in from o} c(d)."""
    made = sums[: weights.size].reshape(weights.shape)
    origins = sums[weights.size :].reshape(len(weights), jumps.reach + 1, jumps.reach + 1)
    total = float((made * np.log(weights)).sum())
    for kind, l, place in itertools.product(*map(range, origins.shape)):
        if origins[kind, l, place] > 0:
            within = sum(weights[kind, bucket(i + 1 - place)] for i in range(l))
            total -= origins[kind, l, place] * math.log(within)
    return total


@settings(max_examples=23)
@given(seed=SEEDS, longest=st.sampled_from([1, 2, 5, 13, 29]), count=st.sampled_from([1e-3, 1.0, 1e6]))
@example(seed=1982, longest=2, count=1e-3)  # after 60 rounds still 1.5e-4 from the top
def test_new_jumps_are_never_less_likely_and_in_the_end_likeliest(seed: int, longest: int, count: float) -> None:
    rng = np.random.default_rng(seed)
    (view, _) = views(random_corpus(rng, 11, longest=longest))
    jumps = random_jumps(rng, view)
    sums = paths(rng, view, jumps, count)
    scores = [worth(jumps, jumps.weights, sums)]
    for _ in range(5):
        jumps = jumps.fitted(view, sums)
        scores.append(worth(jumps, jumps.weights, sums))
    slack = 1e-10 * max(1.0, float(sums.sum()))  # what rounding leaves of sums that cancel
    assert all(b >= a - slack for a, b in itertools.pairwise(scores)), scores
    assert (jumps.weights > 0).all()
    assert np.isfinite(jumps.weights).all()
    for _ in range(600):  # what is next to never made goes to 0 slowly
        jumps = jumps.fitted(view, sums)
    best = worth(jumps, jumps.weights, sums)
    for _ in range(7):
        other = jumps.weights * np.exp(rng.normal(size=jumps.weights.shape) * 0.1)
        assert worth(jumps, other, sums) <= best + 1e-4 * abs(best) + slack


@pytest.mark.parametrize("count", [1.0, 1e3, 1e7 / 3])
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_jumps_that_no_sentence_is_long_enough_for_take_nothing(count: float, seed: int) -> None:
    """However often others were counted: what sums leave over in rounding is no chance to jump."""
    rng = np.random.default_rng(seed)
    (view, _) = views(random_corpus(rng, 101, longest=17))
    start = Jumps.starting(view, null=0.1, prior=0.1, dtype=np.float64)
    jumps = start.fitted(view, paths(rng, view, start, count))
    d = np.arange(-NEAR - 1, NEAR + 2)
    inner, first = jumps.weights[:1], jumps.weights[1:]
    for row, possible in ((inner, np.abs(d) < 17), (first, (d > 0) & (d <= 17))):
        assert row[:, ~possible].max() <= row[:, possible].min() * (1 + 1e-9)
        assert row[:, possible].sum() > 0.3


@given(seed=SEEDS)
def test_without_a_count_jumps_stay_a_distribution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (view, _) = views(random_corpus(rng, 3))
    jumps = random_jumps(rng, view)
    for prior in (0.0, 0.1):
        start = Jumps.starting(view, jumps.classes, prior=prior, dtype=np.float64)
        found = start.fitted(view, np.zeros_like(start.sums(view, Found(view, np.float64))))
        assert np.isfinite(found.weights).all()
        assert (found.weights > 0).all()


@pytest.mark.parametrize(
    ("field", "value"), [("null", 1.0), ("null", -0.1), ("null", math.nan), ("flat", 1.5), ("flat", -1.0)]
)
def test_numbers_that_are_no_probability(field: str, value: float) -> None:
    (view, _) = views(corpus(("a", "x")))
    with pytest.raises(RegardError, match=f"{field}: found {value}, wanted a p"):
        Jumps.starting(view, **{field: value})  # type: ignore[arg-type]


def test_jumps_for_other_words_and_longer_sentences() -> None:
    """The same weights, spread over a longer reach."""
    rng = np.random.default_rng(2)
    (view, _) = views(corpus(("a b c", "x")))
    jumps = random_jumps(rng, view)
    longer = jumps.over(np.zeros(5, np.int32), 31)
    assert longer.wide.shape == (len(jumps.weights), 63)
    assert (longer.wide[:, 31 - 3 : 31 + 4] == jumps.wide).all()
    assert (longer.wide[:, :10] == jumps.weights[:, :1]).all()


def test_the_likeliest_place_is_the_first_of_equals_and_null_before_all() -> None:
    for view in views(corpus(("a b c", "x y"), ("a", "x"))):
        lexicon = Lexicon.uniform(view, np.float64)
        (block,) = view.blocks()
        found = Found(view, np.float64)
        Uniform().expect(view, block, lexicon, found, 1)
        assert (likeliest(view, block, found) == -1).all()
        found.null[:] = 0
        assert (likeliest(view, block, found) == 0).all()
        lexicon = random_lexicon(np.random.default_rng(1), view)
        Uniform().expect(view, block, lexicon, found, 1)
        assert found.post[: block.cells].sum() + found.null.sum() == pytest.approx(len(view.generated.tokens))
