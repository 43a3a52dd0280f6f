"""The doctor's report: findings, facts, what passed and what could not be tested."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from regard.doctor.finding import SEVERITIES, Fact, Finding, Observation, Passed, Untested


@dataclass(frozen=True)
class Report:
    """What a check found. ``findings`` come worst first; ``untested`` is what could not be judged, and why."""

    model: str
    findings: list[Finding] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    untested: list[Untested] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def of(cls, model: str, observations: Iterable[Observation], seconds: float = 0.0) -> Report:
        """A report of what was observed, sorted by how bad it is, then by code and place."""
        seen = list(observations)
        findings = [one for one in seen if isinstance(one, Finding)]
        findings.sort(key=lambda one: (SEVERITIES.index(one.severity), one.code, one.module))
        return cls(
            model,
            findings,
            [one for one in seen if isinstance(one, Fact)],
            [one for one in seen if isinstance(one, Passed)],
            [one for one in seen if isinstance(one, Untested)],
            seconds,
        )

    @property
    def clean(self) -> bool:
        """No error and no warning; notes are allowed."""
        return all(one.severity == "note" for one in self.findings)

    @property
    def exit_status(self) -> int:
        """0 clean, 1 with an error or a warning, 2 where nothing could be run."""
        if not self.clean:
            return 1
        return 0 if self.passed or self.findings else 2

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "seconds": round(self.seconds, 3),
            "findings": [one.to_dict() for one in self.findings],
            "facts": [one.to_dict() for one in self.facts],
            "passed": [one.to_dict() for one in self.passed],
            "untested": [one.to_dict() for one in self.untested],
        }
