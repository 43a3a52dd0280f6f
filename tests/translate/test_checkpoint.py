"""A model directory: written whole or not at all, and read with a reason when it cannot be."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.errors import RegardError
from regard.translate import checkpoint
from regard.translate.models.recurrent.bahdanau import Model
from regard.translate.models.recurrent.config import Bahdanau
from regard.translate.text.vocabulary import Vocabulary


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    vocabulary = Vocabulary.train(["the cat sat on the mat", "a dog ran"] * 5, 18)
    config = Bahdanau(source_vocabulary=18, target_vocabulary=18, embedding=6, hidden=5, alignment=4, readout=3)
    out = tmp_path / "model"
    out.mkdir()
    checkpoint.save_config(out, config)
    checkpoint.save_vocabularies(out, vocabulary, vocabulary)
    checkpoint.save_model(out, Model(config).state_dict())
    return out


def test_what_is_written_is_read(directory: Path) -> None:
    model, source, target = checkpoint.load_model(directory)
    assert not model.training
    assert len(source) == len(target) == 18


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "source.model", "target.model"])
def test_a_missing_file_is_named(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(RegardError, match=f"lacks {name}; copy it"):
        checkpoint.load_model(directory)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="is no directory; give one that regard train"):
        checkpoint.load_model(tmp_path / "nowhere")


def test_damaged_files_are_said(directory: Path) -> None:
    whole = (directory / "model.safetensors").read_bytes()
    (directory / "model.safetensors").write_bytes(whole[:-7])
    with pytest.raises(RegardError, match="damaged"):
        checkpoint.load_model(directory)
    (directory / "config.json").write_text("{")
    with pytest.raises(RegardError, match=r"config\.json is not JSON"):
        checkpoint.load_model(directory)
    (directory / "config.json").write_text("[1]")
    with pytest.raises(RegardError, match="holds no JSON object"):
        checkpoint.load_model(directory)
    (directory / "state.pt").write_bytes(b"nothing")
    with pytest.raises(RegardError, match=r"state\.pt cannot be read"):
        checkpoint.load_state(directory)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden": 6}, r"has \(15, 5\) for .*wants \(18, 6\)|config.json wants"),
        ({"source_vocabulary": 21}, "source.model has 18 pieces, config.json wants 21"),
        ({"depth": 2}, "wanted .*source_vocabulary"),
    ],
)
def test_files_that_do_not_belong_together(directory: Path, change: dict[str, int], said: str) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(RegardError, match=said):
        checkpoint.load_model(directory)


def test_export_halves_the_bytes_and_keeps_the_words(directory: Path, tmp_path: Path) -> None:
    checkpoint.export(directory, tmp_path / "out")
    big, small = ((d / "model.safetensors").stat().st_size for d in (directory, tmp_path / "out"))
    assert small < 0.75 * big
    before, after = checkpoint.load_model(directory)[0], checkpoint.load_model(tmp_path / "out")[0]
    for (name, a), b in zip(before.state_dict().items(), after.state_dict().values(), strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.98])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "source.model", "target.model", "state.pt"])
def test_a_cut_file_is_named(directory: Path, name: str, share: float) -> None:
    checkpoint.save_state(directory, {"model": {"w": torch.arange(97)}})
    whole = (directory / name).read_bytes()
    (directory / name).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(RegardError, match=name.replace(".", r"\.")) as found:
        (checkpoint.load_state if name == "state.pt" else checkpoint.load_model)(directory)
    assert "\n" not in str(found.value)


def test_another_version_is_named(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "format": 97}))
    with pytest.raises(RegardError, match=r"model: .*config\.json is of format 97, this version of regard has 1"):
        checkpoint.load_model(directory)
    del config["format"]
    (directory / "config.json").write_text(json.dumps(config))
    assert len(checkpoint.load_model(directory)[1]) == 18  # from before there were formats
    checkpoint.save_state(directory, {"format": 97})
    with pytest.raises(RegardError, match=r"out: .*state\.pt is of format 97"):
        checkpoint.load_state(directory)
    torch.save([1], directory / "state.pt")
    with pytest.raises(RegardError, match=r"out: .*state\.pt is of format 0"):
        checkpoint.load_state(directory)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_what_was_there(directory: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    checkpoint.save_state(directory, {"at": 1})
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    model = checkpoint.load_model(directory)[0]
    monkeypatch.setattr(os, call, full)
    saves: list[Callable[[], None]] = [
        lambda: checkpoint.save_state(directory, {"at": 2}),
        lambda: checkpoint.save_model(directory, {name: w + 1 for name, w in model.state_dict().items()}),
        lambda: checkpoint.write_json(directory / "config.json", {}),
    ]
    for save in saves:
        with pytest.raises(RegardError, match=r"No space left on device; the file of before is untouched: make room"):
            save()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_state_comes_back_as_it_was(tmp_path: Path) -> None:
    assert checkpoint.load_state(tmp_path) is None
    checkpoint.save_state(tmp_path, {"model": {"w": torch.arange(3)}, "at": {"epoch": 2, "best": None, "list": [1.5]}})
    state = checkpoint.load_state(tmp_path)
    assert state is not None
    assert state["at"] == {"epoch": 2, "best": None, "list": [1.5]}
    assert state["model"]["w"].tolist() == [0, 1, 2]
