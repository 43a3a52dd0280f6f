"""Words of a translation: which answer to which, what is copied, and what it begins with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.translate.decoding.beam import Beam
from regard.translate.decoding.markup import parse, stripped
from regard.translate.decoding.penalty import Penalty
from regard.translate.decoding.words import copied, links, numbers, text_of, with_tags
from regard.translate.text.vocabulary import EOS, UNK, Vocabulary
from regard.translate.translator import Translation, Translator
from tests.translate.decoding.conftest import SIZES, random_model

LINES = ["the cat sat on the mat", "a dog ran.", "the dog sat", "cats and dogs"]


@pytest.fixture(scope="module", params=SIZES)
def translator(request: pytest.FixtureRequest) -> Translator:
    vocabulary = Vocabulary.train(LINES * 5, 25)
    return Translator(random_model(request.param, 25, 25, 4), vocabulary, vocabulary)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["▁", "▁a", "b", "▁b", ".", "☃", "▁▁"]), max_size=8))
def test_words_are_those_of_the_text(pieces: list[str]) -> None:
    words = text_of(pieces).split(" ")
    words = [word for word in words if word]
    found = numbers([*pieces, "</s>"])
    assert found[-1] == -1
    assert max(found) + 1 == len(words)
    for n, word in enumerate(words):
        assert "".join(piece for piece, at in zip(pieces, found, strict=False) if at == n).strip("▁") == word


def translation(target: list[str], source: list[str], weights: list[list[float]]) -> Translation:
    return Translation(tuple(source), tuple(target), text_of(target), 0.0, torch.tensor(weights))


def test_links_are_the_strongest_looks_of_words() -> None:
    found = translation(
        ["▁le", "▁cha", "t", "</s>"],
        ["▁the", "▁c", "at", "</s>"],
        [[0.6, 0.3, 0.1, 0.0], [0.4, 0.3, 0.3, 0.0], [0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]],
    )
    assert links(found) == [(0, 0), (1, 1)]  # .35 + .275 of the two pieces on average, against .45
    assert links(replace(found, weights=found.weights[:, [3, 0, 1, 2]], source=("</s>", "▁the", "▁c", "at"))) == links(
        found
    )
    assert links(Translation((), (), "", 0.0, torch.zeros(0, 0))) == []


def test_an_unknown_word_is_the_source_s() -> None:
    source, read = ["▁in", "▁", "Zü", "rich", ",", "▁now", "</s>"], [4, 5, UNK, 6, 7, 8, EOS]

    def at(*places: int) -> torch.Tensor:
        return torch.eye(7)[list(places)]

    target, ids = ["▁x", "<unk>", "</s>"], [9, UNK, EOS]
    assert copied(ids, 0, target, read, source, at(0, 5, 6)) == ("▁x", "now", "</s>")
    assert copied(ids, 0, target, read, source, at(0, 3, 6)) == ("▁x", "Zü", "</s>")  # the word's unknown piece
    assert copied(ids, 0, target, read, source, at(0, 4, 6)) == ("▁x", ",", "</s>")
    assert copied(ids, 0, target, read, source, at(0, 6, 6))[1] != "</s>"
    assert copied([UNK, UNK, EOS], 0, target, read, source, at(0, 0, 6)) == ("in", "", "</s>")
    assert copied([UNK, UNK, EOS], 2, target, read, source, at(0, 0, 6)) == tuple(target)  # what is given stays


def test_copying_says_no_unknown_piece_and_only_words_of_the_source(translator: Translator) -> None:
    lines = ["the ☃☃ sat", "a Ü dog", "☃"]
    found = translator.several(lines, Beam(unknown=True), copying=True)
    for line, (one,) in zip(lines, found, strict=True):
        assert "<unk>" not in one.text
        assert set(one.text) <= set(line) | set("".join(LINES))
        assert text_of(one.target) == one.text


@pytest.mark.parametrize("prefix", ["the do", "a", "Ü ☃ the", "cat.", ""])
def test_a_translation_begins_with_what_was_given(translator: Translator, prefix: str) -> None:
    found = translator.several(["the cat", " ", "a dog ran"], Beam(3, 2), prefixes=[prefix, "x", prefix], looking=True)
    for one in (*found[0], *found[2]):
        assert one.text.startswith(prefix)
        assert one.weights.shape == (len(one.target), len(one.source))
        assert max(numbers(one.target)) + 1 == len(one.text.split())
    assert [one.text for one in found[1]] == [""]


def test_tags_leave_the_translation_alone(translator: Translator) -> None:
    lines = ["<b>the</b> cat <i>sat on <br/>the</i> mat", "a <b>dog ran.</b>", "<b></b>", "cats &amp; dogs"]
    marked = [parse(line) for line in lines]
    found = translator.several([each.plain for each in marked], Beam(), looking=True)
    for tags, (one,) in zip(marked, found, strict=True):
        out = with_tags(one, tags)
        assert stripped(out).replace("&amp;", "&") == one.text
        assert out.count("<b>") == out.count("</b>")
    assert with_tags(found[2][0], marked[2]) == "<b></b>"


def test_pieces_spell_the_text(translator: Translator) -> None:
    for (one,) in translator.several(LINES, Beam()):
        assert text_of(one.target) == one.text
        assert text_of(one.source) in LINES


@pytest.mark.parametrize("ahead", [1, 3, 512])
def test_texts_are_the_same_however_far_ahead_is_read(translator: Translator, ahead: int) -> None:
    lines = [*LINES, "", *LINES[::-1]]
    taken: list[str] = []

    def stream() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    found = translator.texts(stream(), beam=3, ahead=ahead)
    first = next(found)
    assert len(taken) == min(ahead, len(lines))
    assert [first, *found] == [one.text for (one,) in translator.several(lines, Beam(3, penalty=Penalty(1.0)))]


def test_nothing_cannot_be_read_ahead(translator: Translator) -> None:
    with pytest.raises(RegardError, match="ahead: found 0, wanted a whole number of at least 1"):
        next(translator.texts(LINES, ahead=0))
