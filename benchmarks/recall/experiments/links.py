"""Links: a list is recalled in the order it was written in, with content queries off after its first item.

The task is copying; what is followed is the temporal link matrix of Graves et al. 2016, and nothing else can be.
"""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.linked import linked, unlinked
from regard.memory.tasks import Copy

BITS = 6


def experiment() -> Experiment:
    """Learnt on 1 to 8 vectors; asked at the longest of these, and beyond."""
    return Experiment(
        name="links",
        task=Copy(BITS, (1, 8)),
        recipe=Recipe(steps=1500, rate=5e-3, batch=32, check=100, enough=0.005, calm=2),
        validation={f"length {n}": Exam(Copy(BITS, (n, n)), 1) for n in (4, 8)},
        exams={f"length {n}": Exam(Copy(BITS, (n, n)), 2, seed=1_000_033) for n in (8, 12)},
        arms={
            "linked": Arm(
                "links alone after the first", partial(linked, slots=16, width=16, hidden=64), {"length 8": at_most(5)}
            ),
            "unlinked": Arm(
                "the same with links of zero",
                partial(unlinked, slots=16, width=16, hidden=64),
                {"length 8": at_least(10)},
            ),
        },
    )
