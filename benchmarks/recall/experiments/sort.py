"""Priority sort: vectors come with priorities, and are asked in their order (Graves et al. 2014, section 4.5).

Smaller than published: 8 vectors of 4 bits of which the 6 first are asked, not 20 of 8 bits of which 16.
"""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.recall.arms.recurrent import lstm
from benchmarks.recall.arms.turing import ntm
from benchmarks.recall.experiment import Arm, Exam, Experiment, Recipe
from regard.memory.tasks import PrioritySort


def experiment() -> Experiment:
    """Learnt and asked at one size, as published."""
    task = PrioritySort(width=4, counts=(8, 8), kept=6)
    return Experiment(
        name="sort",
        task=task,
        recipe=Recipe(steps=1500, batch=64, rate=5e-3, check=100, enough=0.005, calm=2),
        validation={"8 vectors": Exam(task, 1, 256)},
        exams={"8 vectors": Exam(task, 4, 256, seed=1_000_033)},
        arms={
            "ntm": Arm(
                "a Neural Turing Machine",
                partial(ntm, hidden=64, slots=16, width=16),
                {"8 vectors": at_most(10)},
            ),
            "lstm": Arm("an LSTM of as many parameters", partial(lstm, hidden=80), {"8 vectors": at_least(15)}),
        },
    )
