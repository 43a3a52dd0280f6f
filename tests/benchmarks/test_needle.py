"""A needle is found where the pair is still held, and where it isn't the answer cannot depend on it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.recall import experiments
from benchmarks.recall.experiments.needle import WHERE, named
from benchmarks.recall.training import Run
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
    """300 updates: all is found by who keeps all; by who keeps 32 pairs what lies in them, and the rest is guessed."""
    whole = experiments.named("needle")
    far = ("64 at 0", "64 at 0.5", "128 at 0.75")
    exams = {name: replace(whole.exams[name], batches=2) for name in (*far, "64 at 0.75")}
    short = replace(whole, recipe=replace(whole.recipe, steps=300, check=300), exams=exams)
    kept, slid = (Run(short, arm, 0, None).go(lambda text: None) for arm in ("kv", "sliding"))
    assert kept.parameters == slid.parameters
    assert max(kept.exams.values()) < 0.1
    assert slid.exams["64 at 0.75"] < 0.1
    assert min(slid.exams[name] for name in far) > 0.85
