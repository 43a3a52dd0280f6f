"""A trained aligner put to other text: what it knows it uses, and what it never saw it does not guess."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.align.aligner import Alignment, align, decoded
from regard.align.applied import Applied
from regard.align.corpus import Corpus, gathered
from regard.align.decode import believe
from regard.align.pairs import Pairs
from regard.align.places.table import Table
from regard.align.recipe import RECIPES, Recipe
from regard.align.saved import Saved, save
from regard.align.train import begin, train
from regard.errors import RegardError
from tests.align.exhaustive import TRAINED, corpus, random_corpus

TEXT = random_corpus(np.random.default_rng(5), 83, 9, words=(23, 29))


def trained(folder: Path, text: Corpus, recipe: Recipe) -> Applied:
    state = train(begin(text, Pairs.of(text), recipe), recipe)
    save(folder, text, state.channels, state.done, recipe, text.digest())
    return Applied(Saved.of(folder))


def put(applied: Applied, text: Corpus, symmetrize: str = "soft") -> Alignment:
    pairs, recipe = Pairs.of(text), applied.saved.recipe
    channels = applied.channels(text, pairs)
    return decoded(channels[0].view, believe(channels, viterbi=recipe.viterbi), symmetrize)


def part(text: Corpus, first: int, last: int) -> Corpus:
    return gathered((text.source.sentence(s), text.target.sentence(s)) for s in range(first, last))


@pytest.mark.parametrize("name", TRAINED)
def test_text_that_it_was_trained_on_has_the_links_of_training(tmp_path: Path, name: str) -> None:
    """As a whole, and a few sentences at a time, which have other word numbers."""
    recipe = TRAINED[name]
    applied = trained(tmp_path, TEXT, recipe)
    state = train(begin(TEXT, Pairs.of(TEXT), recipe), recipe)
    for symmetrize in ("soft", "grow-diag-final-and"):
        expected = decoded(state.channels[0].view, believe(state.channels, viterbi=recipe.viterbi), symmetrize)
        found = put(applied, TEXT, symmetrize)
        assert found == expected
        assert len(found.forward.source) > 100
        for first in range(0, len(TEXT), 7):
            piece = put(applied, part(TEXT, first, min(first + 7, len(TEXT))), symmetrize)
            assert piece.forward == expected.forward[first : first + 7]
            assert piece.reverse == expected.reverse[first : first + 7]
            assert piece.links == expected.links[first : first + 7]


@pytest.mark.parametrize("name", TRAINED)
def test_unknown_words(tmp_path: Path, name: str) -> None:
    """Among known ones, alone, and longer sentences than any before: nothing breaks, and every number is one."""
    recipe = TRAINED[name]
    applied = trained(tmp_path, corpus(("a b", "x y"), ("a", "x"), ("b c", "y z")), recipe)
    long = " ".join("abcQ" * 40)
    new = corpus(("a Q", "x W"), ("Q", "W"), ("", ""), (long, "x y z W " * 30), ("c", "x"))
    found = put(applied, new)
    for links in (found.links, found.forward, found.reverse):
        assert len(links) == 5
        assert links.probability is not None
        assert np.isfinite(links.probability).all()
    if name == "agreement":
        assert (0, 0) in found.links[0]
        assert found.links[2] == []


def test_a_strange_word_that_stands_on_both_sides_answers_to_itself(tmp_path: Path) -> None:
    applied = trained(tmp_path, TEXT, TRAINED["agreement"])
    known = [word.decode() for word in (TEXT.source.words[0], TEXT.target.words[0])]
    found = put(applied, corpus((f"{known[0]} Zürich 1867", f"1867 {known[1]} Zürich")))
    assert {(1, 2), (2, 0)} <= set(found.links[0])


def test_a_word_it_knows_on_one_side_alone_is_unknown_on_the_other(tmp_path: Path) -> None:
    applied = trained(tmp_path, corpus(("a b", "x y"), ("b", "y")), TRAINED["agreement"])
    (forward, _) = applied.channels(corpus(("x b", "b y")), Pairs.of(corpus(("x b", "b y"))))
    pairs = forward.view.pairs
    t = {
        (e, f): float(forward.lexicon.table[pairs.find(np.array([e]), np.array([f]))[0]])
        for e in (0, 1)
        for f in (0, 1)
    }
    assert t[1, 1] == pytest.approx(Applied(applied.saved).lexicons[0].table.max())
    assert t[0, 0] == t[0, 1] == t[1, 0] == pytest.approx(1 / 2)  # of two target words


def test_a_shape_that_model_2_never_saw_looks_everywhere_alike(tmp_path: Path) -> None:
    applied = trained(tmp_path, corpus(("a b", "x y"), ("a", "x")), TRAINED["ibm2"])
    text = corpus(("a b a", "x"), ("a b", "x y"))
    (forward, _) = applied.channels(text, Pairs.of(text))
    assert isinstance(forward.places, Table)
    shapes = forward.places.shapes
    at = list(zip(shapes.l.tolist(), shapes.m.tolist(), strict=True)).index((3, 1))
    assert (forward.places.bias[shapes.begins[at] : shapes.begins[at + 1]] == np.float32(1 / 4)).all()
    other = 1 - at
    assert not (forward.places.bias[shapes.begins[other] : shapes.begins[other + 1]] == np.float32(1 / 3)).all()


def test_a_model_of_no_text_and_no_new_text(tmp_path: Path) -> None:
    applied = trained(tmp_path, corpus(), TRAINED["agreement"])
    assert len(put(applied, corpus(("a b", "x"), ("", ""))).links) == 2
    assert len(put(applied, corpus()).links) == 0
    applied = trained(tmp_path, TEXT, TRAINED["agreement"])
    assert len(put(applied, corpus()).links) == 0
    assert align(corpus()).links == put(applied, corpus()).links


def test_what_was_killed_while_it_sampled_is_said(tmp_path: Path) -> None:
    save(tmp_path, TEXT, (), 1, RECIPES["sample"], TEXT.digest(), {"links": np.zeros(3, np.int32)})
    with pytest.raises(
        RegardError, match=r"--load: \S+ was killed while it sampled; run its command with --save again"
    ):
        Applied(Saved.of(tmp_path))
