"""What each memory gives up: bytes and time a token against length, recall against age and load; peers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from benchmarks.harness.row import Line, Row, Spot
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import reason
from benchmarks.tradeoff.expense import spent
from benchmarks.tradeoff.generating import generated
from benchmarks.tradeoff.recall import by_age, by_load
from benchmarks.tradeoff.subjects import CODEBOOK, SUBJECTS, D, Subject
from benchmarks.tradeoff.whole import at_once

__all__ = ["rows"]

SEEDS = (0, 1, 2)
SHARE = "share answered right"


def rows(setting: Setting) -> Iterator[Row | Spot | Line]:
    """Costs, then recall by age and by load, then whole sequences and `generate` beside the peers."""
    lengths = [2**n for n in (range(7, 9) if setting.quick else range(10, 18))]
    stream, loads = setting.size(2**13, quick=2**7), [2**n for n in range(2, setting.size(12, quick=5) + 1)]
    seeds = SEEDS[:1] if setting.quick else SEEDS

    def aged(subject: Subject) -> Iterator[tuple[int, float]]:
        told = min(subject.longest, stream)
        return by_age(subject, told, _ages(told), seeds)

    def loaded(subject: Subject) -> Iterator[tuple[int, float]]:
        return by_load(subject, [n for n in loads if n <= min(subject.longest, stream)], seeds)

    yield from spent(setting, lengths)
    yield from _recalled("recall by age", "pairs told from it to the end", aged)
    yield from _recalled("recall by load", "pairs told in all", loaded)
    yield from at_once(setting)
    yield from generated(setting)


def _recalled(
    panel: str, across: str, measure: Callable[[Subject], Iterable[tuple[int, float]]]
) -> Iterator[Row | Spot | Line]:
    """A spot for each share, and a line for each memory."""
    for subject in SUBJECTS:
        found = []
        try:
            for n, share in measure(subject):
                found.append((n, share))
                yield Spot(panel, subject.name, n, share, (across, f"{SHARE}, one head of {D}"))
        except Exception as error:
            yield Row(panel, subject.name, "", problem=reason(subject.name, error))
            continue
        cells = {"": subject.kind, "memory": subject.name} | {f"{n:,}": f"{share:.2f}" for n, share in found}
        title = f"{panel}: the share of values answered right, of {CODEBOOK}, by {across}"
        yield Line(title, cells, {"memory": subject.name, "recalled": [{"pairs": n, "share": p} for n, p in found]})


def _ages(told: int) -> list[int]:
    """1, 3, 6, 12 …: never where a window or a ring of 2^n ends."""
    return [1, *(n for k in range(16) if (n := 3 * 2**k) + 4 <= told)]
