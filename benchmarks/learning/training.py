"""Training one model with one seed: a run that can stop at any moment and go on as if it had not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from dataclasses import replace as changed
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.harness.threads import one_thread
from benchmarks.learning.experiment import Experiment, answer
from regard.errors import RegardError
from regard.files import replace
from regard.stopping import stop_signals

__all__ = ["Outcome", "Run", "Stopped"]

Say = Callable[[str], None]


class Stopped(KeyboardInterrupt):
    """A signal came; everything is saved."""


@dataclass(frozen=True)
class Outcome:
    """What a run found: the share wrong in each exam, by the weights that were best in validation."""

    parameters: int
    steps: int
    best: int
    seconds: float
    validation: float
    exams: dict[str, float]
    seen: dict[str, float]
    resumed: bool = False


@dataclass
class _Position:
    """Where a run is; all of it numbers, so that it can be saved."""

    step: int = 0
    summed: float = 0.0  # loss since the last check
    best: list[float] | None = None  # share wrong and loss in validation
    best_step: int = 0
    calm: int = 0
    seconds: float = 0.0
    finished: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


class Run:
    """One arm of an experiment, one seed, its files in a folder.

    ``seed-N.jsonl`` is the log: what was run, one line a check, and in the end what was found. ``seed-N.pt`` is what a
    stopped run needs to go on. Each is written whole or not at all. A run that was stopped ends
    with the very weights it would have had.
    """

    def __init__(self, experiment: Experiment, arm: str, seed: int, folder: Path | None, steps: int | None = None):
        self.experiment, self.arm, self.seed = experiment, experiment.arms[arm], seed
        recipe = experiment.recipe_of(arm)
        self.recipe = recipe if steps is None else changed(recipe, steps=steps)
        self.log = None if folder is None else folder / experiment.name / arm / f"seed-{seed}.jsonl"
        torch.manual_seed(seed)
        self.model = self.arm.build(experiment.task)
        self.parameters = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        self.generator = torch.Generator().manual_seed(seed)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=self.recipe.rate)
        self.best = deepcopy(self.model.state_dict())
        self.at = _Position()
        self.identity = {
            "task": repr(experiment.task),
            "easier": experiment.easier and repr(experiment.easier),
            "memory": arm,
            "says": self.arm.says,
            "seed": seed,
            "parameters": self.parameters,
            "recipe": asdict(self.recipe),
            "validation": {name: repr(exam) for name, exam in experiment.validation.items()},
            "torch": torch.__version__.partition("+")[0],
        }
        self._restore()

    def go(self, say: Say) -> Outcome:
        """Trains until the recipe says enough, takes the exams, and keeps the log.

        Raises:
            Stopped: SIGINT or SIGTERM; what was done is saved, and the same call goes on from there.
        """
        begun, resumed = time.monotonic() - self.at.seconds, self.at.step > 0
        questions = {name: exam.questions() for name, exam in self.experiment.validation.items()}
        with one_thread(), stop_signals() as stop:
            self.model.train()
            while not self.at.finished:
                self._update()
                self.at.seconds = time.monotonic() - begun
                if self.at.step % self.recipe.check == 0 or self.at.step >= self.recipe.steps:
                    self._check(questions, say)
                    self._save()
                if stop and not self.at.finished:
                    self._save()
                    raise Stopped
            outcome = self._finish(resumed)
        if self.log is not None:
            self._write([*self.at.history, {"found": asdict(outcome)}])
        return outcome

    def _update(self) -> None:
        task, recipe = self.experiment.task, self.recipe
        self.arm.each(self.model, self.optimiser, self.at.step)
        example = self.experiment.taught(self.at.step).draw(recipe.batch, self.generator)
        loss = self.arm.loss(self.model, task, example)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        if not bool(torch.isfinite(norm)):
            raise RegardError(f"rate: the gradient is {float(norm)} at update {self.at.step + 1}; lower it")
        self.optimiser.step()
        self.at.step += 1
        self.at.summed += float(loss.detach())

    def _check(self, questions: dict[str, Any], say: Say) -> None:
        at, recipe, task = self.at, self.recipe, self.experiment.task
        found = {name: answer(self.model, task, asked) for name, asked in questions.items()}
        now = [sum(pair[i] for pair in found.values()) / len(found) for i in (0, 1)]
        if at.best is None or now < at.best:
            at.best, at.best_step, self.best = now, at.step, deepcopy(self.model.state_dict())
        at.calm = at.calm + 1 if now[0] <= recipe.enough else 0
        at.finished = at.step >= recipe.steps or at.calm >= recipe.calm
        since = at.step - (at.history[-1]["step"] if at.history else 0)
        shares = {name: round(pair[0], 6) for name, pair in found.items()}
        line = {"step": at.step, "loss": round(at.summed / since, 6), "wrong": shares, "validation loss": now[1]}
        at.history.append({**line, "seconds": round(at.seconds, 1)})
        at.summed = 0.0
        parts = ", ".join(f"{name} {100 * share:.2f} %" for name, share in shares.items())
        say(
            f"{self.experiment.name}, {self.identity['memory']}, seed {self.seed}: update {at.step:,} of "
            f"{recipe.steps:,}, loss {line['loss']:.4f}, wrong: {parts}, {at.seconds / 60:.1f} min"
        )

    def _finish(self, resumed: bool) -> Outcome:
        self.model.load_state_dict(self.best)
        exams = {
            name: answer(self.model, self.experiment.task, exam.questions())[0]
            for name, exam in self.experiment.exams.items()
        }
        with torch.no_grad():
            self.model.eval()
            seen = self.arm.look(self.model)
        at = self.at
        assert at.best is not None  # a run ends with a check
        return Outcome(self.parameters, at.step, at.best_step, at.seconds, at.best[0], exams, seen, resumed)

    def _save(self) -> None:
        if self.log is None:
            return
        out = BytesIO()
        state = {
            "model": self.model.state_dict(),
            "best": self.best,
            "optimiser": self.optimiser.state_dict(),
            "random": torch.get_rng_state(),
            "drawn": self.generator.get_state(),
            "position": dict(vars(self.at)),
            "identity": self.identity,
        }
        torch.save(state, out)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        replace(self.log.with_suffix(".pt"), out.getvalue(), "--logs")
        self._write(self.at.history)

    def _write(self, lines: list[dict[str, Any]]) -> None:
        assert self.log is not None
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [{"run": self.identity}, *lines])
        replace(self.log, text.encode(), "--logs")

    def _restore(self) -> None:
        path = None if self.log is None else self.log.with_suffix(".pt")
        if path is None or not path.exists():
            return
        try:
            state = torch.load(BytesIO(path.read_bytes()), weights_only=True)
        except Exception as error:
            raise RegardError(
                f"--logs: {path} cannot be read ({type(error).__name__}); remove it, or give another folder"
            ) from error
        for name, wanted in self.identity.items():
            if state["identity"].get(name) != wanted:
                found = state["identity"].get(name)
                raise RegardError(f"--logs: {path} has a run of {name} {found}, not {wanted}; give another folder")
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.best = state["best"]
        torch.set_rng_state(state["random"])
        self.generator.set_state(state["drawn"])
        self.at = _Position(**state["position"])
