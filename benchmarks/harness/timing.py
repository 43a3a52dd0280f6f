"""Timing callables against each other, fairly enough for a shared machine.

Absolute times drift with whatever else runs; a ratio of two calls made one after the other drifts far less.
So all are called in turn, A B C A B C …, and a ratio is taken within each round.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchmarks.harness.peers import Missing
from benchmarks.harness.row import NOTHING, Cost, Goal, Row
from benchmarks.harness.setting import Setting

__all__ = ["Contender", "Lap", "Race", "race", "reason"]

ENOUGH = 0.01  # seconds: a shorter call is repeated until one sample takes about this long
MOST = 50  # repeats


@dataclass(frozen=True)
class Contender:
    """Something to time: `make` prepares the inputs and returns the call."""

    name: str
    make: Callable[[], Callable[[], object]]


@dataclass
class Lap:
    """What one contender did: seconds a call, one number a round, and what the first call of all took."""

    name: str
    first: float = 0.0
    seconds: list[float] = field(default_factory=list)
    differs: float = 0.0
    problem: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class Race:
    """The laps of contenders that were called in turn. The first is ours."""

    setting: Setting
    laps: dict[str, Lap]

    @property
    def ours(self) -> Lap:
        return next(iter(self.laps.values()))

    def row(
        self,
        peer: str,
        work: str,
        *,
        goal: Goal | None = None,
        cost: Cost = NOTHING,
        note: str = "",
        ours: str = "",
    ) -> Row:
        """Ours beside one peer: how many times faster where the goal is a speed-up, else how many times its time."""
        mine, theirs = self.laps[ours] if ours else self.ours, self.laps[peer]
        faster = goal is not None and goal.above
        ratios = [b / a if faster else a / b for a, b in zip(mine.seconds, theirs.seconds, strict=False)]
        problem = mine.problem or theirs.problem
        if not problem and theirs.differs > self.setting.tolerance:
            problem = f"the results differ by {theirs.differs:.1g} of the largest number"
        return Row(
            work=work,
            peer=peer,
            unit="× faster" if faster else "× its time",
            value=statistics.median(ratios) if ratios else None,
            low=min(ratios, default=None),
            high=max(ratios, default=None),
            ours=mine.median,
            theirs=theirs.median,
            rounds=len(ratios),
            goal=goal,
            judged=self.setting.judged,
            cost=cost,
            problem=problem,
            note=note,
        )


def race(setting: Setting, contenders: Sequence[Contender], *, rounds: int = 0, warmup: int = 1) -> Race:
    """Call all in turn, `rounds` times (the setting's when 0); one that fails says why and the rest goes on.

    The results of the first call are compared with those of the first contender, so that nothing is timed against
    a peer that computes something else. They are compared where they are tensors, or tuples of tensors.

    >>> sums = [Contender(str(n), lambda n=n: lambda: sum(range(n))) for n in (2_000, 1_000)]
    >>> row = race(Setting(), sums, rounds=3).row("1000", "sums")
    >>> row.low <= row.value <= row.high, row.rounds, row.unit
    (True, 3, '× its time')
    """
    rounds = rounds or setting.rounds
    laps = {each.name: Lap(each.name) for each in contenders}
    calls: dict[str, Callable[[], object]] = {}
    ours: list[Tensor] | None = None
    for each in contenders:
        lap = laps[each.name]
        try:
            start = time.perf_counter()
            calls[each.name] = call = each.make()
            result = _tensors(call())
            setting.settle()
            lap.first = time.perf_counter() - start
            ours = result if ours is None else ours
            lap.differs = _difference(result, ours)
        except Exception as error:
            lap.problem = reason(each.name, error)
            calls.pop(each.name, None)
    del ours
    result = []
    repeats: dict[str, int] = {}
    gc.collect()
    for number in range(warmup + rounds):
        for name, call in list(calls.items()):
            try:
                seconds = _seconds(setting, call, repeats.get(name, 1))
            except Exception as error:
                laps[name].problem = reason(name, error)
                laps[name].seconds.clear()
                del calls[name]
                continue
            repeats[name] = min(MOST, max(1, round(ENOUGH / max(seconds, 1e-9))))
            if number >= warmup:
                laps[name].seconds.append(seconds)
    return Race(setting, laps)


def reason(name: str, error: Exception) -> str:
    """Why something failed, in one line.

    >>> reason("entmax", ValueError("no"))
    'entmax failed: ValueError: no'
    """
    if isinstance(error, Missing):
        return str(error)
    words = " ".join(str(error).split())
    return f"{name} failed: {type(error).__name__}: {words[:200]}{'…' if len(words) > 200 else ''}"


def _seconds(setting: Setting, call: Callable[[], object], repeats: int) -> float:
    """How long one call takes, the accelerator's queued work included."""
    setting.settle()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    setting.settle()
    return (time.perf_counter() - start) / repeats


def _tensors(result: object) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result.detach()]
    return [each.detach() for each in result if isinstance(each, Tensor)] if isinstance(result, (tuple, list)) else []


def _difference(found: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest difference as a share of the largest number; infinite when the shapes differ."""
    if not found or not wanted:
        return 0.0
    if [x.shape for x in found] != [x.shape for x in wanted]:
        return torch.inf
    shares = [
        (x.double() - y.double()).abs().max() / y.double().abs().max().clamp(min=1e-30)
        for x, y in zip(found, wanted, strict=True)
    ]
    return float(torch.stack(shares).max())
