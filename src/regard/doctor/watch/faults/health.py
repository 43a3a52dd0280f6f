"""HED and SCL notes: what a head is like over all batches, which one batch would not say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from regard.doctor.finding import Finding
from regard.doctor.watch.heads import Head, Heads

#: Rows below which nothing is said of a head.
_ROWS = 4


def health(heads: Heads) -> Iterator[Finding]:
    for module, rows in heads.layers.items():
        counted = [row for row in rows if row.rows >= _ROWS]
        yield from _each(module, counted, "HED001", "values are 0 in every call", _dead)
        yield from _each(module, counted, "SCL004", "nearly every row is at one key", _saturated)
        yield from _each(module, counted, "SCL005", "looks everywhere alike", _uniform)
        yield from _each(module, counted, "HED003", "most of the weight is on the first token", _rests)
        yield from _pairs(module, counted)


def _each(module: str, rows: Iterable[Head], code: str, what: str, test: Callable[[Head], bool]) -> Iterator[Finding]:
    found = [row for row in rows if test(row)]
    if not found:
        return
    which = ", ".join(str(row.head) for row in found)
    evidence: dict[str, float | str] = {
        "heads": which,
        "entropy": sum(row.entropy for row in found) / len(found),
        "first": sum(row.mass.get("first", 0.0) for row in found) / len(found),
    }
    yield Finding(code, f"head{'s' if len(found) > 1 else ''} {which}: {what}", module, found[0].source, evidence)


def _pairs(module: str, rows: list[Head]) -> Iterator[Finding]:
    by_head = {row.head: row for row in rows}
    told: set[int] = set()
    for row in rows:
        other = by_head.get(row.like)
        if other is None or row.similarity <= 0.999 or row.head in told or _plain(row):
            continue
        told |= {row.head, row.like}
        yield Finding(
            "HED002",
            f"heads {row.head} and {row.like} look at the same places",
            module,
            row.source,
            {"similarity": row.similarity},
        )


def _dead(row: Head) -> bool:
    return row.dead


def _saturated(row: Head) -> bool:
    return row.saturated > 0.9


def _uniform(row: Head) -> bool:
    return row.entropy > 0.99


def _rests(row: Head) -> bool:
    return row.mass.get("first", 0.0) > 0.5 and not row.saturated > 0.9


def _plain(row: Head) -> bool:
    """Alike because of how little they do, not because one was copied."""
    return row.entropy > 0.97 or row.mass.get("first", 0.0) > 0.5
