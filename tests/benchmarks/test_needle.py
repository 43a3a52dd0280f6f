"""A needle is found where the pair is still held, and where it isn't the answer cannot depend on it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from benchmarks.learning.experiment import Arm, Exam
from benchmarks.learning.training import Run
from benchmarks.recall import experiments
from benchmarks.recall.arms.reading import reader
from benchmarks.recall.experiments.needle import WHERE, named
from regard.memory import KVCache, SlidingCache
from regard.memory.tasks import Needle


@pytest.mark.parametrize("arm", ["kv", "sliding", "sink"])
def test_goals_say_which_needles_a_memory_still_has(arm: str) -> None:
    """Another value behind the key moves the answer where little wrong is asked for, and not at all elsewhere."""
    experiment = experiments.named("needle")
    torch.manual_seed(0)
    model = experiment.arms[arm].build(experiment.task).eval()
    for where in WHERE:
        name = named(*where)
        task = experiment.exams[name].task
        assert isinstance(task, Needle)
        inputs = task.draw(50, torch.Generator().manual_seed(0)).inputs
        at = (inputs == inputs[:, -1:]).byte().argmax(-1, keepdim=True) + 1  # its value's place
        other = inputs.scatter(1, at, (inputs.gather(1, at) - 1 - task.keys + 1) % task.values + 1 + task.keys)
        with torch.no_grad():
            moved = (model(inputs)[:, -1] - model(other)[:, -1]).abs().amax(-1)
        reached = not experiment.arms[arm].goals[name].above
        assert bool((moved > 0).all()) is reached
        assert bool((moved == 0).all()) is not reached


@pytest.mark.slow
def test_what_was_let_go_is_guessed() -> None:
    """Haystacks of up to 32 steps: all is found by who keeps all; by who keeps 12 pairs the last, and the rest guessed.

    Behind a needle in the middle come 17 steps or more. Eight values: who guesses has 0.875 wrong.
    """
    whole = experiments.named("needle")
    task = Needle((0, 32), values=8)
    exams = {f"at {d:g}": Exam(replace(task, lengths=(32, 32), depths=(d, d)), 4) for d in (0.0, 0.5, 1.0)}
    short = replace(whole, task=task, recipe=replace(whole.recipe, steps=300, check=300), exams=exams)
    build = partial(reader, width=64, kernel=2)
    arms = {
        "kept": Arm("", partial(build, memory=partial(KVCache, 2, 32))),
        "slid": Arm("", partial(build, memory=partial(SlidingCache, 2, 32, window=12, engine="sdpa"))),
    }
    short = replace(short, arms=arms, validation={"all": Exam(replace(task, lengths=(32, 32)), 1)})
    kept, slid = (Run(short, arm, 0, None).go(lambda text: None) for arm in arms)
    assert kept.parameters == slid.parameters
    assert max(kept.exams.values()) < 0.1
    assert slid.exams["at 1"] < 0.1
    assert min(slid.exams["at 0"], slid.exams["at 0.5"]) > 0.75
