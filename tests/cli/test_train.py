"""`regard train`: options reach the run, errors are one line, and a run goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regard.cli.main import app
from regard.cli.sizes import _options

SIZES = {"source-pieces": 14, "target-pieces": 16, "embedding": 8, "hidden": 8, "alignment": 8, "readout": 8}
COURSE = {"epochs": 2, "batch-tokens": 300, "warmup": 2, "tokenize": "none", "threads": 1}
TOLD = [part for name, value in {**SIZES, **COURSE}.items() for part in (f"--{name}", value)]
SMALL = [*TOLD, "--events", "-", "--plot", "-"]


def regard(*args: object) -> Result:
    return CliRunner().invoke(app, [*map(str, args)])


@pytest.fixture
def text(tmp_path: Path) -> list[object]:
    (tmp_path / "a").write_text("one two three\ntwo three\nthree one two one\n" * 20)
    (tmp_path / "b").write_text("un deux trois\ndeux trois\ntrois un deux un\n" * 20)
    files = {"src": "a", "tgt": "b", "dev-src": "a", "dev-tgt": "b"}
    return [part for name, file in files.items() for part in (f"--{name}", tmp_path / file)]


def test_it_trains_says_where_it_is_and_goes_on(text: list[object], tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "regard.cli", "train", *text, "--out", out, *SMALL, "--minutes", 0]
    first = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120)
    assert first.returncode == 0, first.stderr
    assert "time is up: saved at update 1" in first.stderr
    assert "\x1b" not in first.stderr  # no terminal, no colours
    second = regard("train", *text, "--out", out, *TOLD)
    assert second.exit_code == 0, second.stderr
    assert "goes on at update 1" in second.stderr
    assert "epoch 2/2" in second.stderr
    assert second.stdout.startswith(f"{out}: ")
    names = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    model = {"config.json", "model.safetensors", "source.model", "target.model"}
    assert names - {"events"} == {
        *model,
        "run.json",
        "state.pt",
        "history.json",
        "entropy.svg",
    }  # events: where TensorBoard is
    epochs = json.loads((out / "history.json").read_text())["epochs"]
    assert [line["epoch"] for line in epochs] == [1, 2]
    assert set(epochs[0]) == {
        "epoch",
        "updates",
        "loss",
        "dev_loss",
        "bleu",
        "entropy",
        "pieces",
        "learning",
        "seconds",
    }
    other = regard("train", *text, "--out", out, *SMALL, "--hidden", 9)
    assert other.exit_code == 2
    assert "hidden: the run in" in other.stderr
    assert other.stderr.count("\n") == 1


def test_bad_input_is_one_line(text: list[object], tmp_path: Path) -> None:
    (tmp_path / "b").write_text("un\n")
    found = regard("train", *text, "--out", tmp_path / "run", *SMALL)
    assert found.exit_code == 2
    assert found.stderr.count("\n") == 1
    assert "ends after line 1" in found.stderr
    assert "Traceback" not in found.stderr
    assert "Traceback" in regard("train", *text, "--out", tmp_path / "run", *SMALL, "--debug").stderr


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("optimiser", "adma", "optimiser: unknown name 'adma'; did you mean 'adam'"),
        ("schedule", "step", "schedule: unknown name 'step'"),
        ("momentum", 0.9, "momentum: adam has no such number; it has beta1, beta2, eps"),
        ("accumulate", 0, "accumulate: found 0, wanted a whole number of at least 1"),
        ("stop-on", "ter", "stop_on: found ter, wanted bleu or loss"),
        ("device", "gpu", "device: unknown name 'gpu'"),
        ("rate", "nan", "rate: found nan, wanted a number above 0"),
        ("plot", "entropy.gif", "plot: found entropy.gif, wanted a name that ends in .svg, .png, .pdf"),
    ],
)
def test_a_value_that_cannot_be_is_named(
    text: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: object, said: str
) -> None:
    """In this process: the numbers are refused before anything is read."""
    with pytest.raises(SystemExit) as stopped:
        app(["train", *map(str, text), "--out", str(tmp_path / "run"), f"--{option}", str(value)])
    assert stopped.value.code == 2
    found = capsys.readouterr().err
    assert said in found
    assert found.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_help_names_what_can_be_chosen() -> None:
    (score,) = (each for each in _options() if each.name == "score")
    (said,) = (each.help for each in score.annotation.__metadata__)
    assert "bahdanau additive (or general)" in said
    assert "luong general (or dot, concat)" in said


def test_help_has_an_example() -> None:
    found = regard("train", "--help")
    assert found.exit_code == 0
    assert "--dev-src dev.en" in found.stdout


def test_a_first_try_that_failed_leaves_the_directory_free(text: list[object], tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = regard("train", *text, "--out", out, *SMALL, "--source-pieces", 4000)
    assert first.exit_code == 2
    assert "source_pieces: 4000 pieces cannot be learnt: this text gives at most" in first.stderr
    assert regard("train", *text, "--out", out, *SMALL).exit_code == 0
