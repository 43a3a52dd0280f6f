"""The learning rate as a run goes on, by name: the share of the full rate that an update takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from regard.errors import RegardError, unknown_name
from regard.translate.training.numbers import Number, completed

__all__ = ["SCHEDULES", "Schedule", "schedule"]


@dataclass(frozen=True)
class Schedule(ABC):
    """The rate climbs in a straight line over ``warmup`` updates (0: at once), times what it does afterwards."""

    warmup: int

    def __call__(self, update: int, epochs: float, of: int) -> float:
        """The share of the full rate at ``update``, counted from 1, when ``epochs`` of ``of`` are done."""
        climb = min(1.0, update / self.warmup) if self.warmup else 1.0
        return climb * self.after(update, epochs, of)

    @abstractmethod
    def after(self, update: int, epochs: float, of: int) -> float:
        """The share when the climb is over."""


class Cosine(Schedule):
    """Half a cosine, 0 at the end of the last epoch (Loshchilov & Hutter 2017, one cycle)."""

    def after(self, update: int, epochs: float, of: int) -> float:
        return 0.5 * (1.0 + math.cos(math.pi * min(epochs / of, 1.0)))


class Linear(Schedule):
    """A straight line, 0 at the end of the last epoch."""

    def after(self, update: int, epochs: float, of: int) -> float:
        return 1.0 - min(epochs / of, 1.0)


class Constant(Schedule):
    """The full rate."""

    def after(self, update: int, epochs: float, of: int) -> float:
        return 1.0


@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """min(√(warmup / update), update / warmup): the full rate at update ``warmup`` (Vaswani et al. 2017, equation 3).

    Theirs, D^-½ · min(update^-½, update · warmup^-1½), is this with a full rate of (D · warmup)^-½.
    """

    def __post_init__(self) -> None:
        if self.warmup < 1:
            raise RegardError(f"warmup: found {self.warmup}, inverse-sqrt wants 1 update or more (published: 4000)")

    def after(self, update: int, epochs: float, of: int) -> float:
        return min(1.0, math.sqrt(self.warmup / update))


@dataclass(frozen=True)
class Halving(Schedule):
    """The full rate for ``halve_after`` epochs; then half of it, and half again every ``halve_every`` epochs.

    Sutskever et al. (2014): after 5, every half epoch. Luong et al. (2015): after 5 (with dropout 8), every epoch.
    """

    halve_after: float = 5.0
    halve_every: float = 0.5

    def after(self, update: int, epochs: float, of: int) -> float:
        late = epochs - self.halve_after
        return 1.0 if late < 0 else 0.5 ** (1 + math.floor(late / self.halve_every))


SCHEDULES: dict[str, tuple[type[Schedule], dict[str, Number]]] = {
    "cosine": (Cosine, {}),
    "linear": (Linear, {}),
    "constant": (Constant, {}),
    "inverse-sqrt": (InverseSqrt, {}),
    "halving": (Halving, {"halve_after": Number(5.0), "halve_every": Number(0.5, above=True)}),
}


def schedule(name: str, warmup: int, given: Mapping[str, float]) -> tuple[Schedule, dict[str, float]]:
    """The schedule of that name, and all of its own numbers.

    Raises:
        RegardError: there is none (lists those that are), or a number that it does not have.

    >>> rate, _ = schedule("inverse-sqrt", 4000, {})
    >>> rate(1000, 0.0, 1), rate(4000, 0.0, 1), rate(16000, 0.0, 1)
    (0.25, 1.0, 0.5)
    """
    if name not in SCHEDULES:
        raise unknown_name("schedule", name, SCHEDULES)
    kind, known = SCHEDULES[name]
    numbers = completed(name, known, given)
    return kind(warmup, **numbers), numbers
