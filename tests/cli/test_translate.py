"""`regard translate`: one line out for every line in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from regard.cli.main import app
from regard.translate import checkpoint
from regard.translate.models.recurrent.bahdanau import Model
from regard.translate.models.recurrent.config import Bahdanau
from regard.translate.text.vocabulary import Vocabulary

LINES = ["one two three", "two three", "three one two one"] * 20


def translate(text: str | bytes, *args: object) -> Result:
    return CliRunner().invoke(app, ["translate", "--threads", "1", *map(str, args)], input=text)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt nothing, but says something else for every sentence."""
    out = tmp_path_factory.mktemp("model")
    torch.manual_seed(2)
    vocabulary = Vocabulary.train(LINES, 14)
    config = Bahdanau(source_vocabulary=14, target_vocabulary=14, embedding=8, hidden=8, alignment=8, readout=8)
    made = Model(config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()
    checkpoint.save_config(out, config)
    checkpoint.save_vocabularies(out, vocabulary, vocabulary)
    checkpoint.save_model(out, made.state_dict())
    return out


def test_one_line_for_each_in_order(model: Path) -> None:
    alone = [translate(f"{line}\n", "--model", model).stdout_bytes for line in LINES[:3]]
    assert len(set(alone)) > 1
    found = translate("\n".join(["", *LINES[:3], "  ", LINES[0]]), "--model", model)
    assert found.exit_code == 0, found.stderr
    assert found.stdout_bytes == b"\n" + b"".join(alone) + b"\n" + alone[0]


def test_more_lines_than_a_batch(model: Path) -> None:
    found = translate("one\n" * 300, "--model", model, "--beam", 1)
    lines = found.stdout_bytes.decode().split("\n")
    assert len(lines) == 301
    assert set(lines[:-1]) == {lines[0]}


def test_nothing_in_nothing_out(model: Path) -> None:
    found = translate("", "--model", model)
    assert (found.exit_code, found.stdout_bytes) == (0, b"")


@pytest.mark.parametrize(
    ("args", "said"),
    [(["--beam", 0], "beam: found 0"), (["--threads", 0], "threads: found 0"), (["--to", "de"], "unknown name 'de'")],
)
def test_bad_options(args: list[object], said: str) -> None:
    found = translate("one\n", *args)
    assert found.exit_code == 2
    assert said in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_directory_that_lacks_a_file(tmp_path: Path) -> None:
    found = translate("one\n", "--model", tmp_path)
    assert found.exit_code == 2
    assert "lacks config.json" in found.stderr


def test_input_that_is_not_utf8(model: Path) -> None:
    found = translate(b"one\ncaf\xe9\n", "--model", model)
    assert found.exit_code == 2
    assert "not UTF-8 at byte 7 (0xe9)" in found.stderr


def test_a_reader_that_leaves_early_is_no_fault(model: Path) -> None:
    command = f"'{sys.executable}' -m regard.cli translate --threads 1 --model '{model}' --beam 1 | head -n 1"
    found = subprocess.run(["bash", "-c", command], input=b"one two\n" * 2000, capture_output=True, timeout=120)
    assert found.stdout.count(b"\n") == 1
    assert b"Traceback" not in found.stderr
