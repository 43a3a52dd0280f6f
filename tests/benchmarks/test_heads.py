"""Small stacks of reads, trained in short: what a read of so many numbers, or of so many layers, cannot know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.learning.training import Outcome, Run
from benchmarks.recall import experiments


def trained(task: str, arms: tuple[str, ...], steps: int, batch: int) -> list[Outcome]:
    whole = experiments.named(task)
    recipe = replace(whole.recipe, steps=steps, check=steps, batch=batch)
    exams = {name: replace(exam, batches=1) for name, exam in whole.exams.items()}
    short = replace(whole, recipe=recipe, exams=exams, validation=dict(list(exams.items())[:1]))
    return [Run(short, arm, 0, None).go(lambda text: None) for arm in arms]


@pytest.mark.slow
def test_softmax_recalls_more_pairs_than_keys_have_numbers_and_a_matrix_of_as_many_rows_does_not() -> None:
    attention, linear = trained("multiquery", ("attention", "linear"), steps=200, batch=16)
    assert attention.parameters == linear.parameters
    assert attention.exams["32 pairs"] < 0.1
    assert linear.exams["32 pairs"] > attention.exams["32 pairs"] + 0.4
    assert linear.exams["4 pairs"] < linear.exams["32 pairs"] - 0.3  # what it cannot do is many


@pytest.mark.slow
def test_what_came_after_the_last_one_takes_two_layers() -> None:
    two, one = trained("induction", ("two", "one"), steps=200, batch=32)
    assert abs(two.parameters / one.parameters - 1) < 0.05
    assert two.exams["length 30"] < 0.2
    assert one.exams["length 30"] > 0.7
