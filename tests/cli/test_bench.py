"""`regard bench`, on benchmarks made for the purpose."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli.main import app

HARNESS = Path(__file__).resolve().parents[2] / "benchmarks" / "harness"
SUMS = """
from benchmarks.harness.row import Point, at_most
from benchmarks.harness.timing import Contender, race
TITLE = "a long sum beside a short one"
def rows(setting):
    sums = [Contender(name, lambda n=n: lambda: sum(range(n))) for name, n in (("long", 2000), ("short", 1000))]
    yield race(setting, sums).row("short", "sums", goal=at_most(3))
    yield Point("sums", "long", 2000, seconds=2.0)
    yield Point("sums", "long", 4000, seconds=4.0)
"""
BROKEN = """
from benchmarks.harness.row import Row
TITLE = "one row, then a fault"
def rows(setting):
    yield Row("before", "", "s", 1.0)
    raise {error}
"""
LEARNS = """
from benchmarks.harness.row import Line, Row
from regard.errors import RegardError
TITLE = "what is learnt"
def rows(setting):
    yield Row("all memories", "", "s", 1.0)
def learn(task, memory=None, seeds="0,1,2", steps=None, logs=None):
    if task != "copy":
        raise RegardError(f"--task: {task}")
    def rows(setting, say):
        say(f"{memory} learns {task}")
        yield Line("learnt", {"seeds": seeds}, {"steps": steps, "logs": str(logs)})
    return rows
def tasks():
    return {"copy": "ntm, lstm"}
"""
SMALL = ["--quick", "--engine", "auto", "--rounds", "2"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Two benchmarks and the harness, in a folder of another name; what was imported before comes back after."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "benchmarks"}
    place = tmp_path / "measures"
    shutil.copytree(HARNESS, place / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "sums.py").write_text(SUMS, "utf-8")
    (place / "broken.py").write_text(BROKEN.format(error="ValueError('no more')"), "utf-8")
    (place / "_draft.py").write_text("raise SystemError", "utf-8")
    yield place
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]
    sys.modules.update(before)


def test_list_names_each_with_its_title(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "--list", "--from", str(folder)])
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "broken  one row, then a fault\nsums    a long sum beside a short one\n"


def test_list_as_json(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "sums", "--list", "--json", "--from", str(folder)])
    assert json.loads(done.stdout) == {"sums": "a long sum beside a short one"}


def test_it_prints_the_machine_then_ratios_with_their_spread(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "sums", *SMALL, "--from", str(folder)])
    assert done.exit_code == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "matrix product" in words.partition("found")[0]
    assert "× its time sums" in words
    assert "≤ 3" in words


def test_quick_is_said_above_and_below_and_judges_nothing(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "sums", *SMALL, "--from", str(folder)])
    assert done.stdout.count("QUICK: small shapes") == 2
    assert "not judged" in done.stdout
    assert "goals met" not in done.stdout


def test_json_is_alone_on_standard_output(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "sums", "--json", *SMALL, "--from", str(folder)])
    assert done.exit_code == 0, done.stderr
    results = json.loads(done.stdout)
    (row,) = results["rows"]
    assert row["low"] <= row["value"] <= row["high"]
    assert (row["benchmark"], row["rounds"], row["goal"], row["met"]) == ("sums", 2, "≤ 3", None)
    assert [point["length"] for point in results["points"]] == [2000, 4000]
    assert results["quick"] is True
    assert results["machine"]["cores"] >= 1
    assert "× its time" in done.stderr


def test_a_benchmark_that_fails_says_why_and_the_rest_goes_on(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "--json", *SMALL, "--from", str(folder)])
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["benchmark"] for row in rows] == ["broken", "broken", "sums"]
    assert rows[1]["problem"] == "broken failed: ValueError: no more"


def test_an_interrupted_run_prints_what_it_has(folder: Path) -> None:
    (folder / "broken.py").write_text(BROKEN.format(error="KeyboardInterrupt"), "utf-8")
    done = CliRunner().invoke(app, ["bench", "--json", *SMALL, "--from", str(folder)])
    assert done.exit_code == 130
    results = json.loads(done.stdout)
    assert results["interrupted"] is True
    assert [row["work"] for row in results["rows"]] == ["before"]
    assert "interrupted" in done.stderr


@pytest.fixture
def learner(folder: Path) -> Path:
    (folder / "memory.py").write_text(LEARNS, "utf-8")
    return folder


def test_a_task_is_learnt_and_how_far_it_is_goes_to_standard_error(learner: Path) -> None:
    arguments = ["bench", "memory", "--json", *SMALL, "--from", str(learner)]
    done = CliRunner().invoke(app, [*arguments, "--task", "copy", "--memory", "ntm", "--steps", "3", "--logs", "there"])
    assert done.exit_code == 0, done.stderr
    (line,) = json.loads(done.stdout)["lines"]
    assert (line["cells"], line["found"]) == ({"seeds": "0,1,2"}, {"steps": 3, "logs": "there"})
    assert "ntm learns copy" in done.stderr
    plain = CliRunner().invoke(app, arguments)
    assert [row["work"] for row in json.loads(plain.stdout)["rows"]] == ["all memories"]


def test_where_everything_can_be_learnt_no_task_is_needed(folder: Path) -> None:
    (folder / "transduction.py").write_text(LEARNS.replace("task, memory", 'task="copy", memory'), "utf-8")
    done = CliRunner().invoke(
        app, ["bench", "transduction", "--json", *SMALL, "--from", str(folder), "--logs", "there", "--seeds", "5"]
    )
    assert done.exit_code == 0, done.stderr
    (line,) = json.loads(done.stdout)["lines"]
    assert (line["cells"], line["found"]) == ({"seeds": "5"}, {"steps": None, "logs": "there"})


def test_tasks_are_listed_by_the_benchmark_that_trains(learner: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "memory", "--list", "--from", str(learner)])
    assert done.stdout == "memory              what is learnt\nmemory --task copy  ntm, lstm\n"
    everything = CliRunner().invoke(app, ["bench", "--list", "--from", str(learner)]).stdout
    assert "--task" not in everything


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["sums", "--task", "copy"], "--task: found it with sums, only 'memory' or 'transduction' takes it"),
        (["--seeds", "0"], "--seeds: found it with all benchmarks"),
        (["memory", "--steps", "3"], "--steps: it needs --task"),
        (
            ["memory", "--task", "copy", "--corpus", "x"],
            "--corpus: found it with memory, only 'joeynmt' or 'translate'",
        ),
        (["translate", "--epochs", "3"], "--epochs: it needs --corpus"),
        (["memory", "--task", "cop"], "--task: cop"),
        (["memory", "--task", "copy", "--device", "cuda"], "cuda"),
    ],
)
def test_options_of_learning_are_refused_where_nothing_is_learnt(
    learner: Path, arguments: list[str], wanted: str
) -> None:
    done = CliRunner().invoke(app, ["bench", *arguments, "--from", str(learner)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert wanted in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_plot_draws_what_was_measured_against_length(folder: Path, tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"length.{ending}"
    done = CliRunner().invoke(app, ["bench", "sums", *SMALL, "--plot", str(picture), "--from", str(folder)])
    assert done.exit_code == 0, done.stderr
    assert picture.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")
    assert f"wrote {picture}" in done.stderr


def test_nothing_to_plot_is_said(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "length.svg"
    done = CliRunner().invoke(app, ["bench", "broken", *SMALL, "--plot", str(picture), "--from", str(folder)])
    assert done.exit_code == 0
    assert not picture.exists()
    assert "nothing was measured against length" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--device", "gpu"], "device: unknown name 'gpu'; did you mean 'cpu'?"),
        (["--dtype", "float64"], "dtype: unknown name 'float64'"),
        (["--engine", "refrence"], "did you mean 'reference'?"),
        (["--plot", "length.jpg"], ".svg"),
        (["--plot", "nowhere/length.svg"], "there is no folder"),
        (["--rounds", "0"], "rounds"),
    ],
)
def test_a_wrong_option_is_one_line(folder: Path, arguments: list[str], wanted: str) -> None:
    done = CliRunner().invoke(app, ["bench", *arguments, "--from", str(folder)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert wanted in done.stderr
    assert done.stderr.count("\n") == 1


def test_cuda_where_there_is_none_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    done = CliRunner().invoke(app, ["bench", "--device", "cuda", "--from", str(folder)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no CUDA device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_folder_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert str(tmp_path / "benchmarks") in done.stderr
    assert "--from DIR" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "--from", str(tmp_path)])
    assert done.exit_code == 2
    assert "holds no benchmark" in done.stderr


def test_an_unknown_name_suggests_the_nearest(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "sum", "--from", str(folder)])
    assert done.exit_code == 2
    assert "did you mean 'sums'?" in done.stderr


@pytest.mark.parametrize(("text", "wanted"), [("x = 1", "TITLE"), ("TITLE = 'x'", "rows(setting)")])
def test_a_file_that_is_no_benchmark_says_what_it_lacks(folder: Path, text: str, wanted: str) -> None:
    (folder / "bad.py").write_text(text, "utf-8")
    done = CliRunner().invoke(app, ["bench", "--from", str(folder)])
    assert done.exit_code == 2
    assert "bad.py" in done.stderr
    assert wanted in done.stderr


def test_help_shows_examples() -> None:
    done = CliRunner().invoke(app, ["bench", "--help"])
    assert done.exit_code == 0
    for words in ("regard bench window", "--plot length.svg", "regard[bench]"):
        assert words in done.stdout
