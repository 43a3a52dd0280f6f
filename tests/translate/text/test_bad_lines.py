"""A corpus of everything that goes wrong: trained on, or left out with a count for each reason, and never a crash."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from regard.translate.text.corpus import read_parallel
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.lessons import Lessons
from regard.translate.training.run import train

from ..conftest import WORDS, Toy
from ..training.runs import Stopper

BAD = [
    ("", "un"),  # 212: blank
    ("\u200b\ufeff", "\t\x00"),  # 213: nothing that can be seen
    ("two " * 2000, "deux " * 2000),  # 214: too long
    ("one 👨\u200d👩\u200d👧 two 👍🏽", "un 👍 deux"),
    ("one\x00 two\x07", "un \x1b[0mdeux\x7f"),  # cleaned
    ("Привет 世界 שלום one", "un नमस्ते ▁ ▅ deux"),
    ("three\ttabs\u2028and\x0blines", "trois\x85choses"),
    ("\U0001fbf0", "un deux"),  # 219: seen once, the rarest: the vocabulary does not have it
    ("<s> </s> <unk> <pad> one", "un </s>"),
    ("two", "a" * 3000),  # 221: one word, too long
    ("one two three", "un deux é"),  # 222: broken off
]


@pytest.fixture
def bad(toy: Toy) -> Toy:
    """The toy's text with Windows line ends, then all that is bad, its last line cut within a character."""
    good = list(zip(*(file.read_text().splitlines() for file in (toy.source, toy.target)), strict=True))
    for file, lines in zip((toy.source, toy.target), zip(*good, *BAD, strict=True), strict=True):
        file.write_bytes("\r\n".join(lines).encode())
    toy.target.write_bytes(toy.target.read_bytes()[:-1])
    return replace(toy, settings=replace(toy.settings, source_pieces=40, target_pieces=28))


@pytest.mark.parametrize("sample", [0.0, 0.5])
def test_it_is_trained_on_and_told(bad: Toy, tmp_path: Path, sample: float) -> None:
    report = Stopper(2)
    settings = replace(bad.settings, sample=sample)
    outcome = train(*bad.files, tmp_path / "run", settings, threads=1, report=report)
    assert outcome.updates == 2
    assert report.said[0] == (
        "216 pairs; left out 2 longer than 80 pieces, 1 with a side that the vocabulary knows no character of, "
        "2 with a blank side, 1 broken off within a character; control characters taken out of 1"
    )


def test_lines_are_those_of_the_file(bad: Toy) -> None:
    corpus = read_parallel(bad.source, bad.target)
    source, target = Vocabulary.train(corpus.source, 40), Vocabulary.train(corpus.target, 28)
    lessons = Lessons(corpus, source, target, bad.settings, (bad.source, bad.target))
    assert lessons.numbers == [*range(1, 212), 215, 216, 217, 218, 220]
    assert lessons.where([[211, 0], [215]]) == ", by the pairs on lines 1, 215, 220 of train.en"


def test_any_characters_at_all() -> None:
    """Drawn from all that are not surrogates: nothing breaks, and what was learnt comes back."""
    draw = random.Random(5)
    lines = [
        "".join(chr(c) for c in draw.choices([*range(0x20, 0xD800), *range(0xE000, 0x11000)], k=17)) for _ in range(31)
    ]
    vocabulary = Vocabulary.train([*WORDS] * 9 + lines, 543)
    for ids in vocabulary.encode([*WORDS, *lines]):
        vocabulary.knows(ids)
        assert isinstance(vocabulary.decode(ids), str)
    assert [vocabulary.decode(ids) for ids in vocabulary.encode([*WORDS])] == [*WORDS]
