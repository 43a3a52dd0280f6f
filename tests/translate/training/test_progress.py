"""Progress: bars at a terminal, plain lines in a file, nothing else."""

from __future__ import annotations

import io

from rich.console import Console

from regard.translate.training.progress import Bars, Lines, Silent, report_to


def test_a_file_gets_plain_lines() -> None:
    out = io.StringIO()
    with report_to(Console(file=out, width=40)) as report:
        assert isinstance(report, Lines)
        report.say("epoch 1/3  [best] " + "x" * 60)
        report.step(1, 2, 3, 1.5, 1234.5)  # too soon after the start for a line of its own
    assert out.getvalue() == "epoch 1/3  [best] " + "x" * 60 + "\n"


def test_positions_come_at_intervals() -> None:
    out = io.StringIO()
    report = Lines(Console(file=out, width=80), every=0.0)
    report.step(2, 30, 100, 1.25, 1234.5)
    assert out.getvalue() == "epoch 2  30/100  loss 1.250  1,234 pieces/s\n"


def test_a_terminal_gets_bars() -> None:
    out = io.StringIO()
    with report_to(Console(file=out, width=100, force_terminal=True)) as report:
        assert isinstance(report, Bars)
        report.step(1, 2, 3, 1.5, 1000.0)
        report.say("epoch done")
    assert "epoch done" in out.getvalue()
    assert "loss 1.500" in out.getvalue()


def test_silence() -> None:
    Silent().say("nothing")
    Silent().step(1, 1, 1, 0.0, 0.0)
