"""Priority sort: vectors come with priorities, and are asked in their order (Graves et al. 2014, section 4.5).

Smaller than published: 8 vectors of 4 bits of which the 6 first are asked, not 20 of 8 bits of which 16.
"""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.reading import reader
from benchmarks.recall.arms.recurrent import lstm
from benchmarks.recall.arms.turing import ntm
from regard.memory import KVCache
from regard.memory.tasks import PrioritySort


def experiment() -> Experiment:
    """Learnt and asked at one size, as published; all arms have about as many parameters, and as many updates."""
    task = PrioritySort(width=4, counts=(8, 8), kept=6)
    exam = "6 of 8 vectors"
    return Experiment(
        name="sort",
        task=task,
        recipe=Recipe(steps=1000, batch=64, rate=3e-3, check=100, enough=0.005, calm=2),
        validation={exam: Exam(task, 1, 256)},
        exams={exam: Exam(task, 4, 256, seed=1_000_033)},
        arms={
            "attention": Arm(
                "two layers of attention",
                partial(reader, width=48, memory=partial(KVCache, 3, 16), layers=2, kernel=2, hidden=64),
                {exam: at_most(10)},
            ),
            "ntm": Arm(
                "a Neural Turing Machine",
                partial(ntm, hidden=69, slots=16, width=16),
                {exam: at_most(10)},
            ),
            "lstm": Arm("an LSTM", partial(lstm, hidden=85), {exam: at_least(20)}),
        },
    )
