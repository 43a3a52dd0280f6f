"""Multi-query associative recall: up to four times as many pairs as a key has numbers (Arora et al. 2023, "Zoology").

Each arm is a short convolution, so that a value's step knows the key before it, and one read of keys of 8 numbers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.reading import reader
from regard.memory import DeltaMemory, KVCache, LinearMemory
from regard.memory.tasks import MultiQueryRecall

KEYS, VALUES = 64, 32
WIDTH, D = 64, 8  # of the model, whose values are as wide, and of keys and queries


RECIPE = Recipe(steps=400, batch=32, rate=5e-3, check=100, enough=0.002, calm=2, clip=1.0)


def pairs(least: int, most: int) -> MultiQueryRecall:
    """The task with so many pairs."""
    return MultiQueryRecall((least, most), KEYS, VALUES)


def experiment() -> Experiment:
    """Learnt on 4 to 32 pairs; what is asked is at which load each memory gives up."""
    most = "32 pairs"
    return Experiment(
        name="multiquery",
        task=pairs(4, 32),
        recipe=RECIPE,
        validation={f"{n} pairs": Exam(pairs(n, n), 1) for n in (8, 32)},
        exams={f"{n} pairs": Exam(pairs(n, n), 4, seed=1_000_033) for n in (4, 8, 16, 32)},
        arms={
            "attention": Arm(
                "softmax over all pairs",
                partial(reader, width=WIDTH, memory=partial(KVCache, 1, D, WIDTH), kernel=2),
                {most: at_most(2)},
            ),
            "linear": Arm(
                "elu + 1: a matrix of 8 rows",
                partial(reader, width=WIDTH, memory=partial(LinearMemory, 1, D, WIDTH), kernel=2),
                {most: at_least(30)},
            ),
            "delta": Arm(
                "as large a matrix, corrected at each write",
                partial(reader, width=WIDTH, memory=partial(DeltaMemory, 1, D, WIDTH), kernel=2),
                {most: at_least(30)},
                recipe=replace(RECIPE, steps=1000),  # it learns what not to write later than the others
            ),
        },
    )
