"""What the doctor says: a finding, a fact, a check that passed, and what could not be tested."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.doctor.catalogue import entry

Severity = Literal["error", "warning", "note"]
Evidence = Mapping[str, float | int | bool | str]

#: Worst first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One fault: its stable code, where it is, what was measured, and what to do.

    ``severity`` and ``fix`` are the catalogue's where they are not given. ``module`` is the path in the model, as
    ``named_modules()`` spells it ("" is the model itself); ``source`` is ``file:line``, empty where unknown.

    >>> found = Finding("CAU001", "changing token 9 moves the output at 4", module="layers.3.attn")
    >>> found.severity, found.title
    ('error', 'Later tokens reach earlier outputs')
    """

    code: str
    message: str
    module: str = ""
    source: str = ""
    evidence: Evidence = field(default_factory=dict)
    severity: Severity = ""  # type: ignore[assignment]  # filled from the catalogue
    fix: str = ""

    def __post_init__(self) -> None:
        known = entry(self.code)
        object.__setattr__(self, "severity", self.severity or known.severity)
        object.__setattr__(self, "fix", self.fix or known.fix)

    @property
    def title(self) -> str:
        return entry(self.code).title

    @property
    def page(self) -> str:
        """The page that explains the code, below ``docs/``."""
        return f"findings/{self.code}.md"

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "title": self.title,
            "message": self.message,
            "module": self.module,
            "source": self.source,
            "evidence": {name: plain(value) for name, value in self.evidence.items()},
            "fix": self.fix,
        }


@dataclass(frozen=True)
class Fact:
    """Something found out that is no fault: "the model is causal"."""

    name: str
    value: str

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value}


@dataclass(frozen=True)
class Passed:
    """A check that could have failed and did not, with how near it came."""

    probe: str
    case: str
    evidence: Evidence = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        evidence = {name: plain(value) for name, value in self.evidence.items()}
        return {"probe": self.probe, "case": self.case, "evidence": evidence}


@dataclass(frozen=True)
class Untested:
    """What could not be tested, why, and what would make it testable. Never shown as passed."""

    probe: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        return {"probe": self.probe, "why": self.why}


Observation = Finding | Fact | Passed | Untested


def plain(value: Any) -> Any:
    """A number as JSON can hold it: what is not finite becomes its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    json.dumps(value)
    return value
