"""The doctor's report: findings, facts, what passed and what could not be tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from regard.doctor.catalogue import entry
from regard.doctor.finding import SEVERITIES, Fact, Finding, Observation, Passed, Untested

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType


@dataclass(frozen=True)
class Report:
    """What a check found. ``findings`` come worst first; ``untested`` is what could not be judged, and why.

    It prints itself, in a terminal and in a notebook. ``source`` is the ``file:line`` where the model is written, for
    findings that have no place of their own.

    >>> report = Report.of("Toy", [Finding("POS001", "left padding moves 4 of 5"), Passed("future", "cut at 3")])
    >>> print(report)
    Toy
    <BLANKLINE>
    note      POS001  Left padding shifts positions unless they are given
              left padding moves 4 of 5
              fix: Pass position_ids = (mask.cumsum(-1) - 1).clamp(min=0) with a left-padded batch.
    <BLANKLINE>
    passed    future (1)
    <BLANKLINE>
    1 note; 1 check passed
    >>> report.clean, report.exit_status
    (True, 0)
    """

    model: str
    findings: list[Finding] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    untested: list[Untested] = field(default_factory=list)
    seconds: float = 0.0
    source: str = ""

    @classmethod
    def of(cls, model: str, observations: Iterable[Observation], seconds: float = 0.0, source: str = "") -> Report:
        """A report of what was observed, sorted by how bad it is, then by code."""
        seen = list(observations)
        findings = [one for one in seen if isinstance(one, Finding)]
        findings.sort(key=lambda one: (SEVERITIES.index(one.severity), one.code))  # a code's places stay as they ran
        return cls(
            model,
            findings,
            [one for one in seen if isinstance(one, Fact)],
            [one for one in seen if isinstance(one, Passed)],
            [one for one in seen if isinstance(one, Untested)],
            seconds,
            source,
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

    def accepting(self, codes: Iterable[str]) -> Report:
        """The report with the findings of these codes as notes that say so: accepted is not the same as not there.

        Raises:
            RegardError: a code that the catalogue does not have.
        """
        accepted = {code: entry(code) for code in codes}
        findings = [
            replace(one, severity="note", message=f"accepted ({one.severity}): {one.message}")
            if one.code in accepted and one.severity != "note"
            else one
            for one in self.findings
        ]
        found: list[Observation] = [*findings, *self.facts, *self.passed, *self.untested]
        return Report.of(self.model, found, self.seconds, self.source)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, as JSON holds them."""
        return {
            "model": self.model,
            "source": self.source,
            "clean": self.clean,
            "exit_status": self.exit_status,
            "seconds": round(self.seconds, 3),
            "findings": [one.to_dict() for one in self.findings],
            "facts": [one.to_dict() for one in self.facts],
            "passed": [one.to_dict() for one in self.passed],
            "untested": [one.to_dict() for one in self.untested],
        }

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Report:
        """The report that :meth:`to_dict` wrote."""
        made = {"title"}  # follows from the code
        return cls(
            known["model"],
            [Finding(**{name: value for name, value in one.items() if name not in made}) for one in known["findings"]],
            [Fact(**one) for one in known["facts"]],
            [Passed(**one) for one in known["passed"]],
            [Untested(**one) for one in known["untested"]],
            known["seconds"],
            known["source"],
        )

    def to_html(self) -> str:
        """One page that needs no network and no script."""
        from regard.doctor.formats.page import document

        return document([self])

    def to_sarif(self) -> dict[str, Any]:
        """A SARIF 2.1.0 log, for code review."""
        from regard.doctor.formats.sarif import document

        return document([self])

    def __str__(self) -> str:
        from regard.doctor.formats.terminal import text

        return text(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        from regard.doctor.formats.terminal import lines

        for line in lines(self, options.max_width):
            yield Text.assemble(*line)

    def _repr_html_(self) -> str:
        from regard.doctor.formats.page import section

        return section(self)
