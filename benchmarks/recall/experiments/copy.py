"""Copy: learnt on lengths 1 to 10, asked at twice that (Graves, Wayne & Danihelka 2014, section 4.1)."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least
from benchmarks.recall.arms.recurrent import lstm
from benchmarks.recall.experiment import Arm, Exam, Experiment, Recipe
from regard.memory.tasks import Copy

BITS = 6


def experiment() -> Experiment:
    """The experiment; no exam is looked at before the weights are chosen."""
    return Experiment(
        name="copy",
        task=Copy(BITS, (1, 10)),
        recipe=Recipe(steps=8000),
        validation={f"length {n}": Exam(Copy(BITS, (n, n)), 1) for n in (5, 10, 14)},
        exams={f"length {n}": Exam(Copy(BITS, (n, n)), seed=1_000_033) for n in (10, 20, 30)},
        arms={
            "lstm": Arm("an LSTM of as many parameters", partial(lstm, hidden=120), {"length 20": at_least(40)}),
        },
    )
