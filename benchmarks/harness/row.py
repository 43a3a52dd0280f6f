"""One line of the table, and one point of the plot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = ["Cost", "Drawing", "Goal", "Line", "Point", "Row", "Spot", "at_least", "at_most"]


@dataclass(frozen=True)
class Goal:
    """A bound that a figure is to keep.

    >>> goal = at_least(25)
    >>> str(goal), goal.met(30), goal.met(20), f"{goal.miss(20):.0%}"
    ('≥ 25', True, False, '20%')
    """

    bound: float
    above: bool

    def met(self, value: float) -> bool:
        return value >= self.bound if self.above else value <= self.bound

    def miss(self, value: float) -> float:
        """How far `value` is on the wrong side, as a share of the bound (of 1 where the bound is 0)."""
        gap = self.bound - value if self.above else value - self.bound
        return max(0.0, gap / (self.bound or 1.0))

    def __str__(self) -> str:
        return f"{'≥' if self.above else '≤'} {self.bound:,g}"


def at_least(bound: float) -> Goal:
    return Goal(bound, above=True)


def at_most(bound: float) -> Goal:
    return Goal(bound, above=False)


@dataclass(frozen=True)
class Cost:
    """The floating-point operations of one call, and the bytes that must move; 0 where nobody counted."""

    flops: float = 0.0
    bytes: float = 0.0


NOTHING = Cost()


@dataclass(frozen=True)
class Row:
    """What was found for one piece of work, beside a peer where there is one.

    ``value`` is in ``unit``: a ratio ("× faster", "× its time", "× less memory") or an amount ("MiB", "s"), with the
    range ``low`` to ``high`` it had over the rounds. ``ours`` and ``theirs`` are what the ratio was made of, in
    ``amount`` ("s" or "MiB"). ``problem`` says why there is no value, or why it does not count.

    >>> row = Row("causal", "SDPA", "× its time", 1.2, 1.1, 1.4, goal=at_most(1.1))
    >>> row.met, row.verdict
    (False, 'NOT met: 9.1 % over')
    """

    work: str
    peer: str
    unit: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    ours: float | None = None
    theirs: float | None = None
    amount: str = "s"
    rounds: int = 1
    goal: Goal | None = None
    judged: bool = True
    cost: Cost = NOTHING
    problem: str = ""
    note: str = ""
    benchmark: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal, without a value, or at shapes the goal is not about."""
        if self.goal is None or self.value is None or self.problem or not self.judged:
            return None
        return self.goal.met(self.value)

    @property
    def verdict(self) -> str:
        """`met` in words, and by how much not."""
        if self.goal is None:
            return ""
        if self.value is None or self.problem:
            return "not measured"
        if not self.judged:
            return "not judged"
        if self.goal.met(self.value):
            return "met"
        return f"NOT met: {100 * self.goal.miss(self.value):.2g} % {'short' if self.goal.above else 'over'}"

    def of(self, benchmark: str) -> Row:
        """This row, marked with the benchmark that measured it."""
        return replace(self, benchmark=benchmark)

    def to_dict(self) -> dict[str, Any]:
        goal = None if self.goal is None else str(self.goal)
        return asdict(self) | {"goal": goal, "met": self.met, "verdict": self.verdict}


@dataclass(frozen=True)
class Point:
    """What `series` took for `work` at one length; None where it was not measured. `axes` says what the plot's are."""

    work: str
    series: str
    length: int
    seconds: float | None = None
    mib: float | None = None
    axes: tuple[str, str] = ("length", "MiB beyond the inputs")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Line:
    """A line of a table of its own, for what has many figures and no one of them is the value; `found` is unrounded."""

    table: str
    cells: dict[str, str]
    found: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Spot:
    """One point of a panel: what ``series`` was at x. Panels stand side by side and share one legend."""

    panel: str
    series: str
    x: float
    y: float
    axes: tuple[str, str]
    logarithmic: bool = False
    """Whether y is drawn by its logarithm."""
    peer: bool = False
    """Whether it is somebody else's, and drawn with a broken line."""
    by_powers: bool = True
    """Whether x is drawn by its logarithm."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Drawing:
    """A picture of what was found that is no plot of figures: ``draw`` makes it, with matplotlib, on request."""

    draw: Callable[[Path], None]
