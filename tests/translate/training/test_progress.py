"""Progress: bars at a terminal, plain lines in a file, nothing else."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from regard.translate.training.progress import Bars, Lines, Pace, Silent, Standing, report_to

HERE = Standing(epoch=2, epochs=5, done=30, total=100, loss=1.25, speed=1234.5, left=3725.4)


def test_a_file_gets_plain_lines() -> None:
    out = io.StringIO()
    with report_to(Console(file=out, width=40)) as report:
        assert isinstance(report, Lines)
        report.say("epoch 1/3  [best] " + "x" * 60)
        report.step(HERE)  # too soon after the start for a line of its own
    assert out.getvalue() == "epoch 1/3  [best] " + "x" * 60 + "\n"


def test_positions_come_at_intervals() -> None:
    out = io.StringIO()
    report = Lines(Console(file=out, width=80), every=0.0)
    report.step(HERE)
    report.step(replace(HERE, left=None))
    first = "epoch 2/5  30/100  loss 1.250  1,234 pieces/s"
    assert out.getvalue() == f"{first}  at most 1:02:05 left\n{first}\n"


def test_a_terminal_gets_bars() -> None:
    out = io.StringIO()
    with report_to(Console(file=out, width=100, force_terminal=True)) as report:
        assert isinstance(report, Bars)
        report.step(HERE)
        report.say("epoch done")
    assert "epoch done" in out.getvalue()
    assert "loss 1.250" in out.getvalue()
    assert "at most 1:02:05 left" in out.getvalue()


def test_the_time_left_is_of_the_whole_run() -> None:
    """A run that went on at 40 % and has reached 46 % in 30 seconds needs 270 more, whatever went before."""
    assert HERE.share == 0.26
    pace = Pace(0.4, 1000.0)
    assert pace.left(0.4, 1001.0) is None  # nothing done yet
    assert pace.left(0.46, 1030.0) == pytest.approx(270.0)
    assert pace.left(1.0, 1300.0) == 0.0


def test_silence() -> None:
    Silent().say("nothing")
    Silent().step(HERE)
