"""Numbers that belong to one rule among several of the same kind, and are refused beside the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from regard.errors import RegardError

__all__ = ["Number", "completed"]


@dataclass(frozen=True)
class Number:
    """A number's own value and what it may be: ``least`` or more (``above`` it, where that is set), below ``below``."""

    value: float
    least: float = 0.0
    below: float = float("inf")
    above: bool = False

    def check(self, name: str, found: float) -> float:
        """``found`` as a float.

        Raises:
            RegardError: it is outside.
        """
        inside = self.least <= found < self.below and not (self.above and found == self.least)
        if not inside:
            begin, least = "(" if self.above else "[", f"{self.least:g}"
            raise RegardError(f"{name}: found {found}, wanted a number in {begin}{least}, {self.below:g})")
        return float(found)


def completed(rule: str, known: Mapping[str, Number], given: Mapping[str, float]) -> dict[str, float]:
    """All numbers of ``rule``: those ``given``, and its own where nothing is.

    Raises:
        RegardError: a number that this rule does not have, or one that cannot be.

    >>> completed("adadelta", {"rho": Number(0.95, below=1.0), "eps": Number(1e-6)}, {"rho": 0.9})
    {'rho': 0.9, 'eps': 1e-06}
    """
    for name in given:
        if name not in known:
            has = ", ".join(known) or "none"
            raise RegardError(f"{name}: {rule} has no such number; it has {has}")
    return {name: number.check(name, given.get(name, number.value)) for name, number in known.items()}
