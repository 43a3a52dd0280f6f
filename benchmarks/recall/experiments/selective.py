"""Selective copying: who chooses what to keep, beside who treats every step alike (Gu & Dao 2023, section 4.1)."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.state_space import alike, mamba
from regard.memory.tasks import SelectiveCopy


def experiment() -> Experiment:
    """Four of eight symbols among 48 places. The twin makes as many updates, and is wider for as many parameters."""
    task = SelectiveCopy(places=(48, 48), items=(4, 4), symbols=8)
    return Experiment(
        name="selective",
        task=task,
        recipe=Recipe(steps=500, batch=32, rate=3e-3, clip=1.0),
        validation={"48 places": Exam(task, 1)},
        exams={"48 places": Exam(task, 8, seed=1_000_033)},
        arms={
            "mamba": Arm(
                "two blocks that select", partial(mamba, width=32, states=8, layers=2), {"48 places": at_most(25)}
            ),
            "alike": Arm(
                "its twin with Δ, B and C constant",
                partial(alike, width=34, states=8, layers=2),
                {"48 places": at_least(35)},
            ),
        },
    )
