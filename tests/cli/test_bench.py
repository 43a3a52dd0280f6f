"""`regard bench`, on benchmarks made for the purpose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.timing import Comparison, interleaved
from regard.cli.main import app

RUN = """
from benchmarks.timing import interleaved
TITLE = "{title}"
def run(console):
    sums = [lambda: sum(range(2000)), lambda: sum(range(1000))]
    comparison = interleaved(*sums, rounds=3, names=("long", "short"))
    console.print(comparison)
    return comparison.to_dict()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two benchmarks and the helper, in a folder of another name."""
    place = tmp_path / "measures"
    place.mkdir()
    helper = Path(__file__).resolve().parents[2] / "benchmarks" / "timing.py"
    (place / "timing.py").write_text(helper.read_text("utf-8"), "utf-8")
    for name, title in (("sums", "a long sum beside a short one"), ("more", "the same again")):
        (place / f"{name}.py").write_text(RUN.format(title=title), "utf-8")
    (place / "_draft.py").write_text("raise SystemError", "utf-8")
    return place


def test_list_names_each_with_its_title(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "--list", "--from", str(folder)])
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "more  the same again\nsums  a long sum beside a short one\n"


def test_it_prints_a_ratio_with_its_spread_and_threads(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "sums", "--from", str(folder)])
    assert done.exit_code == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert words.startswith("sums: a long sum beside a short one long ")
    assert "× the time of short (" in words
    assert "threads on" in words
    assert "more:" not in words


def test_json_is_alone_on_standard_output(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "--json", "--from", str(folder)])
    assert done.exit_code == 0, done.stderr
    results = json.loads(done.stdout)
    assert sorted(results) == ["more", "sums"]
    facts = results["sums"]
    assert facts["low"] <= facts["ratio"] <= facts["high"]
    assert facts["rounds"] == 3
    assert "the time of short" in done.stderr


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


@pytest.mark.parametrize(("text", "wanted"), [("x = 1", "TITLE"), ("TITLE = 'x'", "run(console)")])
def test_a_file_that_is_no_benchmark_says_what_it_lacks(text: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(text, "utf-8")
    done = CliRunner().invoke(app, ["bench", "--from", str(tmp_path)])
    assert done.exit_code == 2
    assert "bad.py" in done.stderr
    assert wanted in done.stderr


def test_interleaved_calls_in_turn_and_leaves_the_warm_up_out() -> None:
    calls: list[str] = []
    comparison = interleaved(lambda: calls.append("a"), lambda: calls.append("b"), rounds=3, warmup=1)
    assert calls == ["a", "b"] * 4
    assert comparison.low <= comparison.ratio <= comparison.high
    assert comparison.rounds == 3


def test_interleaved_needs_a_round() -> None:
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        interleaved(lambda: None, lambda: None, rounds=0)


def test_a_comparison_reads_as_a_sentence() -> None:
    text = str(Comparison("regard", "torch", 0.03, 0.02, 1.5, 1.4, 1.7, rounds=9, threads=1, cores=2))
    assert text.startswith("regard 1.50× the time of torch (1.40-1.70 over 9 rounds")
