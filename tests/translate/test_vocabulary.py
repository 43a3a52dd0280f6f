"""Pieces: there and back, the special ones, and learning that can be repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.translate.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

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


@pytest.mark.parametrize("size", [4000, 9])
def test_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(RegardError, match=f"source vocabulary: {size} pieces cannot be learnt"):
        Vocabulary.train(ENGLISH, size, "source vocabulary")


def test_a_file_that_is_no_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "source.model").write_bytes(b"nothing of the kind")
    with pytest.raises(RegardError, match="not a readable SentencePiece model"):
        Vocabulary.load(tmp_path / "source.model")
