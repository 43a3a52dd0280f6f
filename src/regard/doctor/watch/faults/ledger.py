"""The findings so far: one for each code and place, with how many calls had it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from regard.doctor.finding import SEVERITIES, Finding

Key = tuple[str, str, str]


class Ledger:
    """Keeps the worst finding of each code and place, and counts the calls."""

    def __init__(self) -> None:
        self.found: dict[Key, Finding] = {}
        self.calls: dict[Key, int] = {}

    def add(self, findings: Iterable[Finding], calls: int = 1) -> None:
        for one in findings:
            key = (one.code, one.module, one.source)
            known = self.found.get(key)
            if known is None or SEVERITIES.index(one.severity) < SEVERITIES.index(known.severity):
                self.found[key] = one
            self.calls[key] = self.calls.get(key, 0) + calls

    def merge(self, other: Ledger) -> None:
        for key, one in other.found.items():
            self.add([one], other.calls[key])

    def findings(self, more: Iterable[Finding] = ()) -> list[Finding]:
        """All of them and ``more``, worst first."""
        told = [
            replace(one, evidence={**one.evidence, "calls": self.calls[key]}) for key, one in self.found.items()
        ]  # fmt: skip
        return sorted([*told, *more], key=lambda one: (SEVERITIES.index(one.severity), one.code, one.module))
