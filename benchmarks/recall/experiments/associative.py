"""Associative recall: shown one item of a list again, a machine names the next (Graves et al. 2014, section 4.3).

Smaller than published: an item is one vector of 6 bits, not three.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.reading import reader
from benchmarks.recall.arms.recurrent import lstm
from benchmarks.recall.arms.turing import ntm
from regard.memory import KVCache
from regard.memory.tasks import AssociativeRecall

RECIPE = Recipe(steps=1000, batch=64, rate=3e-3, check=100, enough=0.005, calm=2)


def items(least: int, most: int) -> AssociativeRecall:
    """The task with so many items."""
    return AssociativeRecall(width=6, vectors=1, items=(least, most))


def experiment() -> Experiment:
    """Learnt on 2 to 6 items; asked at the most of these, and beyond. All arms have about as many parameters."""
    most = "6 items"
    return Experiment(
        name="associative",
        task=items(2, 6),
        recipe=RECIPE,
        validation={f"{n} items": Exam(items(n, n), 1, 256) for n in (3, 6)},
        exams={f"{n} items": Exam(items(n, n), 4, 256, seed=1_000_033) for n in (6, 10)},
        arms={
            "attention": Arm(
                "two layers of attention, after convolutions over three steps",
                partial(reader, width=48, memory=partial(KVCache, 3, 16), layers=2, kernel=3, hidden=64),
                {most: at_most(5)},
            ),
            "ntm": Arm(
                "a Neural Turing Machine",
                partial(ntm, hidden=68, slots=20, width=16),
                {most: at_most(5)},
                recipe=replace(RECIPE, rate=5e-3),
            ),
            "lstm": Arm("an LSTM", partial(lstm, hidden=84), {most: at_least(20)}),
        },
    )
