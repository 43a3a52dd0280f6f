"""Word classes: the likelihood by definition, that it never falls, and classes that are known."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.align.classes import clustered, likelihood, of_both, read
from regard.align.corpus import Side
from regard.errors import RegardError

Array = np.ndarray[Any, Any]


def side(sentences: list[list[int]], words: int) -> Side:
    tokens = np.array(list(itertools.chain.from_iterable(sentences)), np.int32)
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    return Side(tokens, offsets, [b"w%d" % k for k in range(words)])


def text(rng: np.random.Generator, kinds: int, each: int, sentences: int) -> tuple[Side, Array]:
    """Sentences whose classes follow each other by a table that is nearly certain; words are drawn from their class."""
    table = np.eye(kinds)[rng.permutation(kinds)] * 0.9 + 0.1 / kinds
    label = rng.permutation(np.repeat(np.arange(kinds), each))  # of each word
    members = [np.flatnonzero(label == k) for k in range(kinds)]
    found = []
    for _ in range(sentences):
        kind, sentence = int(rng.integers(kinds)), list[int]()
        for _ in range(rng.integers(0, 12)):
            sentence.append(int(rng.choice(members[kind])))
            kind = int(rng.choice(kinds, p=table[kind]))
        found.append(sentence)
    return side(found, len(label)), label


def by_definition(given: Side, of: Array) -> float:
    """Σ log p(c_w|c_v) p(w|c_w) over all bigrams, the ends of sentences one class, less what is constant."""
    pairs: Counter[tuple[int, int]] = Counter()
    end = -1
    for s in range(len(given.offsets) - 1):
        words = [int(w) for w in given.tokens[given.offsets[s] : given.offsets[s + 1]]]
        if words:
            kinds = [end, *(int(of[w]) for w in words), end]
            pairs.update(itertools.pairwise(kinds))
    before, after = Counter[int](), Counter[int]()
    for (c, d), n in pairs.items():
        before[c] += n
        after[d] += n
    return sum(n * math.log(n / before[c] / after[d]) for (c, d), n in pairs.items())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_likelihood_is_that_of_the_class_bigram_model(seed: int) -> None:
    given, label = text(np.random.default_rng(seed), 5, 7, 83)
    assert likelihood(given, label.astype(np.int32)) == pytest.approx(by_definition(given, label), rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_pass_makes_it_less_likely(seed: int) -> None:
    given, _ = text(np.random.default_rng(seed), 7, 11, 211)
    found = [likelihood(given, clustered(given, 5, passes)) for passes in range(8)]
    assert all(a <= b + 1e-9 * abs(b) for a, b in itertools.pairwise(found))
    assert found[-1] > found[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_where_it_stops_no_exchange_of_one_word_is_better(seed: int) -> None:
    given, _ = text(np.random.default_rng(seed), 3, 5, 61)
    of = clustered(given, 4, passes=50)
    here = likelihood(given, of)
    for word, kind in itertools.product(range(15), range(4)):
        other = of.copy()
        other[word] = kind
        other = np.append(other, np.int32(3))  # keeps the number of classes: a word that never stands in the text
        assert likelihood(Side(given.tokens, given.offsets, [*given.words, b"none"]), other) <= here + 1e-9 * abs(here)


def test_classes_that_are_there_are_found() -> None:
    given, label = text(np.random.default_rng(0), 4, 13, 1009)
    of = clustered(given, 4)
    assert likelihood(given, of) >= likelihood(given, label.astype(np.int32))
    assert len(set(zip(of.tolist(), label.tolist(), strict=True))) == 4  # one of ours for each of theirs


def test_odd_texts() -> None:
    assert clustered(side([], 0), 3).tolist() == []
    assert clustered(side([[]], 0), 3).tolist() == []
    assert clustered(side([[0]], 1), 3).tolist() == [0]
    assert clustered(side([[0, 0, 0, 0], [], [0]], 1), 1).tolist() == [0]
    assert set(clustered(side([[0, 1], [2, 1, 1]], 3), 50).tolist()) <= set(range(50))


def test_the_same_text_has_the_same_classes_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(5)
    source, target = text(rng, 5, 7, 97)[0], text(rng, 3, 11, 97)[0]
    one, two = of_both(source, target, 7, threads=1), of_both(source, target, 7, threads=2)
    assert (one[0] == two[0]).all()
    assert (one[1] == two[1]).all()
    assert (one[0] == clustered(source, 7)).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("w0\tA\nw1\n", "line 2 .* has 1 fields, wanted a word and its class"),
        ("w0 A B\n", "line 1 .* has 3 fields"),
        ("w0 A\nw1 B\nw0 B\n", "line 3 .* gives 'w0' a second class"),
    ],
)
def test_a_bad_file_is_refused_by_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "classes").write_text(content)
    with pytest.raises(RegardError, match=message):
        read(tmp_path / "classes", side([[0, 1]], 2))


def test_a_file_of_classes(tmp_path: Path) -> None:
    (tmp_path / "classes").write_bytes(b"w2\tB\r\n\r\nw0 A\nw0 A\nother B\n")
    assert read(tmp_path / "classes", side([[0, 1, 2]], 3)).tolist() == [1, 2, 0]


def test_numbers_are_asked_for_that_make_sense() -> None:
    with pytest.raises(RegardError, match="classes: found 0, wanted at least 1"):
        clustered(side([[0]], 1), 0)
    with pytest.raises(RegardError, match="passes: found -1"):
        clustered(side([[0]], 1), 1, -1)
