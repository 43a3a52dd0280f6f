"""Links are a set a sentence, in one order, whatever they were made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.align.links import Links
from regard.errors import RegardError

PAIR = st.tuples(st.integers(0, 12), st.integers(0, 6))
SENTENCES = st.lists(st.lists(PAIR, max_size=17), max_size=7)


@given(SENTENCES)
def test_a_sentence_is_a_set_in_order(sentences: list[list[tuple[int, int]]]) -> None:
    links = Links.of(sentences)
    assert list(links) == [sorted(set(each)) for each in sentences]
    assert [a.dtype for a in (links.offsets, links.source, links.target)] == [np.int64, np.int32, np.int32]
    assert links.probability is None


@given(SENTENCES)
def test_turning_twice_is_nothing(sentences: list[list[tuple[int, int]]]) -> None:
    links = Links.of(sentences)
    assert list(links.turned) == [sorted({(j, i) for i, j in each}) for each in sentences]
    assert links.turned.turned == links


@given(SENTENCES, SENTENCES, st.integers(0, 7), st.integers(0, 7))
def test_slices_join_to_the_whole(
    some: list[list[tuple[int, int]]], more: list[list[tuple[int, int]]], a: int, b: int
) -> None:
    links = Links.of(some + more)
    assert Links.join([Links.of(some), Links.of(more)]) == links
    assert Links.join([links[:a], links[a:]]) == links
    assert list(links[a:b]) == list(links)[a:b]
    assert list(links[-b:]) == list(links)[-b:]


@given(SENTENCES, st.data())
def test_within_is_membership(sentences: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.lists(PAIR, max_size=17), min_size=len(sentences), max_size=len(sentences)))
    links = Links.of(sentences)
    found = links.where(links.within(Links.of(other)))
    assert list(found) == [sorted(set(a) & set(b)) for a, b in zip(sentences, other, strict=True)]


def test_of_a_link_said_twice_the_likelier_stays() -> None:
    links = Links.of([[(1, 1, 0.25), (0, 0, 0.5), (1, 1, 0.75), (0, 0, 0.125)]])
    assert links.row(0) == [(0, 0, 0.5), (1, 1, 0.75)]
    assert links.turned.row(0) == [(0, 0, 0.5), (1, 1, 0.75)]


def test_probabilities_travel_with_their_links() -> None:
    links = Links.of([[(3, 0, 0.1), (0, 5, 0.9)], [(0, 0, 0.3)]])
    assert links.turned.row(0) == [(0, 3, 0.1), (5, 0, 0.9)]
    assert links[1:].row(0) == [(0, 0, 0.3)]
    assert links.likely(0.3).row(1) == [(0, 0, 0.3)]
    assert links.hard.probability is None
    assert links != links.hard
    assert Links.join([links, links]).row(2) == links.row(0)


def test_dense_weights_become_the_cells_above_the_floor() -> None:
    rng = np.random.default_rng(7)
    weights = [rng.random((5, 7)), np.zeros((3, 2)), rng.random((2, 11))]
    links = Links.above(weights, 0.5)
    for s, w in enumerate(weights):
        assert links[s] == [(i, j) for i in range(w.shape[0]) for j in range(w.shape[1]) if w[i, j] >= 0.5]
    assert links.probability is not None
    assert links.probability.min() >= 0.5
    assert len(Links.above([], 0.5)) == 0
    with pytest.raises(RegardError, match="floor: found 0"):
        Links.above(weights, 0)


def test_no_sentences_and_empty_sentences() -> None:
    assert len(Links.of([])) == 0
    assert Links.of([[], []]).offsets.tolist() == [0, 0, 0]
    assert Links.join([]) == Links.of([])
    assert Links.of([[], []]).turned == Links.of([[], []])
    with pytest.raises(IndexError):
        Links.of([])[0]


def test_mistakes_are_said() -> None:
    with pytest.raises(RegardError, match="below 0, wanted words counted from 0"):
        Links.of([[(0, -1)]])
    with pytest.raises(RegardError, match="2 and 3 numbers"):
        Links.of([[(0, 0), (1, 1, 0.5)]])
    with pytest.raises(RegardError, match="1 pairs of sentences, wanted 2"):
        Links.of([[], []]).within(Links.of([[]]))
    with pytest.raises(RegardError, match="no probabilities"):
        Links.of([[(0, 0)]]).likely(0.5)
    with pytest.raises(RegardError, match="give all of them one, or none"):
        Links.join([Links.of([[(0, 0)]]), Links.of([[(0, 0, 0.5)]])])
    with pytest.raises(RegardError, match="step 2"):
        Links.of([[], [], []])[::2]
