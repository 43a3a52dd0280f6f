"""Two looks at an image, in short, beside one; and how the regions are told, and the curriculum."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from benchmarks.learning.experiment import Arm, Easier, Exam
from benchmarks.learning.training import Run
from benchmarks.recall import experiments
from benchmarks.recall.arms.regions import Looking, looking
from regard.memory.tasks import Regions


@pytest.mark.slow
def test_who_looks_twice_follows_a_flag_and_who_looks_once_does_not() -> None:
    """Among four regions: two layers above 0.95, one of as many numbers 0.3 behind; both answer what one look finds."""
    whole = experiments.named("regions")
    small = Regions(regions=(4, 4), colours=4)
    chained, plain = (Exam(replace(small, chained=c), 8, seed=1_000_033) for c in (1.0, 0.0))
    short = replace(
        whole,
        task=replace(small, chained=0.8),
        easier=Easier(replace(small, chained=0.0), 250),
        recipe=replace(whole.recipe, steps=1000, batch=64, rate=3e-3, enough=0.0),
        validation={"two looks": replace(chained, seed=1_000_003)},
        exams={"two looks": chained, "one look": plain},
        arms={
            name: replace(whole.arms[name], build=partial(looking, layers=layers, width=width))
            for name, layers, width in (("san-2", 2, 64), ("san-1-wide", 1, 88))
        },
    )
    two, one = (Run(short, arm, 0, None).go(lambda text: None) for arm in ("san-2", "san-1-wide"))
    assert abs(two.parameters / one.parameters - 1) < 0.1
    assert two.exams["two looks"] < 0.05
    assert one.exams["two looks"] > two.exams["two looks"] + 0.3
    assert max(two.exams["one look"], one.exams["one look"]) < 0.05
    assert two.seen["last on asked"] > 0.7


def test_the_arms_that_are_compared_are_of_one_size() -> None:
    experiment = experiments.named("regions")
    count = {
        name: sum(p.numel() for p in arm.build(experiment.task).parameters()) for name, arm in experiment.arms.items()
    }
    assert abs(count["san-2"] / count["san-1-wide"] - 1) < 0.01


def test_easier_questions_come_first() -> None:
    whole = experiments.named("regions")
    assert whole.easier is not None
    drawn: list[float] = []

    class Noted(Looking):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            if self.training:
                drawn.append(float(inputs[:, -1, -1].mean()))
            return super().forward(inputs)

    def build(task: object) -> Looking:
        assert isinstance(task, Regions)
        return Noted(task, 1, 5)

    recipe = replace(whole.recipe, steps=9, check=4, batch=50)
    few = replace(whole, arms={"noted": Arm("", build)}, recipe=recipe, easier=replace(whole.easier, updates=5))
    run = Run(few, "noted", 0, None)
    run.go(lambda text: None)
    assert drawn[:5] == [0.0] * 5
    assert all(0.6 < share < 1 for share in drawn[5:])
    assert "chained=0.0" in str(run.identity["easier"])
    assert Run(replace(few, easier=None), "noted", 0, None).identity["easier"] is None


def test_rows_of_their_own_lengths_are_answered_alike() -> None:
    """Each at its own question, whatever it is padded to."""
    task = Regions(regions=(2, 5), colours=7, chained=0.5)
    torch.manual_seed(0)
    model = looking(task, layers=2, width=13)
    example = task.draw(9, torch.Generator().manual_seed(3), ragged=True)
    outputs = model(example.inputs).detach()
    assert outputs.shape == (*example.asked.shape, task.answers.width)
    assert float(outputs[~example.asked].abs().sum()) == 0
    for b, length in enumerate(example.valid.sum(-1).tolist()):
        alone = model(example.inputs[b : b + 1, :length]).detach()
        torch.testing.assert_close(outputs[b, :length], alone[0])
