"""What every format says in the same words: counts, the findings of one code, text safe to show."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from regard.doctor.finding import SEVERITIES

if TYPE_CHECKING:
    from regard.doctor.finding import Finding
    from regard.doctor.report import Report

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")  # control, direction marks, halves of a pair, and what has no meaning


def safe(text: str) -> str:
    """``text`` on one line, without what could command a terminal or reverse its direction.

    >>> safe("a\\tb\\n \\x1b[31mred")
    'a b �[31mred'
    """
    return "".join("�" if unicodedata.category(c) in _HIDDEN else c for c in " ".join(text.split()))


def together(findings: list[Finding]) -> Iterator[list[Finding]]:
    """The findings of one code, severity and fix, worst first."""
    for _, group in groupby(findings, key=lambda one: (one.severity, one.code, one.fix)):
        yield list(group)


_FEW = 3  # findings of a code that are shown in full; a fault of the model's one attention class is in every layer
_NAMED = 8


def shown(group: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Of a group, those to show in full, and the rest: all where they are few, else the first."""
    many = len(group) > _FEW
    return (group[:1], group[1:]) if many else (group, [])


def more(rest: list[Finding]) -> str:
    """A line for the rest of a group: how many more there are, and where."""
    modules = list(dict.fromkeys(one.module or "the model" for one in rest))
    names = ", ".join(modules[:_NAMED]) + (", …" if len(modules) > _NAMED else "")
    return f"and {len(rest)} more, in {names}"


def passed(report: Report) -> dict[str, list[str]]:
    """The cases that passed, by probe, each in the order in which they ran."""
    cases: dict[str, list[str]] = {}
    for one in report.passed:
        cases.setdefault(one.probe, []).append(one.case)
    return cases


def untested(report: Report) -> list[tuple[str, str]]:
    """The probes that could not look, those with one reason together, and why."""
    probes: dict[str, list[str]] = {}
    for one in report.untested:
        probes.setdefault(one.why, []).append(one.probe)
    return [(", ".join(dict.fromkeys(names)), why) for why, names in probes.items()]


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "error"), counted(3, "note")
    ('1 error', '3 notes')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def summary(report: Report) -> str:
    """One line: what was found, how much passed, how much could not be tested, and the time."""
    numbers = {name: sum(one.severity == name for one in report.findings) for name in SEVERITIES}
    found = [counted(number, name) for name, number in numbers.items() if number]
    if report.exit_status == 2:
        found = ["nothing could be tested"]
    elif not found:
        found = ["nothing found"]
    parts = [
        ", ".join(found),
        f"{counted(len(report.passed), 'check')} passed",
        f"{len(report.untested):,} could not be tested" if report.untested else "",
        f"{report.seconds:.1f} s" if report.seconds else "",
    ]
    return "; ".join(part for part in parts if part)
