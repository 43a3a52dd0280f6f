"""Word alignment against the length of the corpus: time and memory to a million pairs of sentences."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.harness.aligners import noise, process
from benchmarks.harness.aligners.corpora import TEXTS, write
from benchmarks.harness.aligners.ours import Regard
from benchmarks.harness.curve import exponent
from benchmarks.harness.row import Point, Row, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import reason

TITLE = "word alignment against length: 100,000 to 1,000,000 pairs of sentences, time and memory"

LINEAR, MEMORY = at_most(1.1), at_most(2048)
LENGTHS, SHORT = (100_000, 200_000, 400_000, 1_000_000), (40, 80)
WORK = "regard align, both directions, the Hansards repeated with noise"
AXES = ("pairs of sentences", "MiB of the largest process")


def rows(setting: Setting) -> Iterator[Row | Point]:
    """The default model, both directions, on the Hansards again and again with noise; one run each, shortest first."""
    lengths = SHORT if setting.quick else LENGTHS
    points = []
    for length in lengths:
        try:
            point = _point(setting, length)
        except Exception as error:
            yield Row(f"{WORK}, {length:,} pairs", "", "s", problem=reason("regard", error))
            continue
        points.append(point)
        yield point
    yield exponent(setting, f"{WORK}: time with length", points, "seconds", goal=LINEAR)
    last = points[-1] if points and points[-1].length == lengths[-1] else None
    yield Row(
        f"{WORK}, {lengths[-1]:,} pairs: its largest process",
        "",
        "MiB",
        value=last.mib if last else None,
        goal=MEMORY,
        judged=setting.judged,
        problem="" if last else "it was not run",
    )


def _point(setting: Setting, length: int) -> Point:
    """Seconds and MiB of one run on `length` pairs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = TEXTS[2]
        if setting.quick:
            pairs = [(source, target) for source, target, _ in islice(noise.made(0), SHORT[0])]
        else:
            pairs = list(zip(text.lines(text.source), text.lines(text.target), strict=True))
        corpus = write(WORK, folder, noise.repeated(pairs, length), folder / "gold")
        del pairs
        used = process.run(Regard().steps(corpus, 0), folder)
        return Point(WORK, "regard", length, used.seconds, used.mib, AXES)
