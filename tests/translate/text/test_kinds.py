"""Kinds of vocabulary: unigram, bpe, characters and words, of a side each or joint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from regard.errors import RegardError
from regard.translate import checkpoint
from regard.translate.text.vocabulary import UNK, Kind, Vocabulary
from regard.translate.text.words import group, spell
from regard.translate.training.settings import Settings
from regard.translate.translator import Translator

from ..conftest import Toy
from ..training.runs import Stopper, run
from .test_vocabulary import CHINESE, ENGLISH

KINDS: tuple[Kind, ...] = get_args(Kind)
SIZES = {"unigram": 24, "bpe": 24, "char": 17, "word": 16}
SMALL = {"width": 14, "heads": 7, "layers": 1, "feed": 11}


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_and_again(kind: Kind) -> None:
    vocabulary = Vocabulary.train(ENGLISH, SIZES[kind], kind=kind)
    assert len(vocabulary) == SIZES[kind]
    ids = vocabulary.encode(ENGLISH)
    assert all(UNK not in row for row in ids)
    assert [vocabulary.decode(row) for row in ids] == ENGLISH
    assert Vocabulary.train(ENGLISH, SIZES[kind], kind=kind).model == vocabulary.model
    for line, row in zip(ENGLISH, ids, strict=True):
        pieces = vocabulary.pieces(row)
        assert spell(pieces, group(pieces)) == [*line.split(), "</s>"]


def test_each_kind_cuts_its_own_way() -> None:
    line = "the cats ran"
    cut = {kind: len(Vocabulary.train(ENGLISH, SIZES[kind], kind=kind).encode([line])[0]) for kind in KINDS}
    assert cut["word"] == 3 + 1
    assert cut["char"] == 3 + len(line.replace(" ", "")) + 1  # a bare mark before each word, and the end
    assert cut["word"] < cut["bpe"] < cut["char"]
    assert cut["word"] < cut["unigram"] < cut["char"]
    first = Vocabulary.train(ENGLISH, 24, kind="bpe").pieces([4])
    assert first[0] == "at"  # the commonest pair (7 times in 23 words) is merged first


def test_characters_are_for_chinese() -> None:
    vocabulary = Vocabulary.train(CHINESE, 4000, kind="char")  # at most: it has no more characters
    assert len(vocabulary) == 4 + 1 + len({c for line in CHINESE for c in line})
    assert [vocabulary.decode(row) for row in vocabulary.encode(CHINESE)] == CHINESE
    assert vocabulary.pieces(vocabulary.encode(["猫坐"])[0]) == ["▁", "猫", "坐", "</s>"]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_only_a_unigram_model_draws(kind: Kind, toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="sample: only pieces of a unigram model have several readings"):
        Vocabulary.train(ENGLISH, SIZES[kind], kind=kind).sample(ENGLISH, 0.5, 1)
    with pytest.raises(RegardError, match=f"sample: found 0.5, but {kind} pieces have one reading; give 0"):
        Settings(pieces=kind, sample=0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_trained_with(kind: Kind, toy: Toy, tmp_path: Path) -> None:
    """Two updates of a Transformer with one embedding for all: the directory translates, both files are one."""
    size = SIZES[kind] + 8
    settings = replace(
        toy.settings,
        model="transformer",
        sizes={**SMALL, "shared": True},
        pieces=kind,
        joint=True,
        sample=0.0,
        source_pieces=size,
        target_pieces=size,
    )
    run(toy, tmp_path / "run", settings, report=Stopper(2))
    model, source, target = checkpoint.load_model(tmp_path / "run")
    assert source.model == target.model
    assert UNK not in [n for row in source.encode(["six five", "cinq deux"]) for n in row]
    assert "source_embedding.weight" not in model.state_dict()
    assert Translator.load(tmp_path / "run").translate(["one two"])[0].source[-1] == "</s>"
    assert run(toy, tmp_path / "run", settings, report=Stopper(1)).updates == 3


def test_what_does_not_go_together(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="target_pieces: found 30, wanted 24, as source_pieces: a joint vocabulary"):
        replace(toy.settings, joint=True, target_pieces=30)
    with pytest.raises(RegardError, match="shared: the sides have vocabularies of their own; give --joint too"):
        Settings(model="transformer", sizes={"shared": True})
    with pytest.raises(RegardError, match="shared: a bahdanau has no such size"):
        Settings(joint=True, sizes={"shared": True})
    with pytest.raises(RegardError, match="pieces: found bpt, wanted unigram or bpe or char or word"):
        Settings(pieces="bpt")  # type: ignore[arg-type]


def test_a_beginning_that_is_not_joint(toy: Toy, tmp_path: Path) -> None:
    run(toy, tmp_path / "apart", report=Stopper(1))
    joint = replace(toy.settings, joint=True)
    with pytest.raises(RegardError, match="joint: the model to begin from has two vocabularies; leave --joint out"):
        run(toy, tmp_path / "other", joint, start=tmp_path / "apart")
    run(toy, tmp_path / "joint", joint, report=Stopper(1))
    with pytest.raises(RegardError, match="joint: the model to begin from has one vocabulary; give --joint"):
        run(toy, tmp_path / "third", start=tmp_path / "joint")


def test_one_embedding_for_two_vocabularies_is_refused(toy: Toy, tmp_path: Path) -> None:
    settings = replace(toy.settings, model="transformer", sizes={**SMALL, "shared": True}, joint=True)
    run(toy, tmp_path / "run", settings, report=Stopper(1))
    lines = toy.target.read_text().splitlines()
    checkpoint.save_vocabularies(
        tmp_path / "run", Vocabulary.load(tmp_path / "run" / "source.model"), Vocabulary.train(lines, 24)
    )
    with pytest.raises(RegardError, match=r"target\.model is not source\.model, config\.json wants one embedding"):
        checkpoint.load_model(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["shared"] is True
