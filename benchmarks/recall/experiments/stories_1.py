"""Where is she? One supporting fact, the last of its kind: what a memory network knows of time, and without it."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.stories import Few, LinearStart, supports_seen, told
from regard.memory.tasks import Stories

STORIES = Stories(facts=1, sentences=(6, 12))
RECIPE = Recipe(steps=750, batch=64, rate=0.01, check=125, enough=0.005)


def experiment() -> Experiment:
    """A thousand questions to learn from (Sukhbaatar et al. 2015, section 4, task 1)."""
    schedule = LinearStart(0, RECIPE.steps, RECIPE.rate)
    return Experiment(
        name="stories-1",
        task=Few(STORIES, 1000),
        recipe=RECIPE,
        validation={"stories": Exam(STORIES, 10, 25)},
        exams={"new stories": Exam(STORIES, 40, 25, seed=1_000_033)},
        arms={
            "memn2n-1": Arm(
                "one hop, facts by their age",
                partial(told, hops=1, ages=50),
                {"new stories": at_most(5)},
                each=schedule,
                look=supports_seen,
            ),
            "memn2n-1-untimed": Arm(
                "the same without time",
                partial(told, hops=1, ages=None),
                {"new stories": at_least(25)},
                each=schedule,
                look=supports_seen,
            ),
        },
    )
