"""Aligners held against each other: their links read, scored, and said as lines and rows."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from benchmarks.harness.aligners import in_python
from benchmarks.harness.aligners.contest import Entry, hold
from benchmarks.harness.aligners.corpora import Corpus
from benchmarks.harness.aligners.peers import Mgiza, pharaoh
from benchmarks.harness.aligners.process import Step
from benchmarks.harness.aligners.score import MADE, scores
from benchmarks.harness.machine import Machine
from benchmarks.harness.report import Report
from benchmarks.harness.row import Line, Row, at_least, at_most
from benchmarks.harness.setting import Setting

if TYPE_CHECKING:
    from regard.align.links import Links

FULL = Setting()
Sets = list[set[tuple[int, int]]]


@dataclass(frozen=True)
class Copied:
    """An aligner that puts down what it is given."""

    name: str
    files: dict[str, str]
    log: list[str] = field(default_factory=list)
    argv: tuple[str, ...] = ()

    def steps(self, corpus: Corpus, seed: int) -> Sequence[Step]:
        self.log.append(f"{self.name}{seed}")
        return (
            [Step(self.argv)]
            if self.argv
            else [Step(("printf", "%b", text), name) for name, text in self.files.items()]
        )

    def links(self, folder: Path, number: int) -> dict[str, Links]:
        return pharaoh(folder, number, **{name: name for name in self.files})


def few_lines(links: Sets, sure: Sets, possible: Sets) -> tuple[float, float, float]:
    """Och & Ney (2003), in as many lines."""
    a_s, a_p = (sum(len(a & g) for a, g in zip(links, gold, strict=True)) for gold in (sure, possible))
    a, s = (sum(map(len, each)) for each in (links, sure))
    return 1 - (a_s + a_p) / (a + s), a_p / a, a_s / s


def test_scores_are_those_of_a_few_lines(tmp_path: Path) -> None:
    """An independent count, on random links and gold; both ways of making one of two are held to bounds of sets."""
    draw = random.Random(5)

    def some(share: float) -> Sets:
        return [{(i, j) for i in range(7) for j in range(5) if draw.random() < share} for _ in range(40)]

    def text(sentences: Sets) -> str:
        return "".join(" ".join(f"{i}-{j}" for i, j in sorted(links)) + "\n" for links in sentences)

    sure, more, forward, reverse, own = some(0.1), some(0.2), some(0.2), some(0.3), some(0.15)
    gold = tmp_path / "gold"
    lines = [[f"{i}-{j}" for i, j in a] + [f"{i}?{j}" for i, j in b - a] for a, b in zip(sure, more, strict=True)]
    gold.write_text("".join(" ".join(line) + "\n" for line in lines))
    for name, links in {"forward": forward, "reverse": reverse, "own": own}.items():
        (tmp_path / name).write_text("0-0\n\n" + text(links))  # two sentences before those that have gold
    found = scores(Copied("x", {"forward": "", "reverse": "", "own": ""}), tmp_path, gold)
    possible = [a | b for a, b in zip(sure, more, strict=True)]
    both = [a & b for a, b in zip(forward, reverse, strict=True)]
    for way, links in {"forward": forward, "reverse": reverse, "own": own, "intersection": both}.items():
        score = found[way]
        assert (score.aer, score.precision, score.recall) == pytest.approx(few_lines(links, sure, possible)), way
    recalls = [found[way].recall for way in MADE]
    assert recalls == sorted(recalls)
    assert MADE[0] == "intersection"


def corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "gold").write_text("0-0 1-1\n")
    return Corpus("two words", tmp_path, tmp_path, tmp_path, tmp_path / "gold", 2)


def test_entries_run_in_turn_and_give_lines_and_rows(tmp_path: Path) -> None:
    log: list[str] = []
    right, half = "0-0 1-1\n", "0-0\n"
    ours = Copied("ours", {"forward": right, "reverse": half, "own": right}, log)
    theirs = Copied("theirs", {"forward": half, "reverse": half}, log)
    gone = Copied("gone", {}, log, ("regard-no-such-program",))
    bad = Copied("bad", {"forward": "0-1\n", "reverse": "0-1\n"}, log)
    found = hold(FULL, corpus(tmp_path), [Entry(ours, 3), Entry(theirs, 2), Entry(gone, 3), Entry(bad)])
    assert log == ["ours0", "theirs0", "gone0", "bad0", "ours1", "theirs1", "ours2"]
    first, second, third, _ = found.lines()
    assert isinstance(first, Line)
    assert first.cells["own"] == "0.0\n100.0/100.0"
    assert first.cells["reverse"] == "33.3\n100.0/50.0"
    assert isinstance(second, Line)
    assert (second.cells["own"], second.cells["runs"]) == ("", "2")
    assert len(second.found["runs"]) == 2
    assert isinstance(third, Row)
    assert third.problem.startswith("gone failed: RuntimeError: ")
    error, worse = found.error("theirs", at_most(9)), found.worse("theirs", at_most(-40))
    assert (error.value, error.met) == (0, True)
    assert error.theirs == pytest.approx(100 / 3)
    assert worse.value == pytest.approx(-100 / 3)
    assert worse.met is False
    slower, faster = found.slower("theirs", at_most(1)), found.slower("theirs", at_least(3))
    assert slower.rounds == faster.rounds == 2
    pairs = list(zip(found.entries["ours"].used, found.entries["theirs"].used, strict=False))
    ratios = sorted(a.seconds / b.seconds for a, b in pairs)
    assert [slower.low, slower.high] == pytest.approx(ratios)
    assert [faster.high, faster.low] == pytest.approx([1 / each for each in ratios])
    for used in found.entries["theirs"].used:
        used.programs["classes"] = used.seconds / 2
    less = found.slower("theirs", at_most(1), without="classes")
    assert [less.low, less.high] == pytest.approx([2 * each for each in ratios])
    assert less.note.startswith("classes, ")
    beyond = found.beyond_best(at_most(0.5))
    assert beyond.value == pytest.approx(0)  # forward is better by a third, reverse is the same
    assert "forward -33.3" in beyond.note


def test_without_the_peer_ours_is_judged_where_no_peer_is_asked(tmp_path: Path) -> None:
    entries = [Entry(Copied("ours", {"own": "0-0\n"})), Entry(Copied("theirs", {}, [], ("regard-no-such-program",)))]
    found = hold(FULL, corpus(tmp_path), entries)
    assert found.error("theirs", at_most(9)).verdict.startswith("NOT met")
    for row in (found.worse("theirs", at_most(0)), found.slower("theirs", at_most(1)), found.beyond_best(at_most(1))):
        assert row.verdict == "not measured"


def test_mgiza_reads_both_directions_from_their_parts(tmp_path: Path) -> None:
    """A pair it left out has no links, and a word may be what brackets links."""
    (tmp_path / "s").write_text("a b\nlong\n({ })\n")
    head = "# Sentence pair ({}) source length 1 target length 1 alignment score : 1"
    (tmp_path / "st.A3.final.part000").write_text(f"{head.format(3)}\nx y\nNULL ({{ 1 }}) ({{ ({{ 2 }}) }}) ({{ }}) \n")
    (tmp_path / "st.A3.final.part001").write_text(f"{head.format(1)}\nx\nNULL ({{ }}) a ({{ }}) b ({{ 1 }}) \n")
    (tmp_path / "ts.A3.final.part000").write_text(f"{head.format(1)}\na b\nNULL ({{ }}) x ({{ 1 2 }}) \n")
    found = Mgiza("ibm4").links(tmp_path, 3)
    assert [found["forward"][s] for s in range(3)] == [[(1, 0)], [], [(0, 1)]]
    assert [found["reverse"][s] for s in range(3)] == [[(0, 0), (1, 0)], [], []]


def test_packages_write_source_before_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the packages: each joins the last word of what generates with the first of what is generated."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("a b c\n")
    target.write_text("x y\n")

    class Pair(SimpleNamespace):
        def __init__(self, generated: list[str], generating: list[str]) -> None:
            super().__init__(generated=generated, generating=generating, alignment=None)

    def model(pairs: list[Pair], iterations: int) -> None:
        assert iterations == 4
        for pair in pairs:
            pair.alignment = {(0, len(pair.generating) - 1), (1, None)}

    monkeypatch.setitem(sys.modules, "nltk.translate", SimpleNamespace(AlignedSent=Pair))
    monkeypatch.setitem(sys.modules, "nltk.translate.ibm1", SimpleNamespace(IBMModel1=model))
    monkeypatch.chdir(tmp_path)
    in_python.nltk("ibm1", str(source), str(target), "", 4)
    assert (Path("forward").read_text(), Path("reverse").read_text()) == ("2-0\n", "0-1\n")


def test_lines_are_tables_of_their_own_and_numbers_in_json() -> None:
    report = Report(Machine("cpu", "A processor", 2, 2, "2.13.0", {}, 3.3e10), FULL)
    for name, wall in (("ours", "1.5"), ("theirs", "")):
        report.add(Line("a title", {"corpus": "text", "aligner": name, "wall s": wall}, {"runs": [1]}), "align")
    report.add(Line("another", {"runs": "7"}), "align")
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(report)
    printed = [line.split() for line in console.export_text().splitlines()]
    assert printed.index(["a", "title"]) < printed.index(["text", "ours", "1.5"]) < printed.index(["another"])
    assert ["theirs"] in printed  # the corpus is said once
    assert report.to_dict()["lines"][0]["found"] == {"runs": [1]}
