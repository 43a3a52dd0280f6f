"""Trains the entrants on a text, lets them translate what none of them saw, and says how far apart they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from benchmarks.harness.row import Line, Row, Spot, at_least
from benchmarks.harness.setting import Setting
from benchmarks.translation.corpora import Text, text
from benchmarks.translation.entrants import Entrant, entrant
from benchmarks.translation.scores import BANDS, Band, Counts, ahead, chrf, interval, signatures
from regard.files import replace
from regard.translate.training.progress import Standing
from regard.translate.training.run import train
from regard.translate.translator import Translator

__all__ = ["BEAM", "Learnt", "compare", "told", "trained"]

Say = Callable[[str], None]
FEW = 30  # sentences; a band with fewer says nothing
BEAM = 5
SMALL = 6_000_000  # parameters
GOALS = {"multi30k-en-fr": 58.0, "multi30k-en-de": 37.0}  # BLEU of the best small model


@dataclass(frozen=True)
class Learnt:
    """A trained model: how long it took and what it said of the test text."""

    parameters: int
    updates: int
    minutes: float
    speed: float  # target pieces learnt from in a second
    said: list[str]


@dataclass(frozen=True)
class Lessons:
    """Reports how far a training is, to who listens."""

    tell: Say
    who: str

    def say(self, line: str) -> None:
        self.tell(f"{self.who}: {line}")

    def step(self, at: Standing) -> None:
        pass


def compare(
    corpora: Sequence[str], models: Sequence[str], seeds: Sequence[int], epochs: int, logs: Path
) -> Callable[[Setting, Say], Iterator[Row | Line | Spot]]:
    """What trains and reports every model on every corpus; ``logs`` keeps each run, and a stopped one goes on.

    Raises:
        RegardError: a name that is not known, or a corpus that is not there; before anything is trained.
    """
    entrants = {name: entrant(name) for name in models}
    texts = {name: text(name) for name in corpora}

    def rows(setting: Setting, say: Say) -> Iterator[Row | Line | Spot]:
        for corpus, whole in texts.items():
            asked = whole.quick() if setting.quick else whole
            found: dict[str, list[tuple[Learnt, Counts]]] = {name: [] for name in entrants}
            for (name, each), seed in product(entrants.items(), seeds):
                folder = logs / corpus / ("quick" if setting.quick else f"{epochs}-epochs")
                learnt = trained(each, asked, seed, epochs, folder, f"{name}-{seed}", say, setting.quick)
                counts = Counts.of(learnt.said, [b for _, b in asked.test], asked.tokenize)
                found[name].append((learnt, counts))
                yield told(corpus, name, seed, asked, learnt, counts)
            yield from _by_length(corpus, asked, found)
            yield from _best(corpus, found, setting)
            yield from _apart(corpus, asked, entrants, found, setting)

    return rows


def trained(
    each: Entrant, asked: Text, seed: int, epochs: int, folder: Path, name: str, say: Say, quick: bool
) -> Learnt:
    """Trains, or goes on, or finds it done: everything is in ``folder/name``."""
    kept = folder / f"{name}.json"
    if kept.exists():
        return Learnt(**json.loads(kept.read_text()))
    files = asked.write(folder / "text")
    settings = each.settings(asked, seed, epochs, quick)
    outcome = train(
        files["train.src"],
        files["train.tgt"],
        files["dev.src"],
        files["dev.tgt"],
        folder / name,
        settings,
        threads=1,
        report=Lessons(say, name),
    )
    if not outcome.finished:
        raise KeyboardInterrupt
    translator = Translator.load(folder / name)
    lines = outcome.history
    learnt = Learnt(
        parameters=translator.model.config.parameters,
        updates=outcome.updates,
        minutes=lines[-1]["seconds"] / 60,
        speed=sum(line["pieces"] for line in lines) / max(sum(line["learning"] for line in lines), 1e-9),
        said=list(translator.texts([a for a, _ in asked.test], beam=BEAM)),
    )
    replace(kept, json.dumps(asdict(learnt), ensure_ascii=False, indent=1).encode())
    return learnt


def told(corpus: str, name: str, seed: int, asked: Text, learnt: Learnt, counts: Counts) -> Line:
    """One model in the table of its corpus."""
    low, high = interval(counts)
    cells = {
        "model": name,
        "seed": str(seed),
        "BLEU": f"{counts.bleu():.1f}",
        "95 %": f"{low:.1f}–{high:.1f}",
        "chrF": f"{chrf(learnt.said, [b for _, b in asked.test]):.1f}",
        **{str(band): f"{counts.part(rows).bleu():.1f}" for band, rows in _bands(asked)},
        "parameters": f"{learnt.parameters:,}",
        "updates": f"{learnt.updates:,}",
        "minutes": f"{learnt.minutes:.0f}",
        "pieces/s": f"{learnt.speed:,.0f}",
    }
    measured = f"BLEU of {len(asked.test):,} sentences, overall and by words of the source"
    found = {"corpus": corpus, "model": name, "seed": seed, "bleu": counts.bleu(), **vars(learnt)}
    return Line(f"{corpus}: {measured}; {signatures(asked.tokenize)}", cells, found)


def _by_length(corpus: str, asked: Text, found: dict[str, list[tuple[Learnt, Counts]]]) -> Iterator[Spot]:
    """The curve that is drawn: BLEU of a band of lengths, the mean over seeds."""
    axes = ("words of the source", "BLEU")
    for (name, runs), (band, rows) in product(found.items(), list(_bands(asked))):
        mean = sum(counts.part(rows).bleu() for _, counts in runs) / len(runs)
        yield Spot(corpus, name, band.middle, mean, axes, by_powers=False)


def _best(corpus: str, found: dict[str, list[tuple[Learnt, Counts]]], setting: Setting) -> Iterator[Row]:
    """The best small model, where there is a goal for one; its worst seed counts."""
    if corpus not in GOALS:
        return
    small = {name: [counts for _, counts in runs] for name, runs in found.items() if runs[0][0].parameters <= SMALL}
    if not small:
        return
    scores = {name: [counts.bleu() for counts in runs] for name, runs in small.items()}
    name = max(scores, key=lambda each: min(scores[each]))
    yield Row(
        f"{corpus}, the best of at most {SMALL:,} parameters: {name}", "", "BLEU", min(scores[name]),
        min(scores[name]), max(scores[name]), rounds=len(scores[name]), goal=at_least(GOALS[corpus]),
        judged=setting.judged, note="chosen on the text it is judged by where several were trained",
    )  # fmt: skip


def _apart(
    corpus: str,
    asked: Text,
    entrants: dict[str, Entrant],
    found: dict[str, list[tuple[Learnt, Counts]]],
    setting: Setting,
) -> Iterator[Row]:
    """Every model that looks, less every one that does not, on the longest sentences: the lower end of 95 %."""
    bands = list(_bands(asked))
    if not bands:
        return
    longest, rows = bands[-1]
    sighted, blind = ([name for name, each in entrants.items() if each.looks is looks] for looks in (True, False))
    for a, b in product(sighted, blind):
        pairs = zip(found[a], found[b], strict=True)
        gaps = [ahead(ours.part(rows), theirs.part(rows)) for (_, ours), (_, theirs) in pairs]
        lows, highs = [low for _, low, _ in gaps], [high for _, _, high in gaps]
        apart = ", ".join(f"{gap:.1f}" for gap, _, _ in gaps)
        yield Row(
            f"{corpus}, {longest} words: {a} less {b}", b, "BLEU, lower end", min(lows), min(lows), max(highs),
            rounds=len(gaps), goal=at_least(0), judged=setting.judged,
            note=f"{len(rows)} sentences; apart by {apart}; paired bootstrap, 95 %",
        )  # fmt: skip


def _bands(asked: Text) -> Iterator[tuple[Band, list[int]]]:
    """The bands of lengths with sentences enough, and which they are."""
    sources = [a for a, _ in asked.test]
    for band in BANDS:
        rows = band.of(sources)
        if len(rows) >= FEW:
            yield band, rows
