"""`regard intuition` as a person meets it, from a checkout and from an installed package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import regard
from examples import EXPERIMENTS
from regard.cli.main import app

ROOT = Path(__file__).resolve().parents[2]


def run(*args: str) -> str:
    done = CliRunner().invoke(app, ["intuition", *args], env={"COLUMNS": "80", "TERM": "dumb"})
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def test_it_prints_every_experiment_with_its_numbers_in_80_columns() -> None:
    shown = run()
    assert "weight of each           0.467  0.283  0.172   0.077" in shown
    assert "what is read             0.547  0.376" in shown
    assert "sparsemax  0.750  0.250      0      0" in shown
    assert "share masked                     0      0      0      0" in shown
    assert "large: exp / sum           nan      0        0" in shown
    places = [shown.index(f"{name}.py") for name in EXPERIMENTS]
    assert places == sorted(places)
    long = [line for line in shown.splitlines() if len(line.rstrip()) > 80 and not line.rstrip().endswith(".py")]
    assert long == []


def test_it_runs_one_by_its_name_with_either_kind_of_dash() -> None:
    assert run("wrong_axis").count(".py") == 1
    assert run("wrong-axis") == run("wrong_axis")


def test_it_lists_them_in_80_columns() -> None:
    lines = run("--list").splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    assert max(map(len, lines)) <= 80
    assert list(json.loads(run("--list", "--json"))) == list(EXPERIMENTS)


def test_json_holds_the_same_numbers_and_null_for_what_is_none() -> None:
    found = json.loads(run("--json"))
    assert list(found) == list(EXPERIMENTS)
    assert found["four_line_read"]["numbers"]["weight of each"] == pytest.approx([0.467, 0.283, 0.172, 0.077], abs=5e-4)
    assert found["half_overflow"]["numbers"]["large: exp / sum"] == [None, 0.0, 0.0]
    assert "NaN" not in run("--json", "half_overflow")


def test_an_unknown_name_is_one_line_that_suggests_the_nearest() -> None:
    done = CliRunner().invoke(app, ["intuition", "saturaton"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("regard: error: experiment: unknown name 'saturaton'; did you mean 'saturation'?")
    assert done.stderr.count("\n") == 1


def test_it_says_when_the_installation_lacks_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("regard.cli.intuition.__file__", str(tmp_path / "a" / "regard" / "cli" / "intuition.py"))
    done = CliRunner().invoke(app, ["intuition", "--list"])
    assert done.exit_code == 2
    assert done.stderr.startswith("regard: error: the experiments are neither in")


def test_it_runs_from_an_installed_package_away_from_the_checkout(tmp_path: Path) -> None:
    """The package laid out as the wheel lays it out: see the force-include in pyproject.toml."""
    installed = tmp_path / "site" / "regard"
    shutil.copytree(
        Path(regard.__file__).parent, installed, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors")
    )
    shutil.copytree(ROOT / "examples", installed / "_examples")
    command = [sys.executable, "-m", "regard.cli", "intuition", "four-line-read"]
    environment = os.environ | {"PYTHONPATH": str(installed.parent)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "0.467  0.283  0.172   0.077" in done.stdout
    assert "site/regard/_examples/four_line_read.py" in done.stdout


def test_the_wheel_is_told_to_carry_them() -> None:
    assert '"examples" = "regard/_examples"' in (ROOT / "pyproject.toml").read_text("utf-8")
