"""Copy: learnt on lengths 1 to 10, asked at twice that (Graves, Wayne & Danihelka 2014, section 4.1)."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.recurrent import lstm
from benchmarks.recall.arms.turing import content_only, moving_on, ntm
from regard.memory.tasks import Copy

BITS = 6
SLOTS = 40  # more than the longest exam needs


def experiment() -> Experiment:
    """The experiment; no exam is looked at before the weights are chosen."""
    exams = {f"length {n}": Exam(Copy(BITS, (n, n)), seed=1_000_033) for n in (10, 20, 30)}
    return Experiment(
        name="copy",
        task=Copy(BITS, (1, 10)),
        recipe=Recipe(steps=4000, rate=3e-3),
        validation={f"length {n}": Exam(Copy(BITS, (n, n)), 1) for n in (5, 10, 14)},
        exams=exams,
        arms={
            "ntm": Arm(
                "a Neural Turing Machine",
                partial(ntm, hidden=100, slots=SLOTS, width=20),
                {"length 20": at_most(1)},
                look=partial(moving_on, exams["length 20"]),
            ),
            "ntm-content": Arm(
                "its heads go by content alone; half the updates at most",
                partial(content_only, hidden=100, slots=SLOTS, width=20),
                recipe=Recipe(steps=2000, rate=3e-3),
            ),
            "lstm": Arm("an LSTM of as many parameters", partial(lstm, hidden=120), {"length 20": at_least(40)}),
            "lstm-slow": Arm(
                "the same at a third of the rate, twice as long",
                partial(lstm, hidden=120),
                {"length 20": at_least(40)},
                recipe=Recipe(steps=8000, rate=1e-3),
            ),
        },
    )
