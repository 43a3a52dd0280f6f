"""Aligners on one corpus, in turn: what each took and how well it aligned, as lines of a table and as rows."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.aligners import process
from benchmarks.harness.aligners.corpora import Corpus
from benchmarks.harness.aligners.peers import Aligner
from benchmarks.harness.aligners.process import Used
from benchmarks.harness.aligners.score import WAYS, scores
from benchmarks.harness.report import figure
from benchmarks.harness.row import Goal, Line, Row
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import reason

if TYPE_CHECKING:
    from regard.align.gold import Score

__all__ = ["Contest", "Entry", "hold"]

TABLE = "AER in percent, its range over the runs, precision/recall; wall and CPU seconds and MiB with their ranges"


@dataclass
class Entry:
    """One aligner's runs on one corpus: what each took, and its scores by the way the links were made."""

    aligner: Aligner
    rounds: int = 1
    used: list[Used] = field(default_factory=list)
    scores: list[dict[str, Score]] = field(default_factory=list)
    problem: str = ""

    @property
    def name(self) -> str:
        return self.aligner.name

    def aer(self, way: str) -> float:
        """Mean over the runs, in percent."""
        return 100 * statistics.mean(score[way].aer for score in self.scores)

    @property
    def ways(self) -> list[str]:
        return [way for way in WAYS if self.scores and way in self.scores[0]]

    @property
    def best(self) -> str:
        """The way with the lowest AER."""
        return min(self.ways, key=self.aer)

    def run(self, corpus: Corpus, seed: int) -> None:
        """One run in a folder of its own. A failure is kept as the problem, and ends this aligner's part."""
        try:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                used = process.run(self.aligner.steps(corpus, seed), folder)
                found = scores(self.aligner, folder, corpus.gold)
            self.used.append(used)
            self.scores.append(found)
        except Exception as error:
            self.problem = reason(self.name, error)

    def line(self, corpus: str) -> Line:
        cells = {"corpus": corpus, "aligner": self.name, **{way: self._cell(way) for way in WAYS}}
        for heading, part in (("wall s", "seconds"), ("CPU s", "cpu"), ("MiB", "mib")):
            numbers = [getattr(used, part) for used in self.used]
            low, high = figure(min(numbers)), figure(max(numbers))
            cells[heading] = figure(statistics.mean(numbers)) + (f"\n{low}–{high}" if low != high else "")
        cells["runs"] = str(len(self.used))
        runs = [
            asdict(used) | {way: score.to_dict() for way, score in scores.items()}
            for used, scores in zip(self.used, self.scores, strict=True)
        ]
        return Line(TABLE, cells, {"corpus": corpus, "aligner": self.name, "runs": runs})

    def _cell(self, way: str) -> str:
        found = [score[way] for score in self.scores if way in score]
        if not found:
            return ""
        low, high = (f"{100 * limit(score.aer for score in found):.1f}" for limit in (min, max))
        precision, recall = (100 * statistics.mean(getattr(s, part) for s in found) for part in ("precision", "recall"))
        spread = f"{low}–{high}\n" if low != high else ""
        return f"{self.aer(way):.1f}\n{spread}{precision:.1f}/{recall:.1f}"


@dataclass(frozen=True)
class Contest:
    """What the entries did on one corpus; the first is ours."""

    setting: Setting
    corpus: str
    entries: dict[str, Entry]

    @property
    def ours(self) -> Entry:
        return next(iter(self.entries.values()))

    def lines(self) -> Iterator[Line | Row]:
        """A line for each that ran; a row that says why for each that did not, once where the reason is one."""
        said = {""}
        for entry in self.entries.values():
            if entry.used:
                yield entry.line(self.corpus)
            if entry.problem not in said:
                yield Row(self.corpus, entry.name, "", problem=entry.problem)
                said.add(entry.problem)

    def error(self, peer: str, goal: Goal) -> Row:
        """AER of what ours prints, the mean of the runs, beside the peer's by its best way of making links."""
        found = self._own()
        return self._row("AER", peer, "%", _mean(found), found, goal, self.ours.problem)

    def worse(self, peer: str, goal: Goal) -> Row:
        """The same as a difference of the means: what is to be at or below the peer's."""
        found, best = self._own(), _least(self.entries[peer])
        gap = statistics.mean(found) - best if found and best is not None else None
        spread = [aer - best for aer in found] if best is not None else []
        return self._row("AER beyond the peer's", peer, "points", gap, spread, goal, self._problem(peer))

    def slower(self, peer: str, goal: Goal, *, without: str = "") -> Row:
        """Wall time, both directions, as a ratio within each round: of ours to the peer's, or how many times faster.
        The peer's program `without` is not counted."""
        mine = [each.seconds for each in self.ours.used]
        apart = [each.programs.get(without, 0.0) for each in self.entries[peer].used]
        theirs = [each.seconds - less for each, less in zip(self.entries[peer].used, apart, strict=True)]
        ratios = [b / a if goal.above else a / b for a, b in zip(mine, theirs, strict=False)]
        median = statistics.median(ratios) if ratios else None
        unit = "× faster" if goal.above else "× its time"
        row = self._row("time", peer, unit, median, ratios, goal, self._problem(peer))
        note = f"{without}, {figure(statistics.mean(apart))} s, is not counted" if without and apart else ""
        return replace(row, ours=_mean(mine), theirs=_mean(theirs), amount="s", note=note)

    def beyond_best(self, goal: Goal) -> Row:
        """How much more AER ours has than the best peer, in the way of making links where that is most."""
        peers = [entry for entry in self.entries.values() if entry is not self.ours and entry.scores]
        ways = [way for way in WAYS if way != "own" and self.ours.scores]
        gaps = {way: self.ours.aer(way) - min(peer.aer(way) for peer in peers) for way in ways if peers}
        row = partial(self._row, "AER beyond the best peer's", ", ".join(peer.name for peer in peers), "points")
        note = ", ".join(f"{way} {gap:+.1f}" for way, gap in gaps.items())
        problem = self.ours.problem or ("" if peers else "no peer ran")
        return replace(row(max(gaps.values(), default=None), [], goal, problem), ours=None, theirs=None, note=note)

    def _row(
        self, what: str, peer: str, unit: str, value: float | None, found: Sequence[float], goal: Goal, problem: str
    ) -> Row:
        return Row(
            f"{self.corpus}, {self.ours.name}: {what}",
            peer,
            unit,
            value,
            min(found, default=None),
            max(found, default=None),
            ours=_mean(self._own()),
            theirs=_least(self.entries[peer]) if peer in self.entries else None,
            amount="%",
            rounds=len(found),
            goal=goal,
            judged=self.setting.judged,
            problem=problem,
        )

    def _own(self) -> list[float]:
        """AER of what ours prints, a run each."""
        return [100 * score["own"].aer for score in self.ours.scores]

    def _problem(self, peer: str) -> str:
        return self.ours.problem or self.entries[peer].problem


def hold(setting: Setting, corpus: Corpus, entries: Sequence[Entry]) -> Contest:
    """Run them in turn, A B C A B C, each as many rounds as it has; round k has seed k, where seeds are taken."""
    for number in range(max(entry.rounds for entry in entries)):
        for entry in entries:
            if number < entry.rounds and not entry.problem:
                entry.run(corpus, number)
    return Contest(setting, corpus.name, {entry.name: entry for entry in entries})


def _mean(numbers: Sequence[float]) -> float | None:
    return statistics.mean(numbers) if numbers else None


def _least(entry: Entry) -> float | None:
    return entry.aer(entry.best) if entry.scores else None
