"""What is on disk goes on where it stood, to the bit, or says why it does not."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.align import tensors
from regard.align.pairs import Pairs
from regard.align.recipe import RECIPES, Recipe, Sampling, Stage, recipe, restored
from regard.align.saved import FILE, Saved, save
from regard.align.train import State, begin, train
from regard.errors import RegardError
from tests.align.exhaustive import TRAINED, corpus, random_corpus
from tests.align.test_train import tables

TEXT = random_corpus(np.random.default_rng(3), 61, 7)
MIXED = Recipe((Stage("ibm1", 2), Stage("hmm", 2), Stage("ibm2", 2), Stage("diagonal", 2), Stage("hmm", 2, "mean")))


def kept(folder: Path, recipe: Recipe, upto: int | None = None) -> State:
    """Trained, and saved after every iteration; stops after ``upto`` as if killed."""
    pairs = Pairs.of(TEXT)

    class Killed(Exception):
        pass

    def each(_: object, state: State) -> None:
        save(folder, TEXT, state.channels, state.done, recipe, TEXT.digest())
        if state.done == upto:
            raise Killed

    state = begin(TEXT, pairs, recipe)
    try:
        return train(state, recipe, each=each)
    except Killed:
        return state


@pytest.mark.parametrize(
    "model",
    [TRAINED["agreement"], TRAINED["ibm2"], TRAINED["diagonal"], MIXED],
    ids=["agreement", "ibm2", "diagonal", "mixed"],
)
def test_stopped_anywhere_it_comes_to_the_same(tmp_path: Path, model: Recipe) -> None:
    whole = kept(tmp_path / "whole", model)
    pairs = Pairs.of(TEXT)
    total = sum(stage.iterations for stage in model.stages)
    for upto in range(1, total + 1):
        kept(tmp_path / "cut", model, upto)
        saved = Saved.of(tmp_path / "cut")
        assert saved.done == upto
        saved.match(model, TEXT.digest())
        state = train(saved.resumed(TEXT, pairs), model)
        for a, b in zip(tables(whole), tables(state), strict=True):
            assert a.tobytes() == b.tobytes()
        for one, other in zip(whole.channels, state.channels, strict=True):
            assert type(one.places) is type(other.places)
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == [FILE]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_iteration_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    kept(tmp_path, TRAINED["agreement"], 2)
    before = (tmp_path / FILE).read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(RegardError, match=r"--save: .*No space left on device; the file of before is untouched"):
            kept(tmp_path, TRAINED["agreement"])
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).read_bytes() == before
    assert Saved.of(tmp_path).done == 2


def test_another_text_or_recipe_is_refused(tmp_path: Path) -> None:
    kept(tmp_path, TRAINED["agreement"], 1)
    saved = Saved.of(tmp_path)
    with pytest.raises(
        RegardError,
        match=r"^--save: \S+ holds an aligner of another text, or of another --prior or --classes; name a new folder",
    ):
        saved.match(TRAINED["agreement"], random_corpus(np.random.default_rng(4), 61, 7).digest())
    for other in (TRAINED["hmm"], replace(TRAINED["agreement"], spelling=0.5), RECIPES["sample"]):
        with pytest.raises(
            RegardError, match=r"--save: \S+ was trained as \{.*\}, and this is \{.*\}; ask for the same"
        ):
            saved.match(other, TEXT.digest())


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_come_back(name: str) -> None:
    assert restored(recipe(name).to_dict()) == RECIPES[name]
    assert isinstance(recipe(name), Sampling if name == "sample" else Recipe)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hmm", "found 'hmm', wanted MODEL:ITERATIONS"),
        ("hmm:x", "found 'hmm:x', wanted"),
        ("hmm:0", "iterations: found 0 for hmm"),
        ("hmm:-1", "found 'hmm:-1', wanted"),
        ("hm:1", "unknown name 'hm'; did you mean 'hmm'"),
        ("hmm:1:prod", "agreement: unknown name 'prod'; did you mean 'product'"),
    ],
)
def test_a_stage_that_is_none(text: str, said: str) -> None:
    with pytest.raises(RegardError, match=said):
        Stage.of(text)


def test_stages_come_back_as_they_are_written() -> None:
    for text in ("ibm1:5", "hmm:12:product", "ibm2:1:geometric"):
        assert str(Stage.of(text)) == text


def test_damage_is_said_in_one_line(tmp_path: Path) -> None:
    kept(tmp_path, TRAINED["hmm"], 6)
    whole = (tmp_path / FILE).read_bytes()
    size = int.from_bytes(whole[:8], "little")
    head = whole[8 : 8 + size]
    broken: list[bytes] = [
        b"",
        b"\x00",
        whole[:7],
        whole[:100],
        whole[: 8 + size],
        whole[:-1],
        whole[: len(whole) // 2],
    ]
    broken += [(1 << 60).to_bytes(8, "little") + whole[8:], b"\xff" * 8 + whole[8:], b"GIF89a" * 99]
    broken += [len(text).to_bytes(8, "little") + text for text in (b"[1, 2]", b'"x"', b"17", b"null", b'{"a": 1}')]
    broken += [whole[:8] + head.replace(b"F32", b"F99") + whole[8 + size :]]
    broken += [whole[:8] + head.replace(b'"data_offsets"', b'"data_0ffsets"') + whole[8 + size :]]
    for data in broken:
        (tmp_path / FILE).write_bytes(data)
        with pytest.raises(
            RegardError, match=r"^--load: \S+ is no (model|aligner)[^\n]*; ?[^\n]*train it again with --save$"
        ):
            Saved.of(tmp_path)
    (tmp_path / FILE).write_bytes(whole)
    assert Saved.of(tmp_path).done == 6


def test_a_folder_without_an_aligner(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RegardError, match=r"--load: there is no aligner in \S+; make one with --save"):
            Saved.of(folder)


def test_any_reader_of_the_format_opens_it(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    state = kept(tmp_path, TRAINED["agreement"])
    found = load_file(tmp_path / FILE)
    assert (found["forward.table"] == state.channels[0].lexicon.table).all()
    assert (found["reverse.weights"] == state.channels[1].places.weights).all()  # type: ignore[attr-defined]
    assert found["source.words"].tobytes().split(b"\n") == TEXT.source.words


@pytest.mark.parametrize("kind", ["<f8", "<f4", "<i8", "<i4", "<i2", "|u1", "|b1"])
def test_arrays_of_every_kind_come_back(tmp_path: Path, kind: str) -> None:
    """Of odd sizes, none, one and three axes, and not in one piece."""
    rng = np.random.default_rng(1)
    whole: np.ndarray[Any, Any] = rng.integers(2, size=(5, 7, 3)).astype(kind)
    arrays = {"a": whole[::2, 1:], "odd": whole.ravel()[:13], "none": whole[:0], "b": whole.T}
    tensors.write(tmp_path / "x", arrays, {"é": "\n"}, "--save")
    found, about = tensors.read(tmp_path / "x", "--load")
    assert about == {"é": "\n"}
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert (found[name] == array).all()


def test_an_aligner_of_no_text_is_kept_too(tmp_path: Path) -> None:
    text = corpus()
    pairs, model = Pairs.of(text), TRAINED["agreement"]
    state = train(begin(text, pairs, model), model)
    save(tmp_path, text, state.channels, state.done, model, text.digest())
    saved = Saved.of(tmp_path)
    assert saved.words("source") == saved.words("target") == []
    assert train(saved.resumed(text, pairs), model).done == state.done
