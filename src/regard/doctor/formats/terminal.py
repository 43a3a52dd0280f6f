"""A report in a terminal: findings worst first, then facts, what passed, and what could not be tested."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from regard.doctor.formats.place import place
from regard.doctor.formats.words import more, passed, safe, shown, summary, together, untested

if TYPE_CHECKING:
    from regard.doctor.finding import Finding
    from regard.doctor.report import Report

#: A piece of a line, and the Rich style that it has where there is colour.
Piece = tuple[str, str]

_INDENT = 10
_COLOURS = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}


def lines(report: Report, width: int = 100) -> Iterator[list[Piece]]:
    """The report, a line at a time, none wider than ``width`` where words allow it."""
    room = max(20, width - _INDENT)
    yield [(safe(report.model), "bold")]
    for group in together(report.findings):
        yield []
        yield from _group(group, room)
    if report.facts or report.passed or report.untested:
        yield []
    yield from _block("facts", [f"{one.name}: {one.value}" for one in report.facts], room, "")
    counts = [f"{probe} ({len(cases)})" for probe, cases in passed(report).items()]  # the page has each case
    yield from _block("passed", [", ".join(counts)] if counts else [], room, "green")
    yield from _block("untested", [f"{probes}: {why}" for probes, why in untested(report)], room, "magenta")
    yield []
    yield [(summary(report), "bold")]


def findings(found: list[Finding], width: int = 100) -> Iterator[list[Piece]]:
    """Findings alone, worst first as they are given, a line at a time."""
    for group in together(found):
        yield from _group(group, max(20, width - _INDENT))
        yield []


def text(report: Report, width: int = 100) -> str:
    """The report as plain text."""
    return "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines(report, width))


def _group(group: list[Finding], room: int) -> Iterator[list[Piece]]:
    first = group[0]
    title = _wrapped(first.title, room - len(first.code) - 2)
    yield [(f"{first.severity:<{_INDENT}}", _COLOURS[first.severity]), (first.code, "bold"), (f"  {title[0]}", "bold")]
    for line in title[1:]:
        yield [(" " * (_INDENT + len(first.code) + 2) + line, "bold")]
    full, rest = shown(group)
    before = ""
    for one in full:
        where = _where(one)
        if where != before:
            yield from _indented(where, room, "cyan")
        before = where
        yield from _indented(one.message, room, "")
    if rest:
        yield from _indented(more(rest), room, "cyan")
    yield from _indented(f"fix: {first.fix}", room, "italic")


def _where(one: Finding) -> str:
    at = place(one.source)
    return " ".join(part for part in (one.module, f"({at})" if at else "") if part)


def _block(label: str, texts: list[str], room: int, colour: str) -> Iterator[list[Piece]]:
    for number, each in enumerate(texts):
        for at, line in enumerate(_wrapped(each, room)):
            start = label if number == at == 0 else ""
            yield [(f"{start:<{_INDENT}}", f"bold {colour}".strip()), (line, "")]


def _indented(words: str, room: int, style: str) -> Iterator[list[Piece]]:
    for line in _wrapped(words, room) if words else []:
        yield [(" " * _INDENT, ""), (line, style)]


def _wrapped(words: str, room: int) -> list[str]:
    return wrap(safe(words), room, break_on_hyphens=False) or [""]
