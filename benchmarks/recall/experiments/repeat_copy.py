"""Repeat copy: a sequence of bits, said several times over (Graves et al. 2014, section 4.2; 2016)."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.computer import dnc
from benchmarks.recall.arms.recurrent import lstm
from regard.memory.tasks import RepeatCopy

BITS = 6


def experiment() -> Experiment:
    """Learnt on 1 to 6 vectors, 1 to 3 times; asked at the longest of these, and beyond."""

    def fixed(n: int, r: int) -> RepeatCopy:
        return RepeatCopy(BITS, (n, n), (r, r))

    return Experiment(
        name="repeat-copy",
        task=RepeatCopy(BITS, (1, 6), (1, 3)),
        recipe=Recipe(steps=4000, rate=3e-3, enough=0.005, calm=2),
        validation={"6 × 3": Exam(fixed(6, 3), 1), "4 × 2": Exam(fixed(4, 2), 1)},
        exams={f"{n} × {r}": Exam(fixed(n, r), 2, seed=1_000_033) for n, r in ((6, 3), (8, 3), (6, 5))},
        arms={
            "dnc": Arm(
                "16 × 16, 1 read, an LSTM of 64",
                partial(dnc, slots=16, width=16, reads=1, hidden=64),
                {"6 × 3": at_most(5)},
            ),
            "lstm": Arm("an LSTM of as many parameters", partial(lstm, hidden=78), {"6 × 3": at_least(15)}),
        },
    )
