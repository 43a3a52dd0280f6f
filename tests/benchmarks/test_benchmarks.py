"""Each benchmark at tiny shapes, without processes of its own and without compiling: its rows and their goals."""

from __future__ import annotations

import gc
import importlib
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from torch import Tensor

from benchmarks import additive, entmax, first_use, length, window
from benchmarks.harness import memory, timing
from benchmarks.harness.aligners import contest, process
from benchmarks.harness.aligners import peers as aligners
from benchmarks.harness.aligners.score import WAYS
from benchmarks.harness.row import Point, Row
from benchmarks.harness.setting import Setting
from regard.align.gold import Score

SMALL = Setting(engine="reference", rounds=1, quick=True)
NAMES = sorted(path.stem for path in Path(window.__file__).parent.glob("[!_]*.py"))
GOALS = {
    "absent": Counter({"≥ 10": 1, "≥ 5": 1, "≥ 0.08": 1, "≥ 99.8": 1, "≥ 99": 1, "≤ 55": 1}),
    "align": Counter({"≤ 13.5": 1, "≤ 9": 1, "≤ 7": 1, "≤ 0": 4, "≤ 1": 7, "≤ 0.5": 8, "≥ 20": 2, "≥ 3": 2}),
    "align_best": Counter(),
    "align_length": Counter({"≤ 1.1": 1, "≤ 2,048": 1}),
    "additive": Counter({"≥ 25": 2, "≥ 12": 2, "≤ 200": 2}),
    "decode": Counter({"≤ 1": 1, "≤ 1.5": 1}),
    "entmax": Counter({"≥ 50": 1, "≥ 40": 1, "≥ 10": 1, "≤ 1.1": 1}),
    "first_use": Counter({"≤ 20": 1, "≤ 0": 1, "≤ 1": 4}),
    "handwriting": Counter({"≥ 0.95": 1, "≤ 0.2": 1, "≤ 0.25": 1, "≥ 0.2": 1, "≤ 0.001": 1}),
    "heads": Counter(),
    "joeynmt": Counter({"≥ 1.5": 1, "≥ 3": 1}),
    "memory": Counter(),
    "linear": Counter({"≥ 10": 2, "≤ 0.0001": 2, "≤ 1.2": 6}),
    "length": Counter({"≤ 500": 1, "≤ 1.1": 2}),
    "soft_alignment": Counter(),
    "scan": Counter({"≥ 5": 2, "≤ 1e-05": 1}),
    "softmax": Counter({"≤ 1.1": 4, "≤ 1.3": 4}),
    "streaming": Counter({"≤ 1.1": 1}),
    "telemetry": Counter({"≥ 8": 6, "≥ 50": 6, "≤ 3": 1, "≤ 100": 1}),
    "transduction": Counter(
        {"≥ 0.2": 1, "≥ 0.25": 1, "≥ 0.95": 1, "≥ 0.04": 1, "≥ 0.99": 3, "≥ 0.9": 1, "≤ 0.12": 1, "≤ 0.35": 1}
    ),
    "translate": Counter(),
    "tiles": Counter({"≤ 1.5": 36, "≤ 25": 9}),
    "watch": Counter({"≤ 1.3": 1, "≤ 3": 1, "≤ 300": 2, "≥ 16": 1}),
    "window": Counter({"≥ 25": 1, "≤ 1": 1, "≥ 20": 1}),
}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No child processes, no compiler, lengths that take no time, and aligners that all do the same."""

    def child(setting: Setting, function: Callable[..., object], *arguments: object, env: object = None) -> object:
        return 1.0 if function.__module__ == memory.__name__ else function(setting, *arguments)

    def uncompiled(q: Tensor, k: Tensor, v: Tensor, left: int) -> Callable[[], object]:
        raise RuntimeError("no compiler")

    for module in (memory, first_use):
        monkeypatch.setattr(module, "fresh", child)
    monkeypatch.setattr(window, "flex_window", uncompiled)
    monkeypatch.setattr(process, "run", lambda steps, folder: process.Used(1.0 + len(steps), 1.0, 1.0))
    monkeypatch.setattr(contest, "scores", lambda *_: dict.fromkeys(WAYS, Score(0.1, 0.9, 0.9, 0.9, 1, 1, 1, 1)))
    for function in ("program", "package"):
        monkeypatch.setattr(aligners, function, lambda name, how: name)
    monkeypatch.setattr(timing, "MOST", 1)
    monkeypatch.setattr(gc, "collect", lambda: 0)  # slow among the objects of other tests


def measured(module: ModuleType, setting: Setting = SMALL) -> list[Row]:
    return [each for each in module.rows(setting) if isinstance(each, Row)]


def test_every_benchmark_is_tested() -> None:
    assert sorted(GOALS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_has_its_goals_and_no_peer_disagrees(name: str) -> None:
    for package in ("entmax", "local_attention", "mambapy", "x_transformers"):
        pytest.importorskip(package)
    rows = measured(importlib.import_module(f"benchmarks.{name}"))
    assert Counter(str(row.goal) for row in rows if row.goal) == GOALS[name]
    expected = (
        "compiled flex failed: RuntimeError: no compiler",
        "nothing was cached: engine 'reference' compiled",
        "--corpus names what to train on",
        *(f"{peer}: not installed" for peer in ("fla", "joeynmt", "mambapy", "performer-pytorch")),
    )
    assert [row.problem for row in rows if row.problem and not row.problem.startswith(expected)] == []
    assert not any(row.met for row in rows)  # quick shapes judge nothing


def test_an_engine_that_refuses_is_a_row_not_a_crash() -> None:
    row = next(additive.rows(Setting(engine="sdpa", rounds=1, quick=True)))
    assert row.problem.startswith('regard failed: RegardError: engine "sdpa" cannot run this')
    assert row.theirs is not None


def test_without_the_package_ours_is_still_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "entmax", None)
    row = next(row for row in entmax.rows(SMALL) if isinstance(row, Row))
    assert row.peer == "entmax.entmax15"
    assert row.problem == "entmax: not installed; pip install 'regard[bench]'"
    assert row.ours is not None
    assert (row.value, row.theirs) == (None, None)


def test_length_gives_points_for_the_plot() -> None:
    points = [each for each in length.rows(SMALL) if isinstance(each, Point)]
    assert {(p.work, p.series) for p in points} >= {("window(256, 256)", "regard"), ("causal, telemetry on", "SDPA")}
    assert all(p.seconds is not None and p.mib == 1.0 for p in points)
