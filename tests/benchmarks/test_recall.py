"""Training on the tasks: what chooses the weights, what ends a run, and that a stopped one goes on as if it had not."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.harness.row import Line, Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.learning.experiment import Arm, Exam, Experiment, Recipe, answer
from benchmarks.learning.training import Run, Stopped
from benchmarks.recall import experiments, report
from benchmarks.recall.arms.recurrent import lstm
from benchmarks.recall.arms.stories import Few
from regard.errors import RegardError
from regard.memory.tasks import TASKS, Copy, Task

TASK = Copy(3, (1, 2))
ARMS = {"lstm": Arm("small", partial(lstm, hidden=5), {"length 3": at_most(100)})}


def small(arms: dict[str, Arm] | None = None, **recipe: Any) -> Experiment:
    return Experiment(
        "copy",
        TASK,
        Recipe(**{"steps": 7, "batch": 2, "check": 2, **recipe}),
        {"length 2": Exam(Copy(3, (2, 2)), 1, 4)},
        {"length 3": Exam(Copy(3, (3, 3)), 1, 4)},
        arms or ARMS,
    )


def silent(text: str) -> None:
    pass


class Knows(nn.Module):
    """The oracle, with as many wrong bits as it is told, and a parameter to train."""

    def __init__(self, task: Task, wrong: Callable[[int], float]) -> None:
        super().__init__()
        self.task, self.wrong, self.calls = task, wrong, 0
        self.weight = nn.Parameter(torch.ones(()))
        self.register_buffer("age", torch.zeros(()))
        self.age: Tensor

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.age += 1
        right = 2 * self.task.oracle(inputs) - 1
        flipped = torch.rand(right.shape, generator=torch.Generator().manual_seed(3)) < self.wrong(int(self.age))
        return torch.where(flipped, -right, right) * self.weight


def knowing(wrong: Callable[[int], float]) -> dict[str, Arm]:
    return {"knows": Arm("the oracle", lambda task: Knows(task, wrong))}


@pytest.mark.parametrize("name", experiments.known())
def test_every_arm_of_every_experiment_runs(name: str, tmp_path: Path) -> None:
    experiment = experiments.named(name)
    rows = list(report.learn(name, None, "0", None, tmp_path)(Setting(quick=True), silent))
    lines = [row for row in rows if isinstance(row, Line)]
    assert [line.cells["memory"] for line in lines] == list(experiment.arms)
    goals = [(arm, str(goal)) for arm in experiment.arms for goal in experiment.arms[arm].goals.values()]
    assert len([row for row in rows if isinstance(row, Row)]) == len(goals)
    for line in lines:
        assert set(experiment.exams) <= set(line.cells)
        before = experiment.arms[line.cells["memory"]].build(experiment.task)
        assert line.found["parameters"] == sum(p.numel() for p in before.parameters() if p.requires_grad)


@pytest.mark.parametrize("name", experiments.known())
def test_the_oracle_passes_every_exam(name: str) -> None:
    experiment = experiments.named(name)
    for exam in (*experiment.validation.values(), *experiment.exams.values()):
        for example in exam.smaller().questions():
            assert exam.task.score(exam.task.oracle(example.inputs), example) == 1.0


def test_every_task_has_a_trainer() -> None:
    tasks = [experiments.named(name).task for name in experiments.known()]
    assert {type(task.stories if isinstance(task, Few) else task) for task in tasks} == set(TASKS.values())


def test_what_can_be_learnt_is_named_with_its_models() -> None:
    assert list(report.tasks()) == experiments.known()
    assert report.tasks()["copy"] == "ntm, ntm-content, lstm, lstm-slow"


def test_answers_are_counted() -> None:
    questions = Exam(TASK, 3, 5).questions()
    assert answer(Knows(TASK, lambda age: 0.0), TASK, questions)[0] == 0.0
    assert answer(Knows(TASK, lambda age: 1.0), TASK, questions)[0] == 1.0


def test_the_same_questions_every_time() -> None:
    first, second = (Exam(TASK, 2, 5).questions() for _ in range(2))
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0].targets[:, -1], first[1].targets[:, -1])


def test_the_weights_that_were_best_are_asked() -> None:
    best_at_four = knowing(lambda age: 0.0 if age == 4 else 0.6)
    outcome = Run(small(best_at_four), "knows", 0, None).go(silent)
    assert (outcome.steps, outcome.best, outcome.validation) == (7, 4, 0.0)
    assert outcome.exams == {"length 3": 0.0}


def test_a_run_ends_when_it_was_good_for_long_enough() -> None:
    arms = knowing(lambda age: 0.0 if age >= 6 else 0.6)
    outcome = Run(small(arms, steps=40, calm=3), "knows", 0, None).go(silent)
    assert (outcome.steps, outcome.best) == (10, 6)


def test_exams_are_not_looked_at_before_the_weights_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Exam] = []
    draw = Exam.questions

    def noted(self: Exam) -> Any:
        asked.append(self)
        return draw(self)

    monkeypatch.setattr(Exam, "questions", noted)
    experiment = small()
    run = Run(experiment, "lstm", 0, None)
    checks = run._check

    def check(questions: Any, say: Any) -> None:
        assert asked == list(experiment.validation.values())
        checks(questions, say)

    monkeypatch.setattr(run, "_check", check)
    run.go(silent)
    assert asked[-1] == experiment.exams["length 3"]


def weights(run: Run) -> list[Tensor]:
    return list(run.model.state_dict().values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_ends_with_the_weights_it_would_have_had(tmp_path: Path, number: int) -> None:
    whole = Run(small(), "lstm", 1, tmp_path / "whole")
    found = whole.go(silent)

    def stops(model: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
        if step == 2 and not (tmp_path / "once").exists():
            (tmp_path / "once").touch()
            os.kill(os.getpid(), number)

    experiment = small({"lstm": replace(ARMS["lstm"], each=stops)})
    with pytest.raises(Stopped):
        Run(experiment, "lstm", 1, tmp_path / "parts").go(silent)
    log = tmp_path / "parts" / "copy" / "lstm" / "seed-1.jsonl"
    assert [next(iter(json.loads(line))) for line in log.read_text().splitlines()] == ["run", "step"]
    torch.rand(3)  # another seed's training, say
    again = Run(experiment, "lstm", 1, tmp_path / "parts")
    assert again.at.step == 3
    went = again.go(silent)
    assert went.resumed
    assert replace(went, seconds=0.0, resumed=False) == replace(found, seconds=0.0)
    for a, b in zip(weights(whole), weights(again), strict=True):
        assert torch.equal(a, b)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("step") for line in lines] == [None, 2, 4, 6, 7, None]
    assert lines[-1]["found"]["exams"] == found.exams


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = Run(small(), "lstm", 0, tmp_path).go(silent)
    again = Run(small(), "lstm", 0, tmp_path).go(lambda text: pytest.fail("trained"))
    assert replace(again, resumed=False) == first


def test_another_run_in_the_same_place_is_refused(tmp_path: Path) -> None:
    Run(small(), "lstm", 0, tmp_path).go(silent)
    with pytest.raises(RegardError, match=r"run of recipe .*'rate': 0\.001.* not .*'rate': 0\.5"):
        Run(small(rate=0.5), "lstm", 0, tmp_path)
    (tmp_path / "copy" / "lstm" / "seed-0.pt").write_bytes(b"half")
    with pytest.raises(RegardError, match=r"seed-0\.pt cannot be read"):
        Run(small(), "lstm", 0, tmp_path)


def test_seeds_differ_and_one_seed_is_the_same() -> None:
    runs = [Run(small(), "lstm", seed, None) for seed in (0, 0, 1)]
    for run in runs:
        run.go(silent)
    same, other = ([torch.equal(a, b) for a, b in zip(weights(runs[0]), weights(run), strict=True)] for run in runs[1:])
    assert all(same)
    assert not any(other)


def test_a_gradient_that_is_no_number_is_said() -> None:
    def broken(task: Task) -> nn.Module:
        model = Knows(task, lambda age: 0.0)
        model.weight.data.fill_(torch.nan)
        return model

    with pytest.raises(RegardError, match="the gradient is nan at update 1"):
        Run(small({"knows": Arm("", broken)}), "knows", 0, None).go(silent)


def test_goals_are_judged_by_the_seed_that_is_worst_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    arm = {"lstm": replace(ARMS["lstm"], goals={"length 3": at_most(45)})}
    fails = {"lstm": replace(ARMS["lstm"], goals={"length 3": at_least(45)})}
    values = []
    for arms in (arm, fails):
        monkeypatch.setattr(experiments, "named", lambda name, arms=arms: small(arms))
        rows = list(report.learn("copy", "lstm", "0,1,2", None, None)(Setting(), silent))
        (row,) = (row for row in rows if isinstance(row, Row))
        values.append((row.value, row.low, row.high, row.rounds))
    (highest, low, high, seeds), (lowest, *_) = values
    assert (highest, lowest, seeds) == (high, low, 3)
    assert low is not None
    assert high is not None
    assert low < high


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cop", None, "0", None), "--task: unknown name 'cop'; did you mean 'copy'?"),
        (("copy", "lstn", "0", None), "--memory (of --task copy): unknown name 'lstn'; did you mean 'lstm'?"),
        (("copy", "lstm", "0,a", None), "--seeds: found '0,a', wanted whole numbers"),
        (("copy", "lstm", "0,0", None), "--seeds: found '0,0', wanted each number once"),
        (("copy", "lstm", "0", 0), "--steps: found 0, wanted at least 1"),
    ],
)
def test_what_is_not_there_is_said_before_anything_is_trained(
    arguments: tuple[str, str | None, str, int | None], message: str
) -> None:
    with pytest.raises(RegardError) as caught:
        report.learn(*arguments, logs=None)
    assert str(caught.value).startswith(message)
