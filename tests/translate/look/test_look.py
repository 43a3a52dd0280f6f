"""A look holds the alignment as numbers, and its drawings show the same numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

import regard
from regard.translate.look import Look, look
from regard.translate.look.figure import drawing
from regard.translate.look.page import document
from regard.translate.translator import Translator

SENTENCE = "the cat sat on the mat."


def made(rows: list[list[float]], source: str, target: str, on_padding: float = 0.0) -> Look:
    return Look(source, target, tuple(source.split()), tuple(target.split()), torch.tensor(rows), on_padding)


def drawn(found: Look, width: int = 80, color: bool = False) -> str:
    out = StringIO()
    Console(file=out, width=width, force_terminal=color, color_system="truecolor" if color else None).print(found)
    return out.getvalue()


def test_a_row_for_each_target_word_that_sums_to_1(translator: Translator) -> None:
    found = look(translator, SENTENCE)
    assert found.weights.shape == (len(found.target), len(found.source))
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(len(found.target)))
    assert found.source[-1] == "</s>"
    assert "</s>" not in found.target


def test_weight_on_padding_is_measured_and_exactly_0(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(translator, SENTENCE).on_padding == 0.0
    # The measurement is one: without the mask there is weight, and the look says so.
    monkeypatch.setattr("regard.translate.models.recurrent.readers.padding", lambda lengths: None)
    broken = look(translator, SENTENCE)
    assert broken.on_padding > 0.0
    assert any("THIS IS A BUG" in notice for notice in broken.notices)


def test_entropy_is_a_share_of_log_n() -> None:
    found = made([[0.25] * 4, [1.0, 0.0, 0.0, 0.0]], "a b c d", "even single")
    even, single = found.words
    assert even.evenness == pytest.approx(1.0)
    assert even.entropy == pytest.approx(math.log(4))
    assert single.evenness == 0.0
    assert (single.peak, single.peak_at) == (1.0, 0)


def test_a_mean_of_many_looks_is_said_to_be_one() -> None:
    alone = made([[1.0, 0.0]], "a b", "x")
    assert not any("mean" in notice for notice in alone.notices)
    assert "Each row is the mean of 12 looks: layers × heads = 3 × 4." in replace(alone, heads=(3, 4)).notices
    assert replace(alone, heads=(3, 4)).to_dict()["layers_and_heads"] == [3, 4]


def test_notices_name_what_looks_nowhere_and_what_looks_at_one_place() -> None:
    notices = made([[0.25] * 4, [1.0, 0.0, 0.0, 0.0], [0.0, 0.1, 0.1, 0.8]], "a b c </s>", "x y z").notices
    assert "“x” (100% of log n)" in notices[0]
    assert "“y” → “a”" in notices[1]
    assert "“z”" in notices[2]
    assert notices[-1].endswith("exactly 0, as it must be.")


@pytest.mark.parametrize("width", [80, 60, 120])
@pytest.mark.parametrize("words", [1, 5, 13, 40])
def test_no_line_of_the_drawing_is_wider_than_the_terminal(width: int, words: int) -> None:
    source = " ".join(["extraordinarily", "on", "猫"][n % 3] for n in range(words))
    found = made([[1 / words] * words] * 2, source, "anticonstitutionnellement 猫咪")
    lines = drawn(found, width).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert regard.translate.look.REMINDER.split()[0] in drawn(found, width)


def test_the_drawing_marks_the_strongest_link_with_and_without_colour() -> None:
    found = made([[0.1, 0.9], [0.7, 0.3]], "noir chat", "black cat")
    plain = drawn(found)
    assert "[90]" in plain
    assert "[70]" in plain
    assert "\x1b[" not in plain
    assert "\x1b[" in drawn(found, color=True)


def test_the_dictionary_is_plain_json(translator: Translator) -> None:
    found = look(translator, SENTENCE).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert {"sentence", "translation", "source", "target", "weights", "words", "weight_on_padding"} <= set(found)


def test_the_page_needs_no_network_and_escapes_what_it_is_given() -> None:
    page = document([made([[1.0]], "<script>", "&amp")])
    assert "<script>" not in page
    assert "http" not in page
    assert "src=" not in page
    assert page.startswith("<!doctype html>")


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_picture_is_drawn_and_missing_characters_are_named(ending: str) -> None:
    picture, missing = drawing([made([[1.0, 0.0]], "the cat", "\U000f0000")], ending)  # a character of no font
    assert len(picture) > 1000
    assert missing == ["\U000f0000"]


def test_an_empty_sentence_is_refused(translator: Translator) -> None:
    with pytest.raises(regard.RegardError, match="sentence: found nothing"):
        look(translator, "  \n")
