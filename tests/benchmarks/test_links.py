"""A list learnt in its order along links, and not learnt by the same net whose links stay zero."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe
from benchmarks.learning.training import Run
from benchmarks.recall.arms.computer import dnc
from benchmarks.recall.arms.linked import OnlyLinks, linked, unlinked
from regard.memory import DifferentiableComputer
from regard.memory.tasks import Copy, MultiQueryRecall
from tests.memory.differentiable.test_computer import bounds

TASK = Copy(4, (2, 6))


def silent(text: str) -> None:
    pass


@pytest.mark.slow
def test_what_is_followed_are_the_links() -> None:
    """Seed 0 of 600 updates: nothing wrong with links, a quarter without them; half is chance."""
    longest = Copy(4, (6, 6))
    small = partial(Arm, "8 × 12, an LSTM of 32")
    experiment = Experiment(
        "links",
        TASK,
        Recipe(steps=600, batch=32, rate=5e-3, check=100, calm=1),
        {"length 6": Exam(longest, 1)},
        {"length 6": Exam(longest, 2, seed=11)},
        {
            "linked": small(partial(linked, slots=8, width=12, hidden=32)),
            "unlinked": small(partial(unlinked, slots=8, width=12, hidden=32)),
        },
    )
    found = {arm: Run(experiment, arm, 0, None).go(silent) for arm in experiment.arms}
    assert found["linked"].parameters == found["unlinked"].parameters
    assert found["linked"].exams["length 6"] < 0.05
    assert found["unlinked"].exams["length 6"] > 0.15


def test_links_that_stay_zero_and_content_that_is_off() -> None:
    """Without links the heads read nothing from the second answer on, with them they do; nothing else differs."""
    torch.manual_seed(0)
    memory = DifferentiableComputer(slots=5, width=3)
    with_links = OnlyLinks(TASK, memory, 7, links=True)
    without = OnlyLinks(TASK, memory, 7, links=False)
    without.load_state_dict(with_links.state_dict())
    inputs = TASK.draw(2, torch.Generator().manual_seed(1)).inputs
    n = inputs.shape[1] // 2
    read: dict[bool, list[float]] = {}
    for net in (with_links, without):
        with torch.no_grad():
            states = [state.memory for _, state in net.steps(inputs)]
        for state in states:
            bounds(state, slack=1e-5)
        read[net.links] = [float(state.looking.sum()) for state in states]
    assert min(read[False][1 : n + 2]) > 0.1
    assert read[False][n + 2 :] == [0.0] * (n - 1)
    assert min(read[True]) > 0.0


def test_a_computer_takes_symbols() -> None:
    task = MultiQueryRecall(pairs=(2, 2), keys=3, values=4)
    example = task.draw(3, torch.Generator().manual_seed(0))
    outputs = dnc(task, slots=5, width=3, reads=2, hidden=7)(example.inputs)
    assert outputs.shape == (*example.inputs.shape, task.answers.width)
