"""A table of translations is shares of counts, whatever way they are counted in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.align.lexicon import Dirichlet, Lexicon, _psi
from regard.errors import RegardError
from tests.align.exhaustive import random_corpus, views

Array = np.ndarray[Any, Any]
SEEDS = st.integers(0, 2**32 - 1)
PRIORS = [Dirichlet(), Dirichlet(0.01, 0.3), Dirichlet(0.01, 0.3, variational=True)]
EULER = 0.57721566490153286


def digamma(x: float) -> float:
    """ψ(x) = −γ + Σ_k (1/(k + 1) − 1/(k + x)); the tail by its integral and two terms of Euler and Maclaurin."""
    n = 2000
    k = np.arange(n)
    head = float((1 / (k + 1) - 1 / (k + x)).sum())
    tail = math.log((n + x) / (n + 1)) + (1 / (n + 1) - 1 / (n + x)) / 2 + (1 / (n + 1) ** 2 - 1 / (n + x) ** 2) / 12
    return -EULER + head + tail


def test_psi_is_psi() -> None:
    for x in (1e-6, 0.01, 0.5, 1.0, 2.5, 5.9, 6.0, 17.0, 1e5):
        assert _psi(x) == pytest.approx(digamma(x), rel=1e-9, abs=1e-9)
    assert _psi(1.0) == pytest.approx(-EULER, abs=1e-10)
    assert _psi(0.5) == pytest.approx(-EULER - 2 * math.log(2), abs=1e-10)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("known", [False, True])
@given(seed=SEEDS)
@settings(max_examples=11)
def test_each_number_by_its_formula(prior: Dirichlet, known: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for view in views(random_corpus(rng, 7)):
        words, pairs = len(view.generated.words), view.pairs
        counts = rng.random(len(pairs)) * (rng.random(len(pairs)) < 0.7)
        null = rng.random(words)
        more = rng.integers(3, size=len(pairs)).astype(np.float32) if known else None
        found = Lexicon.estimated(view, counts, null, prior, more, threads=2)
        source = np.repeat(np.arange(len(pairs.rows) - 1), np.diff(pairs.rows))
        giving = pairs.target if view.turned else source
        total = counts + (0 if more is None else more)
        for e in range(len(view.generating.words)):
            mine, alpha = giving == e, prior.alpha
            sum_ = total[mine].sum() + alpha * (mine.sum() if prior.variational else words)

            def share(c: float, sum_: float = sum_, alpha: float = alpha, words: int = words) -> float:
                if sum_ <= 0:
                    return 1 / words
                if prior.variational:
                    return math.exp(digamma(c + alpha) - digamma(sum_))
                return (c + alpha) / sum_

            np.testing.assert_allclose(found.table[mine], [share(c) for c in total[mine]], rtol=1e-7)
            assert found.rest[e] == pytest.approx(share(0), rel=1e-7, abs=1e-300)
            if not prior.variational:  # what was met and what was not is all there is
                assert found.table[mine].sum() + (words - mine.sum()) * found.rest[e] == pytest.approx(1, abs=1e-12)
        size = null.sum() + words * prior.null
        if prior.variational:
            np.testing.assert_allclose(
                found.null, [math.exp(digamma(c + prior.null) - digamma(size)) for c in null], rtol=1e-7
            )
        else:
            np.testing.assert_allclose(found.null, (null + prior.null) / size, rtol=1e-12)


def test_where_nothing_was_counted_all_are_alike() -> None:
    for view in views(random_corpus(np.random.default_rng(2), 7)):
        words = len(view.generated.words)
        start = Lexicon.uniform(view, np.float64)
        found = Lexicon.estimated(view, np.zeros(len(view.pairs)), np.zeros(words), Dirichlet())
        for each in (start, found):
            assert (each.table == 1 / words).all()
            assert (each.null == 1 / words).all()
            assert (each.rest == 1 / words).all()


@pytest.mark.parametrize("alpha", [-1.0, math.inf, math.nan])
def test_a_prior_that_is_no_number_of_pseudo_counts(alpha: float) -> None:
    with pytest.raises(RegardError, match=r"alpha: found .*, wanted a number of at least 0"):
        Dirichlet(alpha)
    with pytest.raises(RegardError, match=r"null: found .*, wanted a number of at least 0"):
        Dirichlet(0.0, alpha)


@pytest.mark.parametrize(("alpha", "null"), [(0.0, 0.1), (0.1, 0.0)])
def test_variational_bayes_needs_a_prior(alpha: float, null: float) -> None:
    with pytest.raises(RegardError, match=r"variational: found alpha .*, wanted both above 0"):
        Dirichlet(alpha, null, variational=True)
