"""A report as one page: no script, no font, no address, so no network; light, dark, and in print."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from regard.doctor.finding import plain
from regard.doctor.formats.place import place
from regard.doctor.formats.words import more, passed, safe, shown, summary, together, untested

if TYPE_CHECKING:
    from regard.doctor.finding import Evidence, Finding
    from regard.doctor.report import Report

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:54rem;margin:2rem auto;padding:0 1rem;color:#1c1c28;background:#fff}
.regard h2{font-size:1.2em;margin:0 0 .2rem}.regard{margin:0 0 3rem;overflow-wrap:anywhere}
.regard .sum{font-weight:600;margin:0 0 1rem}
.regard article{border:1px solid #d8d8e4;border-left:.4rem solid #2b7a9b;border-radius:.3rem;padding:.6rem 1rem;
margin:0 0 1rem;break-inside:avoid}
.regard article.error{border-left-color:#c0263a}.regard article.warning{border-left-color:#b57600}
.regard h3{font-size:1em;margin:0}.regard h3 b{font-family:ui-monospace,monospace}
.regard .tag{display:inline-block;min-width:4.5em;font-weight:700;color:#2b7a9b}
.regard .error .tag{color:#c0263a}.regard .warning .tag{color:#8a5a00}
.regard .at{font:.9em ui-monospace,monospace;color:#555;margin:.4rem 0 0}.regard p{margin:.2rem 0}
.regard .fix{margin-top:.5rem}.regard .fix b,.regard dt{font-weight:600}
.regard details{font-size:.9em;color:#555}.regard table{border-collapse:collapse}
.regard td,.regard th{padding:.1rem .8rem .1rem 0;text-align:left;font-variant-numeric:tabular-nums}
.regard dl{margin:1rem 0}.regard dd{margin:0 0 .3rem 1.2rem}.regard dt.untested{color:#8a2be2}
@media (prefers-color-scheme:dark){body{background:#15151d;color:#e8e8f0}.regard article{border-color:#33333f}
.regard .at,.regard details{color:#aaa}.regard .tag{color:#6cc0e0}.regard .error .tag{color:#ff7a8a}
.regard .warning .tag{color:#f0b84a}.regard dt.untested{color:#c79bff}}
@media print{body{max-width:none;margin:0;color:#000;background:#fff}.regard article{border-color:#999}}
"""


def document(reports: Sequence[Report], title: str = "regard check") -> str:
    """A whole page with the reports below each other."""
    body = "\n".join(_section(report) for report in reports) or "<p>Nothing was checked.</p>"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{_text(title)}</h1>\n{body}\n</body></html>\n"
    )


def section(report: Report) -> str:
    """One report with its style, for a notebook."""
    return f"<style>{_STYLE.replace('body{', '.regard{')}</style>{_section(report)}"


def _section(report: Report) -> str:
    findings = "".join(_article(group) for group in together(report.findings))
    rest = [
        *_definitions("", "Facts", [(one.name, one.value) for one in report.facts]),
        *_definitions("", "Passed", [(probe, "; ".join(cases)) for probe, cases in passed(report).items()]),
        *_definitions("untested", "Could not be tested", untested(report)),
    ]
    return (
        f'<section class="regard"><h2>{_text(report.model)}</h2><p class="sum">{_text(summary(report))}</p>'
        f"{findings}{''.join(rest)}</section>"
    )


def _article(group: list[Finding]) -> str:
    first = group[0]
    full, rest = shown(group)
    found = "".join(_found(one) for one in full)
    if rest:
        found += f"<details><summary>{_text(more(rest))}</summary>{''.join(_found(one) for one in rest)}</details>"
    return (
        f'<article class="{first.severity}"><h3><span class="tag">{first.severity}</span> <b>{_text(first.code)}</b> '
        f'{_text(first.title)}</h3>{found}<p class="fix"><b>Fix:</b> {_text(first.fix)}</p></article>'
    )


def _found(one: Finding) -> str:
    at = place(one.source)
    where = " · ".join(_text(part) for part in (one.module, str(at) if at else "") if part)
    return f'<p class="at">{where}</p><p>{_text(one.message)}</p>{_evidence(one.evidence)}'


def _evidence(evidence: Evidence) -> str:
    if not evidence:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th><td>{_text(str(plain(value)))}</td></tr>'
        for name, value in evidence.items()
    )
    return f"<details><summary>evidence</summary><table>{rows}</table></details>"


def _definitions(kind: str, heading: str, pairs: list[tuple[str, str]]) -> list[str]:
    if not pairs:
        return []
    inside = "".join(f'<dt class="{kind}">{_text(name)}</dt><dd>{_text(value)}</dd>' for name, value in pairs)
    return [f"<h3>{heading}</h3><dl>{inside}</dl>"]


def _text(words: str) -> str:
    return escape(safe(words))
