"""Symmetrisation: against a plain reading of the published text, and the laws that hold and the one that does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.align import symmetrize
from regard.align.links import Links
from regard.align.symmetrize import (
    METHODS,
    Method,
    grow_diag,
    grow_diag_final,
    grow_diag_final_and,
    intersection,
    named,
    soft,
    union,
)
from regard.errors import RegardError

Set = set[tuple[int, int]]
HARD = sorted(METHODS.keys() - {"soft"})

PAIR = st.tuples(st.integers(0, 6), st.integers(0, 4))
SENTENCE = st.sets(PAIR, max_size=13)
BOTH = st.lists(st.tuples(SENTENCE, SENTENCE), max_size=5)

#: One link for each generated word, as a direction gives them: forward by target word, reverse by source word.
DIRECTIONS = st.tuples(
    st.dictionaries(st.integers(0, 4), st.integers(0, 6)).map(lambda d: {(i, j) for j, i in d.items()}),
    st.dictionaries(st.integers(0, 6), st.integers(0, 4)).map(lambda d: set(d.items())),
)


def oracle(name: str, forward: Set, reverse: Set) -> Set:
    """Koehn et al. 2005, written on sets with every neighbour looked up."""
    both, either = forward & reverse, forward | reverse
    if name == "intersection":
        return both
    if name == "union":
        return either
    found = set(both)

    def row(i: int) -> bool:
        return any(i == a for a, _ in found)

    def column(j: int) -> bool:
        return any(j == b for _, b in found)

    while True:
        before = len(found)
        for i, j in sorted(either):
            beside = {(i + a, j + b) for a in (-1, 0, 1) for b in (-1, 0, 1)} & found
            if beside and not (row(i) and column(j)):
                found.add((i, j))
        if len(found) == before:
            break
    for direction in (forward, reverse):
        for i, j in sorted(direction):
            if name == "grow-diag-final" and not (row(i) and column(j)):
                found.add((i, j))
            if name == "grow-diag-final-and" and not row(i) and not column(j):
                found.add((i, j))
    return found


def of(sides: list[tuple[Set, Set]]) -> tuple[Links, Links]:
    return Links.of([f for f, _ in sides]), Links.of([r for _, r in sides])


def sets(links: Links) -> list[Set]:
    return [set(each) for each in links]


@pytest.mark.parametrize("name", HARD)
@given(sides=BOTH)
def test_equals_the_published_text_on_sets(name: str, sides: list[tuple[Set, Set]]) -> None:
    assert sets(named(name)(*of(sides))) == [oracle(name, f, r) for f, r in sides]


@pytest.mark.parametrize("name", HARD)
@given(sides=DIRECTIONS)
def test_equals_the_published_text_on_what_directions_give(name: str, sides: tuple[Set, Set]) -> None:
    assert sets(named(name)(*of([sides]))) == [oracle(name, *sides)]


@given(sides=BOTH)
def test_each_method_lies_between_others(sides: list[tuple[Set, Set]]) -> None:
    least, grown, final, final_and, most = (
        sets(method(*of(sides))) for method in (intersection, grow_diag, grow_diag_final, grow_diag_final_and, union)
    )
    for s in range(len(sides)):
        assert least[s] <= grown[s] <= final[s] <= most[s]
        assert grown[s] <= final_and[s] <= most[s]


def test_final_and_need_not_lie_in_final() -> None:
    """FINAL links 3 and 4 by (1, 4) and (3, 1) before it sees (3, 4); FINAL-AND leaves those and takes it."""
    links = of([({(0, 2), (1, 4), (3, 1)}, {(0, 2), (1, 1), (3, 4)})])
    assert grow_diag(*links)[0] == [(0, 2), (1, 1)]
    assert grow_diag_final(*links)[0] == [(0, 2), (1, 1), (1, 4), (3, 1)]
    assert grow_diag_final_and(*links)[0] == [(0, 2), (1, 1), (3, 4)]


@pytest.mark.parametrize("name", HARD)
@given(sides=BOTH)
def test_two_directions_that_agree_are_left_alone(name: str, sides: list[tuple[Set, Set]]) -> None:
    links = of(sides)[0]
    assert named(name)(links, links) == links


@pytest.mark.parametrize("method", [intersection, union, grow_diag])
@given(sides=BOTH)
def test_it_does_not_matter_which_direction_is_which(method: Method, sides: list[tuple[Set, Set]]) -> None:
    forward, reverse = of(sides)
    assert method(forward, reverse) == method(reverse, forward)


@pytest.mark.parametrize("method", [intersection, union])
@given(sides=BOTH)
def test_exchanging_the_languages_exchanges_them_in_the_links(method: Method, sides: list[tuple[Set, Set]]) -> None:
    forward, reverse = of(sides)
    assert method(forward, reverse).turned == method(reverse.turned, forward.turned)


def test_growing_depends_on_the_order_and_ours_is_by_source() -> None:
    """(1, 1) grows first. By source a second round then meets (0, 0) and takes it for word 0, and (0, 2) for column 2.

    By target (0, 2) is met in the first round, links word 0, and leaves (0, 0) nothing to link.
    """
    forward, reverse = of([({(0, 2), (1, 1), (2, 0)}, {(0, 0), (2, 0)})])
    assert grow_diag(forward, reverse)[0] == [(0, 0), (0, 2), (1, 1), (2, 0)]
    assert grow_diag(forward.turned, reverse.turned).turned[0] == [(0, 2), (1, 1), (2, 0)]


def test_hand_case() -> None:
    """A four-word block: the intersection is the corner, growth walks the diagonal, FINAL reaches what stands apart."""
    forward = {(0, 0), (1, 1), (2, 2), (5, 5)}
    reverse = {(0, 0), (1, 2), (2, 2), (6, 5)}
    links = of([(forward, reverse)])
    assert intersection(*links)[0] == [(0, 0), (2, 2)]
    assert grow_diag(*links)[0] == [(0, 0), (1, 1), (2, 2)]
    assert grow_diag_final(*links)[0] == [(0, 0), (1, 1), (2, 2), (5, 5), (6, 5)]
    assert grow_diag_final_and(*links)[0] == [(0, 0), (1, 1), (2, 2), (5, 5)]
    assert union(*links)[0] == [(0, 0), (1, 1), (1, 2), (2, 2), (5, 5), (6, 5)]


WEIGHTS = st.dictionaries(PAIR, st.floats(0, 1, width=32), max_size=13)


@given(st.lists(st.tuples(WEIGHTS, WEIGHTS), min_size=1, max_size=5), st.floats(0.01, 1))
def test_soft_is_the_geometric_mean_above_the_threshold(
    sides: list[tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]], threshold: float
) -> None:
    if not all(any(side[k] for side in sides) for k in (0, 1)):
        return  # no link at all says nothing of probabilities
    forward, reverse = (Links.of([[(at[0], at[1], p) for at, p in s[k].items()] for s in sides]) for k in (0, 1))
    found = soft(forward, reverse, threshold)
    for s, (f, r) in enumerate(sides):
        wanted = {at: np.sqrt(np.float32(p) * np.float32(r[at])) for at, p in f.items() if at in r}
        assert set(found[s]) == {at for at, p in wanted.items() if p >= threshold}
        assert [each[-1] for each in found.row(s)] == pytest.approx([wanted[at] for at in found[s]], abs=1e-6)
    assert soft(reverse, forward, threshold) == found
    assert soft(reverse.turned, forward.turned, threshold) == found.turned


def test_what_is_under_the_threshold_squared_cannot_matter() -> None:
    rng = np.random.default_rng(3)
    forward, reverse = (Links.above([rng.random((17, 13)) for _ in range(7)], 1e-9) for _ in range(2))
    for threshold in (0.3, 0.5, 0.9):
        floor = threshold**2
        assert soft(forward, reverse, threshold) == soft(forward.likely(floor), reverse.likely(floor), threshold)


def test_probabilities_of_hard_methods() -> None:
    forward = Links.of([[(0, 0, 0.9), (1, 1, 0.5)]])
    reverse = Links.of([[(0, 0, 0.4), (1, 0, 0.25)]])
    assert union(forward, reverse).row(0) == [(0, 0, 0.6), (1, 0, 0.25), (1, 1, 0.5)]
    assert union(forward, reverse.hard).probability is None


def test_many_sentences_in_several_blocks_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    sides = [
        ({(int(rng.integers(11)), j) for j in range(7)}, {(i, int(rng.integers(7))) for i in range(11)})
        for _ in range(211)
    ]
    forward, reverse = of(sides)
    whole = grow_diag_final_and(forward, reverse)
    monkeypatch.setattr(symmetrize, "_BLOCK", 101)
    monkeypatch.setattr(symmetrize, "_CHUNK", 13)
    for threads in (1, 2, 5):
        assert grow_diag_final_and(forward, reverse, threads=threads) == whole
    assert sets(whole) == [oracle("grow-diag-final-and", f, r) for f, r in sides]


def test_a_sentence_of_a_thousand_words_ends() -> None:
    rng = np.random.default_rng(11)
    forward = Links.of([{(int(rng.integers(1009)), j) for j in range(997)}])
    reverse = Links.of([{(i, int(rng.integers(997))) for i in range(1009)}])
    assert len(grow_diag_final(forward, reverse).source) <= 1009 + 997


@pytest.mark.parametrize("name", HARD)
def test_empty_sentences_and_no_sentences(name: str) -> None:
    assert named(name)(Links.of([]), Links.of([])) == Links.of([])
    assert named(name)(Links.of([[], []]), Links.of([[], []])) == Links.of([[], []])


def test_mistakes_are_said() -> None:
    links = Links.of([[(0, 0)]])
    with pytest.raises(RegardError, match="reverse: found links of 2 pairs of sentences, forward has 1"):
        intersection(links, Links.of([[], []]))
    with pytest.raises(RegardError, match="forward: these links have no probabilities"):
        soft(links, links)
    with pytest.raises(RegardError, match="threshold: found 0, wanted"):
        soft(links, links, 0)
    with pytest.raises(RegardError, match="did you mean 'grow-diag-final-and'"):
        named("grow-diag-final-an")
