"""Lines drawn by a hand that is not steady: their letters, their points, and the hand that is steady."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

import regard
from regard.memory.tasks import Pen
from regard.memory.tasks.pen import LETTERS, SPREAD, polylines

STEADY = Pen(jitter=0.0, slant=0.0)


def drawn(pen: Pen, word: str, seed: int = 0) -> torch.Tensor:
    text = pen.spell(word)
    return pen.written(text, torch.ones_like(text).bool(), torch.Generator().manual_seed(seed)).strokes[0]


@pytest.mark.parametrize("letter", list(LETTERS))
def test_a_steady_hand_draws_the_letter(letter: str) -> None:
    lines = polylines(drawn(STEADY, letter))
    assert len(lines) == len(LETTERS[letter])
    wanted = torch.tensor([point for stroke in LETTERS[letter] for point in stroke])
    found = torch.cat(lines) * SPREAD
    size = found.abs().max() / wanted.abs().max()  # one size for all of a letter
    assert 0.9 <= size <= 1.1
    torch.testing.assert_close(found, wanted * size, rtol=0, atol=1e-4)


def test_letters_stand_one_after_the_other() -> None:
    strokes = drawn(STEADY, "oino")
    at = strokes[:, 0].cumsum(0)
    begun = 0
    edges = []
    for letter in "oino":
        n = sum(len(stroke) for stroke in LETTERS[letter])
        edges.append((float(at[begun : begun + n].min()), float(at[begun : begun + n].max())))
        begun += n
    assert begun == len(strokes)
    assert all(left[1] < right[0] for left, right in pairwise(edges))


def test_a_line_is_its_letters_points_in_their_order() -> None:
    pen = Pen(lengths=(2, 5))
    lines = pen.draw(17, torch.Generator().manual_seed(3))
    assert set(lines.text_valid.sum(1).tolist()) <= {2, 3, 4, 5}
    assert len(set(lines.valid.sum(1).tolist())) > 1
    for b in range(17):
        word = pen.spelled(lines.text[b], lines.text_valid[b])
        counts = [sum(len(stroke) for stroke in LETTERS[letter]) for letter in word]
        wanted = [n for n, count in enumerate(counts, start=1) for _ in range(count)]
        there = lines.valid[b]
        assert lines.letter[b][there].tolist() == wanted
        assert int(lines.strokes[b, there, 2].sum()) == sum(len(LETTERS[letter]) for letter in word)
        assert lines.strokes[b][~there].abs().sum() == lines.letter[b][~there].sum() == 0
        assert lines.strokes[b, int(there.sum()) - 1, 2] == 1  # a line ends with a stroke


def test_the_same_generator_draws_the_same_and_a_hand_is_not_steady() -> None:
    pen = Pen()
    one, two, other = (pen.draw(5, torch.Generator().manual_seed(n)) for n in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert one.strokes.shape != other.strokes.shape or not torch.equal(one.strokes, other.strokes)
    away = torch.stack([drawn(Pen(jitter=0.1, slant=0.0), "o", n) - drawn(STEADY, "o", n) for n in range(200)])
    assert 0.05 < SPREAD * float(away[:, 0, :2].std()) < 0.2
    leaning = [drawn(Pen(jitter=0.0, slant=0.5), "t", n)[:3, 0].cumsum(0) for n in range(2)]
    assert abs(float((leaning[0] - leaning[1])[0])) > 1e-3


def test_what_does_not_fit_is_refused() -> None:
    cases: dict[str, Callable[[], object]] = {
        r"lengths is \(0, 3\)": lambda: Pen(lengths=(0, 3)),
        r"jitter is -1": lambda: Pen(jitter=-1),
        r"slant is nan": lambda: Pen(slant=float("nan")),
        r"word is 'xo', wanted letters of 'adeginort'": lambda: Pen().spell("xo"),
        r"word is ''": lambda: Pen().spell(""),
        r"batch is 0": lambda: Pen().draw(0, torch.Generator()),
    }
    for message, call in cases.items():
        with pytest.raises(regard.RegardError, match=message):
            call()
