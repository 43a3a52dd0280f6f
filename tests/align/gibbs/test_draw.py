"""A sweep draws each link from the ratio of the joint probabilities, and the counts follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.align.corpus import Corpus
from regard.align.gibbs.beliefs import Beliefs, joint, masses
from regard.align.gibbs.draw import sweep, uniform
from regard.align.gibbs.marginals import marginals
from regard.align.gibbs.tally import Tally, rings
from regard.align.pairs import Pairs
from regard.align.view import View
from regard.kernels.compile import kernel
from tests.align.gibbs.urns import all_links, conditional, corpus, log_joint

Array = np.ndarray[Any, Any]
BELIEFS = Beliefs(lexical=0.07, null=0.11, jump=0.3, fertility=0.4, empty=0.15)

sentences = st.tuples(st.text("abc", min_size=0, max_size=4), st.text("xyz", min_size=0, max_size=5))
corpora = st.lists(sentences, min_size=1, max_size=4).filter(lambda pairs: any(a and b for a, b in pairs))
REPEATS = [("aab", "xxyx"), ("", "x"), ("ba", "y"), ("abca", "zzx")]


@kernel
def _uniform(key: Any, s: Any, j: Any) -> Any:
    return uniform(key, s, j)


class Case:
    """A corpus with links at random, in both directions, and a distribution of jumps."""

    def __init__(self, text: Corpus, seed: int, *, known: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.pairs = Pairs.of(text)
        self.views = View.both(text, self.pairs)
        self.known = self.rng.gamma(0.5, size=len(self.pairs)) if known else None

    def links(self, view: View) -> Array:
        spread = np.repeat(view.generating.lengths(), view.generated.lengths())
        return (self.rng.integers(0, spread + 1) - 1).astype(np.int16)

    def chance(self, view: View) -> Array:
        return self.rng.dirichlet(np.ones(2 * (int(view.generating.lengths().max()) + 1) + 1))

    def given(self, view: View) -> tuple[Array, Array, Array]:
        """``believed``, ``mass`` and ``prior`` as kernels take them."""
        words = len(view.generating.words)
        if self.known is None:
            return BELIEFS.packed(np.float64), np.zeros(words), np.zeros(0)
        return BELIEFS.packed(np.float64), masses(view, self.known), self.known


@settings(max_examples=30)
@given(corpora, st.integers(0, 2**31), st.sampled_from([1, 2, 3]), st.booleans())
@example(REPEATS, 1, 3, True)
def test_the_joint_is_that_of_urns(pairs: list[tuple[str, str]], seed: int, stage: int, known: bool) -> None:
    case = Case(corpus(*pairs), seed, known=known)
    for view in case.views:
        links = case.links(view)
        found = joint(view, links, stage, BELIEFS, case.known)
        assert found == pytest.approx(log_joint(view, links.tolist(), stage, BELIEFS, known=case.known), abs=1e-9)


@settings(max_examples=30)
@given(corpora, st.integers(0, 2**31), st.sampled_from([1, 2, 3]), st.booleans())
@example(REPEATS, 1, 3, True)
@example([("a" * 3, "x" * 9)], 5, 3, False)  # more words for a place than classes of fertility
def test_every_draw_is_from_the_ratio_of_joints(
    pairs: list[tuple[str, str]], seed: int, stage: int, known: bool
) -> None:
    """The uniform number of each word is known, so is the distribution: NULL first, then the places in order."""
    case = Case(corpus(*pairs), seed, known=known)
    key = np.uint64(seed)
    for view in case.views:
        links, chance = case.links(view), case.chance(view)
        want = links.tolist()
        tally = Tally.of(view, links)
        fresh = links.copy()
        n = len(view.generating.offsets) - 1
        sweep(
            *view.layout(), *rings(view), links, fresh, *tally.arrays(), stage, *case.given(view), chance,
            chance[::-1].copy(), key, True, 0, n,
        )  # fmt: skip
        for j in range(len(want)):
            s = int(np.searchsorted(view.generated.offsets, j, side="right")) - 1
            p = conditional(view, want, j, stage, BELIEFS, chance=chance, known=case.known)
            u = _uniform(key, s, j - int(view.generated.offsets[s]))
            edges = np.cumsum(p)
            if np.abs(edges - u).min() < 1e-9:
                want[j] = int(fresh[j])  # too close to an edge to say
            else:
                want[j] = int(np.searchsorted(edges, u, side="right")) - 1
        assert fresh.tolist() == want
        assert links.tolist() == want
        for have, new in zip(tally.arrays(), Tally.of(view, links).arrays(), strict=True):
            assert (have == new).all()


@settings(max_examples=30)
@given(corpora, st.integers(0, 2**31), st.sampled_from([1, 2, 3]), st.booleans())
@example(REPEATS, 1, 3, True)
@example([("a" * 3, "x" * 9)], 5, 3, False)
def test_one_chain_believes_the_ratio_of_joints(
    pairs: list[tuple[str, str]], seed: int, stage: int, known: bool
) -> None:
    case = Case(corpus(*pairs), seed, known=known)
    for view in case.views:
        links, chance = case.links(view), case.chance(view)
        post, null = _marginals(view, links[None], stage, case, chance)
        for j in range(len(links)):
            want = conditional(view, links.tolist(), j, stage, BELIEFS, chance=chance, known=case.known)
            assert np.allclose([null[j], *_column(view, post, j)], want, atol=1e-9)


@settings(max_examples=20)
@given(corpora, st.integers(0, 2**31), st.sampled_from([1, 2, 3]))
@example(REPEATS, 1, 3)
def test_chains_that_are_the_same_believe_what_one_believes(
    pairs: list[tuple[str, str]], seed: int, stage: int
) -> None:
    case = Case(corpus(*pairs), seed)
    for view in case.views:
        links, chance = case.links(view), case.chance(view)
        one = _marginals(view, links[None], stage, case, chance)
        many = _marginals(view, np.stack([links] * 3), stage, case, chance)
        other = _marginals(view, np.stack([links, case.links(view)]), stage, case, chance)
        for a, b in zip(one, many, strict=True):
            assert np.allclose(a, b, atol=1e-9)
        for j in range(len(links)):
            assert other[1][j] + sum(_column(view, other[0], j)) == pytest.approx(1)


def _marginals(view: View, chains: Array, stage: int, case: Case, chance: Array) -> tuple[Array, Array]:
    post, null = np.zeros(len(view.pairs.cells)), np.zeros(len(view.generated.tokens))
    marginals(
        *view.layout(), *rings(view), chains, *Tally.of(view, *chains).arrays()[:4], stage, *case.given(view), chance,
        chance[::-1].copy(), 0, post, null, 0, len(view.generating.offsets) - 1,
    )  # fmt: skip
    return post, null


def _column(view: View, post: Array, j: int) -> list[float]:
    """The cells of generated token ``j``, from the numbers of its sentence's places."""
    s = int(np.searchsorted(view.generated.offsets, j, side="right")) - 1
    l, m = int(view.source.lengths()[s]), int(view.target.lengths()[s])
    box = post[view.pairs.starts[s] : view.pairs.starts[s + 1]].reshape(l, m)
    k = j - int(view.generated.offsets[s])
    column: list[float] = (box[k] if view.turned else box[:, k]).tolist()
    return column


def test_enumeration_is_a_distribution_where_the_model_is_one() -> None:
    """Model 1's joint adds up to the predictive probability of the words, which is at most 1."""
    case = Case(corpus(("a", "x")), 0)
    view = case.views[0]
    total = sum(np.exp(log_joint(view, links, 1, BELIEFS)) for links in all_links(view))
    assert total == pytest.approx(1)  # one word is all that can be generated
