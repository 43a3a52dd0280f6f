"""What an experiment is made of: a recipe, exams, and the models that are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from benchmarks.harness.row import Goal
from regard.memory.tasks import Example, Task

__all__ = ["Arm", "Easier", "Exam", "Experiment", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: updates of Adam on freshly drawn batches, and when to stop.

    Every ``check`` updates the validation exams are taken; the weights that were best there are what is kept. The run
    ends after ``steps`` updates, or earlier, when ``calm`` checks in a row had no more than a share ``enough`` wrong.
    """

    steps: int
    batch: int = 16
    rate: float = 1e-3
    clip: float = 10.0
    check: int = 250
    enough: float = 0.0
    calm: int = 3


@dataclass(frozen=True)
class Exam:
    """Questions that are always the same: ``batches`` draws of ``batch`` rows, from a generator of the exam's own."""

    task: Task
    batches: int = 4
    batch: int = 64
    seed: int = 1_000_003

    def questions(self) -> list[Example]:
        """What is asked."""
        generator = torch.Generator().manual_seed(self.seed)
        return [self.task.draw(self.batch, generator) for _ in range(self.batches)]

    def smaller(self) -> Exam:
        """A few of them, to see that it runs."""
        return replace(self, batches=1, batch=4)


Build = Callable[[Task], nn.Module]
Each = Callable[[nn.Module, torch.optim.Optimizer, int], None]
Look = Callable[[nn.Module], dict[str, float]]
Loss = Callable[[nn.Module, Task, Example], Tensor]


def answered(model: nn.Module, task: Task, example: Example) -> Tensor:
    """The task's loss of what the model answers."""
    return task.loss(model(example.inputs), example)


def leave(model: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
    """Changes nothing before an update."""


def nothing(model: nn.Module) -> dict[str, float]:
    """Looks at nothing."""
    return {}


@dataclass(frozen=True)
class Arm:
    """A model that is trained.

    ``build`` makes it for a task, after the seed was set; called with an example's inputs it returns logits
    (B, L, ``answers.width``). ``goals`` are bounds on the percentage wrong in the exams, by their names, that the worst
    seed is to keep. ``recipe`` stands in for the experiment's; ``each`` is called before every update (a rate that
    falls, a normaliser that is put in late); ``look`` finds more to report of the trained model; ``loss`` is what
    training makes small, where it is not the task's loss of the answers.
    """

    says: str
    build: Build
    goals: Mapping[str, Goal] = field(default_factory=dict)
    recipe: Recipe | None = None
    each: Each = leave
    look: Look = nothing
    loss: Loss = answered


@dataclass(frozen=True)
class Easier:
    """What a curriculum begins with: ``task`` is drawn from in the first ``updates`` updates."""

    task: Task
    updates: int


@dataclass(frozen=True)
class Experiment:
    """A task, how it is learnt, and by whom.

    ``validation`` chooses the checkpoint and ends the run; ``exams`` are taken once, by the checkpoint that was chosen.
    ``easier`` is what all arms are taught first.
    """

    name: str
    task: Task
    recipe: Recipe
    validation: Mapping[str, Exam]
    exams: Mapping[str, Exam]
    arms: Mapping[str, Arm]
    easier: Easier | None = None

    def taught(self, step: int) -> Task:
        """What is drawn from after so many updates."""
        first = self.easier
        return self.task if first is None or step >= first.updates else first.task

    def recipe_of(self, arm: str) -> Recipe:
        """How that arm is trained."""
        return self.arms[arm].recipe or self.recipe

    def quick(self) -> Experiment:
        """The same with hardly any updates and questions, to see that it runs."""

        def short(recipe: Recipe) -> Recipe:
            return replace(recipe, steps=2, batch=2, check=1)

        return replace(
            self,
            recipe=short(self.recipe),
            validation={name: exam.smaller() for name, exam in self.validation.items()},
            exams={name: exam.smaller() for name, exam in self.exams.items()},
            arms={n: replace(a, recipe=short(a.recipe) if a.recipe else None) for n, a in self.arms.items()},
            easier=self.easier and replace(self.easier, updates=1),
        )


def answer(model: nn.Module, task: Task, questions: list[Example]) -> tuple[float, float]:
    """The share wrong and the mean loss of a model's answers, without gradients."""
    wrong = asked = 0
    loss = 0.0
    was = model.training
    model.eval()
    with torch.no_grad():
        for example in questions:
            outputs: Tensor = model(example.inputs)
            wrong += int(task.wrong(task.decide(outputs), example).sum())
            asked += int(example.asked.sum()) * task.answers.parts
            loss += float(task.loss(outputs, example)) / len(questions)
    model.train(was)
    return wrong / asked, loss
