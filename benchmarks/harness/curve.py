"""Time and memory against length: the points of the plot, and the exponent they follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.harness.memory import extra_mib
from benchmarks.harness.row import Goal, Point, Row
from benchmarks.harness.setting import Make, Setting
from benchmarks.harness.timing import Contender, race, reason

__all__ = ["Series", "curve", "exponent"]


@dataclass(frozen=True)
class Series:
    """One line of a plot: `make(setting, length)` at each of `lengths`."""

    name: str
    make: Make
    lengths: tuple[int, ...]


def curve(
    setting: Setting, work: str, series: Sequence[Series], *, small: int, rounds: int = 3
) -> Iterator[Row | Point]:
    """A point for each length of each series, timed in turn; a row in place of a series' point that fails."""
    for length in sorted({n for each in series for n in each.lengths}):
        here = [each for each in series if length in each.lengths]
        laps = race(
            setting, [Contender(each.name, partial(each.make, setting, length)) for each in here], rounds=rounds
        )
        for each in here:
            lap = laps.laps[each.name]
            problem, mib = lap.problem, None
            if not problem:
                try:
                    mib = extra_mib(setting, each.make, [min(small, length)], [length])
                except Exception as error:
                    problem = reason(each.name, error)
            if problem:
                yield Row(f"{work}, L={length:,}", each.name, "s", problem=problem)
            if lap.median is not None:
                yield Point(work, each.name, length, lap.median, mib)


def exponent(setting: Setting, work: str, points: Sequence[Point], what: str, *, goal: Goal) -> Row:
    """The p of time (`what` is "seconds") or memory ("mib") ∝ length^p, by least squares on logarithms.

    >>> points = [Point("", "", n, seconds=3.0 * n**2) for n in (1, 2, 4)]
    >>> round(exponent(Setting(), "squares", points, "seconds", goal=Goal(1.1, above=False)).value, 3)
    2.0
    """
    found = [(math.log(p.length), math.log(y)) for p in points if (y := getattr(p, what))]
    row = partial(Row, work, "length to the power", "", goal=goal, judged=setting.judged)
    if len(found) < 2:
        return row(problem=f"{len(found)} lengths were measured; a slope needs two")
    x_mean, y_mean = (sum(axis) / len(found) for axis in zip(*found, strict=True))
    slope = sum((x - x_mean) * (y - y_mean) for x, y in found) / sum((x - x_mean) ** 2 for x, _ in found)
    return row(
        value=slope,
        note=f"{len(found)} lengths, {min(p.length for p in points):,} to {max(p.length for p in points):,}",
    )
