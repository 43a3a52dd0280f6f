"""Where is the lamp? Two supporting facts: who has it, and where he went; one look cannot find both."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.stories import (
    Few,
    LinearStart,
    ranked,
    supports_seen,
    told,
    told_with_supports,
)
from regard.memory.tasks import Stories

STORIES = Stories(facts=2, sentences=(8, 16))
RECIPE = Recipe(steps=1800, batch=64, rate=0.01, check=200, enough=0.01)
LINEAR = 600  # updates without a softmax


def experiment() -> Experiment:
    """Five thousand questions to learn from (Sukhbaatar et al. 2015, section 4, task 2; Weston et al. 2014)."""
    schedule = LinearStart(LINEAR, RECIPE.steps, RECIPE.rate)
    return Experiment(
        name="stories-2",
        task=Few(STORIES, 5000),
        recipe=RECIPE,
        validation={"stories": Exam(STORIES, 10, 25)},
        exams={"new stories": Exam(STORIES, 40, 25, seed=1_000_033)},
        arms={
            "memn2n-3": Arm(
                "three hops",
                partial(told, hops=3, ages=50),
                {"new stories": at_most(10)},
                each=schedule,
                look=supports_seen,
            ),
            "memn2n-1": Arm(
                "one hop",
                partial(told, hops=1, ages=50),
                {"new stories": at_least(60)},
                each=LinearStart(0, RECIPE.steps, RECIPE.rate),  # what it learns best by
            ),
            "memnn": Arm(
                "told which facts support",
                told_with_supports,
                {"new stories": at_most(5)},
                recipe=replace(RECIPE, steps=500, check=100),
                loss=ranked,
            ),
        },
    )
