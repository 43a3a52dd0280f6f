"""What was asked to be learnt, checked before anything slow begins, then trained and told as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.harness.asked import at_least_one, names, seeds_of
from benchmarks.harness.report import figure
from benchmarks.harness.row import Line, Row
from benchmarks.harness.setting import Setting
from benchmarks.learning.experiment import Experiment
from benchmarks.learning.training import Outcome, Run, Say
from benchmarks.recall import experiments

__all__ = ["learn", "tasks"]

Rows = Callable[[Setting, Say], Iterator[Row | Line]]


def learn(
    task: str,
    memory: str | None = None,
    seeds: str = "0,1,2",
    steps: int | None = None,
    logs: Path | None = Path("runs/memory"),
) -> Rows:
    """Trains ``memory`` (names with commas between; all arms when None) on ``task``, once for every seed.

    Raises:
        RegardError: a name that is not known, seeds that are no numbers; before anything is trained.
    """
    experiment = experiments.named(task)
    arms = names(f"--memory (of --task {task})", memory, experiment.arms)
    numbers = seeds_of(seeds)
    at_least_one("--steps", steps)

    def rows(setting: Setting, say: Say) -> Iterator[Row | Line]:
        what = experiment.quick() if setting.quick else experiment
        for arm in arms:
            found: list[Outcome] = []
            for seed in numbers:
                outcome = Run(what, arm, seed, logs, steps).go(say)
                found.append(outcome)
                yield _line(what, arm, seed, outcome)
            yield from _judged(what, arm, numbers, found, setting)

    return rows


def tasks() -> dict[str, str]:
    """What can be learnt, by name, and by which models."""
    return {name: ", ".join(experiments.named(name).arms) for name in experiments.known()}


def _line(experiment: Experiment, arm: str, seed: int, outcome: Outcome) -> Line:
    """One run in the table of its task: the exams' percentages wrong, and what else was looked at."""
    cells = {
        "memory": arm,
        "seed": str(seed),
        "parameters": f"{outcome.parameters:,}",
        "updates": f"{outcome.steps:,}",
        "kept": f"{outcome.best:,}",
        "minutes": figure(outcome.seconds / 60),
        "validation": f"{100 * outcome.validation:.2f}",
        **{name: f"{100 * share:.2f}" for name, share in outcome.exams.items()},
        **{name: figure(value) for name, value in outcome.seen.items()},
    }
    title = f"{experiment.name}: % wrong, by the weights that were best in validation"
    return Line(title, cells, {"seed": seed, "says": experiment.arms[arm].says, **vars(outcome)})


def _judged(
    experiment: Experiment, arm: str, seeds: Sequence[int], found: Sequence[Outcome], setting: Setting
) -> Iterator[Row]:
    """What the arm is to keep, judged by its worst seed."""
    for exam, goal in experiment.arms[arm].goals.items():
        shares = [100 * outcome.exams[exam] for outcome in found]
        yield Row(
            work=f"{experiment.name}, {exam}: {arm}, {experiment.arms[arm].says}",
            peer="",
            unit="% wrong",
            value=min(shares) if goal.above else max(shares),
            low=min(shares),
            high=max(shares),
            rounds=len(shares),
            goal=goal,
            judged=setting.judged,
            note=f"the {'best' if goal.above else 'worst'} of seeds {', '.join(map(str, seeds))}",
        )
