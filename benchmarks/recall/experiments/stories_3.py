"""Where was the lamp before the hall? Three supporting facts, each found by what the one before it told."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.harness.row import at_least, at_most
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.recall.arms.stories import Few, LinearStart, ranked, supports_seen, told, told_with_supports
from regard.memory.tasks import Stories

STORIES = Stories(facts=3, sentences=(10, 20))
RECIPE = Recipe(steps=3000, batch=64, rate=0.01, check=200, enough=0.01)
LINEAR = 900  # updates without a softmax


def experiment() -> Experiment:
    """Ten thousand questions to learn from (Sukhbaatar et al. 2015, section 4, task 3; Weston et al. 2014)."""
    return Experiment(
        name="stories-3",
        task=Few(STORIES, 10_000),
        recipe=RECIPE,
        validation={"stories": Exam(STORIES, 10, 25)},
        exams={"new stories": Exam(STORIES, 40, 25, seed=1_000_033)},
        arms={
            "memn2n-3": Arm(
                "three hops",
                partial(told, hops=3, ages=50),
                {"new stories": at_most(25)},
                each=LinearStart(LINEAR, RECIPE.steps, RECIPE.rate),
                look=supports_seen,
            ),
            "memn2n-1": Arm(
                "one hop",
                partial(told, hops=1, ages=50),
                {"new stories": at_least(60)},
                each=LinearStart(0, RECIPE.steps, RECIPE.rate),  # as in stories-2
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
