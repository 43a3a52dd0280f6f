"""Scores against gold: hand cases, an oracle on sets, and gold files that do not fit their text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.align.gold import Gold, Score, read, score
from regard.align.links import Links
from regard.errors import RegardError, RegardWarning

Set = set[tuple[int, int]]
SENTENCE = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=11)


def of(sure: Set, possible: Set = frozenset()) -> Gold:  # type: ignore[assignment]
    return Gold.of(Links.of([sure]), Links.of([possible]))


@pytest.mark.parametrize(
    ("links", "sure", "possible", "aer", "precision", "recall"),
    [
        ({(0, 0), (1, 1)}, {(0, 0), (1, 1)}, set(), 0, 1, 1),
        ({(0, 0), (1, 1), (1, 2)}, {(0, 0), (1, 1)}, {(1, 2)}, 0, 1, 1),  # A = P
        ({(0, 0), (1, 2)}, {(0, 0)}, {(1, 2), (2, 2)}, 0, 1, 1),  # S ⊆ A ⊆ P
        ({(0, 0)}, {(0, 0), (1, 1)}, set(), 1 / 3, 1, 1 / 2),
        ({(0, 0), (1, 1), (2, 0)}, {(0, 0), (1, 1)}, set(), 1 / 5, 2 / 3, 1),
        ({(0, 0), (1, 2), (3, 0)}, {(0, 0), (1, 1)}, {(1, 2)}, 2 / 5, 2 / 3, 1 / 2),
        ({(2, 0)}, {(0, 0)}, set(), 1, 0, 0),
        (set(), {(0, 0)}, set(), 1, 0, 0),
        (set(), set(), set(), 0, 0, 0),
        ({(0, 0)}, set(), {(0, 0)}, 0, 1, 0),
    ],
)
def test_hand_cases(links: Set, sure: Set, possible: Set, aer: float, precision: float, recall: float) -> None:
    found = score(Links.of([links]), of(sure, possible))
    assert (found.aer, found.precision, found.recall) == pytest.approx((aer, precision, recall))
    assert (found.links, found.sure, found.possible) == (len(links), len(sure), len(sure | possible))


@given(st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=5), st.integers(0, 3))
def test_sums_over_the_set_as_on_sets(each: list[tuple[Set, Set, Set]], before: int) -> None:
    gold = Gold.of(Links.of([s for _, s, _ in each]), Links.of([p for _, _, p in each]))
    links = Links.of([*([{(4, 4)}] * before), *(a for a, _, _ in each)])
    found = score(links, gold)
    a, s = (sum(len(one[k]) for one in each) for k in (0, 1))
    both = sum(len(one[0] & one[1]) + len(one[0] & (one[1] | one[2])) for one in each)
    assert found.aer == pytest.approx(1 - both / (a + s) if a + s else 0)
    assert score(links, gold, first=before) == found
    assert score(links.turned, Gold.of(gold.sure.turned, gold.possible.turned)) == found


def test_f_weighs_precision_and_recall() -> None:
    links, gold = Links.of([{(0, 0), (1, 1), (2, 2), (3, 3)}]), of({(0, 0), (1, 1), (0, 1), (4, 4), (1, 4)})
    half = score(links, gold)
    assert half.f == pytest.approx(2 * half.precision * half.recall / (half.precision + half.recall))
    assert score(links, gold, alpha=1).f == pytest.approx(half.precision) == pytest.approx(1 / 2)
    assert score(links, gold, alpha=0).f == pytest.approx(half.recall) == pytest.approx(2 / 5)
    with pytest.raises(RegardError, match="alpha: found 2"):
        score(links, gold, alpha=2)


def test_it_says_itself() -> None:
    found = Score(0.0735, 0.9602, 0.885, 0.921, 4987, 4038, 17438, 447)
    assert str(found) == (
        "AER 7.3 %, precision 96.0 %, recall 88.5 %, F 92.1 % "
        "(4,987 links against 4,038 sure and 13,400 possible, 447 pairs of sentences)"
    )
    assert found.to_dict()["possible"] == 17438


def test_gold_stands_at_the_end_or_where_it_is_said_to() -> None:
    links = Links.of([[(0, 0)], [(1, 1)], [(2, 2)]])
    gold = Gold.of(Links.of([[(1, 1)]]))
    assert score(links, gold).aer == 1
    assert score(links, gold, first=1).aer == 0
    with pytest.raises(RegardError, match=r"gold has 1 lines, and from pair 3 on of 3 pairs"):
        score(links, gold, first=3)
    with pytest.raises(RegardError, match="at the end of 1 pairs of sentences there is no room"):
        score(links[:1], Gold.of(links))


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    here, there = tmp_path / "gold", tmp_path / "naacl"
    here.write_bytes(b"0-0 1?2 2-1\r\n\r\n1-1 1?1\r\n")
    there.write_bytes(b"0001 1 1 S\n0001 2 3 P\n0001 3 2\n0003 2 2 P\n0003 2 2 S\n0002 0 4 S\n0003 4 0 P 0.5\n")
    one, other = read(here), read(there)
    assert one.sure == other.sure == Links.of([[(0, 0), (2, 1)], [], [(1, 1)]])
    assert one.possible == other.possible == Links.of([[(0, 0), (1, 2), (2, 1)], [], [(1, 1)]])


def refused(gold: Gold, sources: list[int], targets: list[int]) -> str:
    with pytest.raises(RegardError) as raised:
        gold.check(np.array(sources), np.array(targets))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_gold_that_counts_from_1_is_told_from_gold_of_another_text() -> None:
    one = Gold.of(Links.of([[(1, 1), (2, 2)], [(1, 2)], [(3, 5)]]), name="some.gold")
    assert "line 3 of some.gold links 3-5, its sentences have 3 and 5 words; no link of the file has a 0, so it" in (
        refused(one, [9, 3, 2, 3], [9, 3, 3, 5])
    )
    assert "line 1 belongs to pair 2 of 4: are these the sentences it was made for?" in (
        refused(one, [9, 3, 2, 2], [9, 3, 3, 5])
    )
    for link in ((0, 5), (3, 0)):
        assert f"links {link[0]}-{link[1]}, its sentences have 3 and 5 words; word numbers count from 0" in (
            refused(Gold.of(Links.of([[link]])), [3], [5])
        )
    Gold.of(Links.of([[(2, 0), (0, 4)]])).check(np.array([3]), np.array([5]))


def test_gold_that_never_names_a_first_word_is_said() -> None:
    gold = Gold.of(Links.of([[(1, 1)]] * 5))
    with pytest.warns(RegardWarning, match="no link of gold has a 0 on either side"):
        gold.check(np.full(5, 9), np.full(5, 9))
    Gold.of(Links.of([[(1, 1)]] * 4)).check(np.full(4, 9), np.full(4, 9))
    Gold.of(Links.of([[(0, 1)]] * 5)).check(np.full(5, 9), np.full(5, 9))


def test_pairs_left_out_are_passed_over_and_count_as_missed() -> None:
    gold = Gold.of(Links.of([[(7, 7)], [(0, 0)]]))
    gold.check(np.array([0, 1]), np.array([0, 1]))
    assert score(Links.of([[], [(0, 0)]]), gold).recall == 0.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"0-0\n0 - 1\n", "gold: line 2 of "),
        (b"0-0 1=2\n", "has '1=2', wanted links like 0-0"),
        (b"0001 1 1 S\n0001 1 1 X\n", "line 2 of"),
        (b"0001 1 1 S\n1-1\n", "is '1-1', wanted sentence, source word, target word"),
        (b"0000 1 1 S\n", "all from 1 to"),
        (b"99999999 1 1 S\n", "all from 1 to"),
        (b"0-\x000\n", "line 1 of"),
    ],
)
def test_what_is_no_gold_is_refused_by_line(tmp_path: Path, text: bytes, says: str) -> None:
    file = tmp_path / "gold"
    file.write_bytes(text)
    with pytest.raises(RegardError) as raised:
        read(file)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "sentences", "sure", "possible"),
    [("hansards-en-fr", 447, 4038, 13400), ("tsinghua-zh-en", 450, 11238, 178), ("kftt-ja-en", 582, 13556, 0)],
)
def test_real_gold_has_as_many_links_as_its_source_says(
    corpus: Callable[[str], Path], name: str, sentences: int, sure: int, possible: int
) -> None:
    (file,) = corpus(name).glob("*.gold")
    gold = read(file)
    assert (len(gold), len(gold.sure.source), len(gold.possible.source)) == (sentences, sure, sure + possible)
