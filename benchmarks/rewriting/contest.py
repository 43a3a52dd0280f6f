"""What is claimed of an experiment: bounds on a figure of one model, or on how far one is ahead of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness.row import Goal, Row
from benchmarks.harness.setting import Setting
from benchmarks.learning.experiment import Experiment
from benchmarks.learning.training import Outcome

__all__ = ["Claim", "Contest"]


@dataclass(frozen=True)
class Claim:
    """A bound on ``figure`` of an arm, or on how far it is ahead of the same figure of ``behind``.

    A figure is the share right in an exam, or what was looked at. Two arms are compared seed by seed, after as many
    updates each; the seed that is worst for the bound is judged.
    """

    figure: str
    arm: str
    goal: Goal | None = None
    behind: str | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """Whom it is about."""
        return (self.arm,) if self.behind is None else (self.arm, self.behind)

    def judged(self, name: str, found: Mapping[str, Sequence[Outcome]], seeds: str, setting: Setting) -> Row:
        """The figure of the worst seed, with those of all."""
        columns = [[figure(outcome, self.figure) for outcome in found[arm]] for arm in self.arms]
        values = [seed[0] - sum(seed[1:]) for seed in zip(*columns, strict=True)]
        each = ", ".join(" and ".join(f"{value:.3f}" for value in seed) for seed in zip(*columns, strict=True))
        lowest = self.goal is None or self.goal.above
        return Row(
            f"{name}, {self.figure}: {self.arm}" + (f" less {self.behind}" if self.behind else ""),
            self.behind or "",
            "apart" if self.behind else "",
            min(values) if lowest else max(values),
            min(values),
            max(values),
            rounds=len(values),
            goal=self.goal,
            judged=setting.judged,
            note=f"seeds {seeds}: {each}",
        )


@dataclass(frozen=True)
class Contest:
    """An experiment, and what is claimed of its arms."""

    experiment: Experiment
    claims: tuple[Claim, ...]
    curve: str | None = None
    """What the panel is called that shows the share right against length, if there is one."""

    def of(self, arms: Sequence[str]) -> Iterator[Claim]:
        """The claims about these arms alone."""
        return (claim for claim in self.claims if set(claim.arms) <= set(arms))


def figure(outcome: Outcome, name: str) -> float:
    """The share right in the exam of that name, or what was looked at under it."""
    return 1.0 - outcome.exams[name] if name in outcome.exams else outcome.seen[name]
