"""What was asked to be learnt, checked before anything slow begins, then trained and told as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness.asked import at_least_one, names, seeds_of
from benchmarks.harness.report import figure
from benchmarks.harness.row import Line, Row, Spot
from benchmarks.harness.setting import Setting
from benchmarks.learning.training import Outcome, Run, Say
from benchmarks.rewriting.contest import Contest
from benchmarks.rewriting.contests import CONTESTS, contest

__all__ = ["learn", "tasks"]

Rows = Callable[[Setting, Say], Iterator[Row | Line | Spot]]


def learn(
    task: str | None = None,
    model: str | None = None,
    seeds: str = "0,1,2",
    steps: int | None = None,
    logs: Path | None = Path("runs/transduction"),
) -> Rows:
    """Trains ``model`` on ``task`` (names with commas between; all where None), once for every seed.

    Raises:
        RegardError: a name that is not known, seeds that are no numbers; before anything is trained.
    """
    asked = names("--task", task, CONTESTS)
    known = dict.fromkeys(arm for name in asked for arm in contest(name).experiment.arms)
    wanted = names(f"--model (of --task {','.join(asked)})", model, known)
    numbers = seeds_of(seeds)
    at_least_one("--steps", steps)

    def rows(setting: Setting, say: Say) -> Iterator[Row | Line | Spot]:
        folder = logs if logs is None or not setting.quick else logs / "quick"
        for name in asked:
            what = contest(name, setting.quick)
            found: dict[str, list[Outcome]] = {arm: [] for arm in what.experiment.arms if arm in wanted}
            for arm, outcomes in found.items():
                for seed in numbers:
                    outcomes.append(Run(what.experiment, arm, seed, folder, steps).go(say))
                    yield _line(what, arm, seed, outcomes[-1])
            for claim in what.of(list(found)):
                yield claim.judged(name, found, seeds, setting)
            yield from _curve(what, found)

    return rows


def tasks() -> dict[str, str]:
    """What can be learnt, by name, and by which models."""
    return {name: ", ".join(contest(name).experiment.arms) for name in CONTESTS}


def _line(what: Contest, arm: str, seed: int, outcome: Outcome) -> Line:
    """One run in the table of its task."""
    cells = {
        "model": arm,
        "seed": str(seed),
        "parameters": f"{outcome.parameters:,}",
        "updates": f"{outcome.steps:,}",
        "kept": f"{outcome.best:,}",
        "minutes": figure(outcome.seconds / 60),
        **{name.removeprefix("length "): f"{1 - share:.3f}" for name, share in outcome.exams.items()},
        **{name: f"{value:.1f}" if "BLEU" in name else f"{value:.3f}" for name, value in outcome.seen.items()},
    }
    found = {"seed": seed, "says": what.experiment.arms[arm].says, **vars(outcome)}
    return Line(f"{what.experiment.name}: share right by length, each word after the true ones", cells, found)


def _curve(what: Contest, found: dict[str, list[Outcome]]) -> Iterator[Spot]:
    """The share right against length, the mean over seeds."""
    if what.curve is None:
        return
    for arm, outcomes in found.items():
        for name in what.experiment.exams:
            right = sum(1 - outcome.exams[name] for outcome in outcomes) / len(outcomes)
            length = float(name.removeprefix("length "))
            yield Spot(what.curve, arm, length, right, ("words of the source", "share right"), by_powers=False)
