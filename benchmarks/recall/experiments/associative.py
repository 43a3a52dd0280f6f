"""Associative recall: shown one item of a list again, the machine names the next (Graves et al. 2014, section 4.3).

Smaller than published: an item is one vector of 6 bits, not three.
"""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.recall.arms.recurrent import lstm
from benchmarks.recall.arms.turing import ntm
from benchmarks.recall.experiment import Arm, Exam, Experiment, Recipe
from regard.memory.tasks import AssociativeRecall


def items(least: int, most: int) -> AssociativeRecall:
    """The task with so many items."""
    return AssociativeRecall(width=6, vectors=1, items=(least, most))


def experiment() -> Experiment:
    """Learnt on 2 to 6 items; asked at the most of these, and beyond."""
    return Experiment(
        name="associative",
        task=items(2, 6),
        recipe=Recipe(steps=2000, batch=64, rate=5e-3, check=100, enough=0.005, calm=2),
        validation={f"{n} items": Exam(items(n, n), 1, 128) for n in (3, 6)},
        exams={f"{n} items": Exam(items(n, n), 4, 128, seed=1_000_033) for n in (6, 10)},
        arms={
            "ntm": Arm(
                "a Neural Turing Machine",
                partial(ntm, hidden=64, slots=20, width=16),
                {"6 items": at_most(5)},
            ),
            "lstm": Arm("an LSTM of as many parameters", partial(lstm, hidden=79), {"6 items": at_least(20)}),
        },
    )
