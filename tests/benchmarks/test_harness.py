"""The harness: what a row says, how a race is run, what a call weighs, and how it is all printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from benchmarks.entmax import softmax_alone
from benchmarks.harness import memory, peers
from benchmarks.harness.child import fresh
from benchmarks.harness.curve import Series, curve, exponent
from benchmarks.harness.machine import Machine
from benchmarks.harness.memory import extra_mib, memory_row
from benchmarks.harness.peers import Missing, band, flex_window, forward_backward, local_window, sdpa, x_attend
from benchmarks.harness.plot import draw
from benchmarks.harness.report import Report
from benchmarks.harness.row import Cost, Point, Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race
from benchmarks.telemetry import eager_statistic

SMALL = Setting(engine="auto", rounds=2, quick=True)
FULL = Setting(engine="auto", rounds=2)
MACHINE = Machine("cpu", "A processor", 2, 2, "2.13.0", {"float32": 1.9e11}, 3.3e10)


def fill(setting: Setting, mib: int) -> Callable[[], object]:
    """What `extra_mib` weighs: a call that fills so much memory."""
    return lambda: torch.ones(mib * 2**18)


def fail(setting: Setting, length: int) -> Callable[[], object]:
    raise ValueError("it cannot\nbe done")


def constant(value: float) -> Contender:
    return Contender(f"{value:g}", lambda: lambda: torch.full((3,), value))


@pytest.mark.parametrize(
    ("row", "met", "verdict"),
    [
        (Row("w", "p", "× faster", 30.0, goal=at_least(25)), True, "met"),
        (Row("w", "p", "× faster", 20.0, goal=at_least(25)), False, "NOT met: 20 % short"),
        (Row("w", "p", "× its time", 1.1, goal=at_most(1.1)), True, "met"),
        (Row("w", "p", "× its time", 2.2, goal=at_most(1.1)), False, "NOT met: 1e+02 % over"),
        (Row("w", "", "kernels", 2.0, goal=at_most(0)), False, "NOT met: 2e+02 % over"),
        (Row("w", "p", "× faster", 30.0, goal=at_least(25), judged=False), None, "not judged"),
        (Row("w", "p", "× faster", 30.0, goal=at_least(25), problem="no"), None, "not measured"),
        (Row("w", "p", "× faster", goal=at_least(25)), None, "not measured"),
        (Row("w", "p", "× faster", 30.0), None, ""),
    ],
)
def test_a_row_says_whether_its_goal_is_met_and_by_how_much_not(row: Row, met: bool | None, verdict: str) -> None:
    assert (row.met, row.verdict) == (met, verdict)
    assert row.to_dict()["met"] is met


@pytest.mark.parametrize(
    ("setting", "judged"),
    [(FULL, True), (SMALL, False), (Setting(device="cuda"), False), (Setting(dtype="bfloat16"), False)],
)
def test_goals_are_judged_in_float32_on_a_cpu_at_full_shapes(setting: Setting, judged: bool) -> None:
    assert setting.judged is judged


def test_a_race_calls_in_turn_and_leaves_the_warm_up_out() -> None:
    calls: list[str] = []

    def contender(name: str) -> Contender:
        def call() -> None:
            calls.append(name)
            time.sleep(0.02)  # long enough to be called once a round

        return Contender(name, lambda: call)

    found = race(FULL, [contender("a"), contender("b")], rounds=3, warmup=1)
    assert calls == ["a", "b"] * 5
    row = found.row("b", "work", goal=at_least(1), cost=Cost(flops=1e6))
    assert row.low is not None
    assert row.high is not None
    assert row.value is not None
    assert row.low <= row.value <= row.high
    assert (row.rounds, row.unit) == (3, "× faster")
    assert found.row("b", "work").unit == "× its time"


@pytest.mark.parametrize(("takes", "repeats"), [(1e-6, 50), (1e-3, 10), (0.02, 1)])
def test_a_short_call_is_repeated_to_be_timed(takes: float, repeats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []  # the clock stands still between them
    monkeypatch.setattr("benchmarks.harness.timing.time", SimpleNamespace(perf_counter=lambda: sum(calls)))
    race(FULL, [Contender("short", lambda: lambda: calls.append(takes))], rounds=1, warmup=1)
    assert len(calls) == 1 + 1 + repeats


def test_one_that_fails_says_why_and_the_others_go_on() -> None:
    tries = iter(range(2))

    def later() -> object:
        return 1 if next(tries, None) is not None else 1 / 0

    contenders = [
        constant(1),
        Contender("never", partial(fail, FULL, 3)),
        Contender("once", lambda: later),
        constant(1.0),
    ]
    found = race(FULL, contenders[:3])
    assert found.row("never", "w").problem == "never failed: ValueError: it cannot be done"
    assert found.row("once", "w").problem == "once failed: ZeroDivisionError: division by zero"
    assert found.row("never", "w").value is None
    assert found.row("never", "w").ours is not None


def test_a_peer_that_computes_something_else_does_not_count() -> None:
    row = race(FULL, [constant(1), constant(2)]).row("2", "w", goal=at_least(0))
    assert row.problem == "the results differ by 1 of the largest number"
    assert row.met is None
    assert not race(FULL, [constant(1), constant(1.0001)]).row("1.0001", "w").problem


def test_another_shape_is_another_result() -> None:
    other = Contender("other", lambda: lambda: torch.ones(4))
    assert "inf" in race(FULL, [constant(1), other]).row("other", "w").problem


@pytest.mark.parametrize(
    ("module", "call", "words"),
    [
        ("entmax", lambda: peers.entmax("entmax15"), "entmax: not installed; pip install 'regard[bench]'"),
        ("local_attention", lambda: local_window(*SMALL.qkv(1, 1, 7, 4), 2, 0), "local-attention: not installed"),
        ("x_transformers", lambda: x_attend(*SMALL.qkv(1, 1, 7, 4), causal=True), "x-transformers: not installed"),
    ],
)
def test_a_missing_peer_is_said(
    module: str, call: Callable[[], object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Missing, match=r"regard\[bench\]"):
        call()

    def make() -> Callable[[], object]:
        call()
        raise AssertionError

    row = race(SMALL, [constant(1), Contender("peer", make)]).row("peer", "w")
    assert row.problem.startswith(words)


@pytest.mark.parametrize(("left", "right"), [(3, 0), (3, 3)])
def test_local_attention_sees_the_same_window(left: int, right: int) -> None:
    pytest.importorskip("local_attention")
    q, k, v = SMALL.qkv(1, 2, 18, 5)
    ours = sdpa(q, k, v, mask=band(18, left, right, "cpu"))()
    torch.testing.assert_close(local_window(q, k, v, left, right)(), ours)


def test_x_transformers_reads_the_same() -> None:
    pytest.importorskip("x_transformers")
    q, k, v = SMALL.qkv(1, 2, 17, 5)
    torch.testing.assert_close(x_attend(q, k, v, causal=True)(), sdpa(q, k, v, causal=True)())


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_sees_the_same_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # compiling takes longer than these tests
    q, k, v = SMALL.qkv(1, 2, 17, 16)
    found = flex_window(q, k, v, 3)()
    torch.testing.assert_close(found, sdpa(q, k, v, mask=band(17, 3, 0, "cpu"))())


def test_forward_backward_gives_what_it_was_asked_for() -> None:
    x = torch.ones(2)
    assert isinstance(forward_backward(lambda: x * 3, [x])(), torch.Tensor)
    x.requires_grad_()
    torch.testing.assert_close(forward_backward(lambda: x * 3, [x])(), (torch.full((2,), 3.0),))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured where Linux keeps it")
def test_extra_memory_is_what_the_call_fills() -> None:
    assert 15 < extra_mib(SMALL, softmax_alone, [64], [2048]) < 18


def test_a_child_that_fails_says_its_last_line() -> None:
    with pytest.raises(RuntimeError, match="in a process of its own: KeyError"):
        fresh(SMALL, eager_statistic, 7, "entropie", False)


def weighed(setting: Setting, function: object, *arguments: object) -> float:
    """Stands in for the child: the last argument is [MiB]."""
    if arguments[1] == "fail":
        raise RuntimeError("in a process of its own: no")
    full = arguments[-1]
    assert isinstance(full, list)
    return float(full[0])


def test_a_memory_row_beside_a_peer_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "fresh", weighed)
    row = memory_row(FULL, "w", fill, [1], [4], goal=at_least(50), peer=("eager", fill, [240]))
    assert (row.value, row.unit, row.ours, row.theirs, row.met) == (60, "× less memory", 4, 240, True)
    row = memory_row(FULL, "w", fill, [1], [4], goal=at_most(3))
    assert (row.value, row.unit, row.met) == (4, "MiB", False)
    row = memory_row(FULL, "w", fill, [1], [4], goal=at_most(3), peer=("eager", fail, [240]))
    assert (row.value, row.ours, row.met) == (None, 4, None)
    assert row.problem == "eager failed: RuntimeError: in a process of its own: no"


def test_a_curve_has_a_point_for_each_length_and_says_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "fresh", weighed)
    series = [Series("regard", fill, (1, 2)), Series("peer", fail, (2,))]
    found = list(curve(FULL, "work", series, small=1, rounds=1))
    points = [each for each in found if isinstance(each, Point)]
    assert [(p.series, p.length, p.mib) for p in points] == [("regard", 1, 1), ("regard", 2, 2)]
    (row,) = [each for each in found if isinstance(each, Row)]
    assert (row.work, row.problem) == ("work, L=2", "peer failed: ValueError: it cannot be done")


def test_the_exponent_of_too_few_lengths_is_not_there() -> None:
    row = exponent(FULL, "work", [Point("", "", 1, 1.0)], "seconds", goal=at_most(1))
    assert (row.value, row.met) == (None, None)
    assert "a slope needs two" in row.problem


def test_the_machine_is_measured() -> None:
    machine = Machine.measured(SMALL)
    assert machine.product["float32"] > 0
    assert machine.copy > 0
    assert set(Machine.measured(Setting(dtype="bfloat16", quick=True)).product) == {"float32", "bfloat16"}


def drawn(report: Report, width: int = 160) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(report)
    return capture.get()


def test_the_table_has_the_ratio_first_and_says_what_was_met() -> None:
    report = Report(MACHINE, FULL)
    ratio = partial(Row, "forward", "SDPA", "× faster", low=29.0, high=33.0, ours=0.02, theirs=0.6, rounds=7)
    report.add(ratio(value=31.0, goal=at_least(25), cost=Cost(4e8, 2e8)), "window")
    report.add(ratio(value=12.5, goal=at_least(25)), "window")
    report.add(Row("alone", "entmax", "× faster", goal=at_least(50), problem="entmax: not installed"), "entmax")
    report.add(Row("beside", "softmax", "× its time", 1.5), "entmax")
    lines = drawn(report).splitlines()
    text = " ".join(" ".join(lines).split())
    assert lines[0].startswith("A processor, 2 cores")
    assert next(line for line in lines if "31.0 ×" in line).split()[:3] == ["31.0", "×", "faster"]
    for words in (
        "29.0–33.0",
        "20 ms",
        "600 ms",
        "20 GFLOP/s",
        "10 GB/s",
        "NOT met: 50 % short",
        "entmax: not installed",
    ):
        assert words in text
    assert lines[-1] == "1 of 3 goals met, 1 not met, 1 not measured"


def test_the_table_fits_a_narrow_terminal() -> None:
    report = Report(MACHINE, SMALL)
    report.add(Row("a piece of work with a long name", "x" * 90, "× its time", 1.5, 1.2, 1.7, rounds=3), "window")
    assert max(map(len, drawn(report, width=80).splitlines())) <= 80


def test_an_interrupted_report_says_so() -> None:
    report = Report(MACHINE, FULL, interrupted=True)
    assert "interrupted; 0 of 0 goals met" in drawn(report)


def test_a_plot_without_memory_is_still_drawn(tmp_path: Path) -> None:
    draw([Point("w", "regard", 8, 1.0), Point("w", "peer", 8, 2.0, 3.0)], tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text().startswith("<?xml")
