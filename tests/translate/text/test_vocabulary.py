"""Pieces: there and back, the special ones, and learning that can be repeated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.translate.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

ENGLISH = ["the cat sat on the mat", "a cat sat", "the dog ran to the mat", "dogs and cats ran"] * 5
CHINESE = ["猫坐在垫子上。", "狗跑了！", "你好，世界", "我喜歡猫"] * 5


@pytest.fixture(scope="module")
def english() -> Vocabulary:
    return Vocabulary.train(ENGLISH, 24)


def test_there_and_back(english: Vocabulary) -> None:
    assert [english.decode(ids) for ids in english.encode(ENGLISH)] == ENGLISH


def test_full_width_marks_survive() -> None:
    chinese = Vocabulary.train(CHINESE, 24)
    assert [chinese.decode(ids) for ids in chinese.encode(CHINESE)] == CHINESE


def test_special_pieces(english: Vocabulary) -> None:
    ids = english.encode(["cat 猫"])[0]
    assert ids[-1] == EOS
    assert UNK in ids
    assert PAD not in ids
    assert BOS not in ids
    assert english.decode([BOS, *ids, PAD, PAD]) == "cat"
    assert english.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert english.encode([""]) == [[EOS]]


def test_training_can_be_repeated(english: Vocabulary) -> None:
    assert Vocabulary.train(ENGLISH, 24).model == english.model
    assert len(english) == 24


def test_draws_follow_their_seed(english: Vocabulary) -> None:
    first, again, other = (english.sample(ENGLISH, 0.1, seed) for seed in (5, 5, 6))
    assert first == again
    assert first != other
    assert [english.decode(ids) for ids in first] == ENGLISH


def test_draws_are_the_same_in_another_process(english: Vocabulary, tmp_path: Path) -> None:
    (tmp_path / "source.model").write_bytes(english.model)
    program = (
        "import sys; from pathlib import Path; from regard.translate.text.vocabulary import Vocabulary; "
        f"print(Vocabulary.load(Path(sys.argv[1])).sample({ENGLISH!r}, 0.1, 5))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "source.model")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == str(english.sample(ENGLISH, 0.1, 5))


def test_a_small_alpha_draws_more_evenly(english: Vocabulary) -> None:
    best = english.encode(ENGLISH)
    assert english.sample(ENGLISH, 50.0, 1) == best
    unlike = [
        sum(a != b for a, b in zip(english.sample(ENGLISH * 9, alpha, 1), best * 9, strict=True)) for alpha in (0.1, 1)
    ]
    assert unlike[0] > unlike[1] > 0


@pytest.mark.parametrize("size", [4000, 9])
def test_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(RegardError, match=f"source vocabulary: {size} pieces cannot be learnt"):
        Vocabulary.train(ENGLISH, size, "source vocabulary")


def test_a_file_that_is_no_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "source.model").write_bytes(b"nothing of the kind")
    with pytest.raises(RegardError, match="not a readable SentencePiece model"):
        Vocabulary.load(tmp_path / "source.model")
