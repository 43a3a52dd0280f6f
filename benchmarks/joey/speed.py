"""Both at the same work in turn: updates of a training, and sentences translated by the same weights."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.harness.row import Goal, Row, at_least
from benchmarks.harness.setting import Setting
from benchmarks.harness.threads import one_thread
from benchmarks.harness.timing import reason
from benchmarks.joey.config import BATCH, lay
from benchmarks.joey.course import Course
from benchmarks.joey.peer import NAME, Peer, python
from benchmarks.joey.quality import ENTRANT
from benchmarks.joey.weights import joeys
from benchmarks.translation.corpora import Text
from regard.translate.decoding.beam import Beam
from regard.translate.decoding.decode import decode
from regard.translate.decoding.penalty import Penalty
from regard.translate.models import architecture
from regard.translate.training.learner import Learner
from regard.translate.translator import Translator

__all__ = ["speeds"]

LEARNING, DECODING = at_least(1.5), at_least(3)
WORK = "training, target pieces a second"
ASKED = "translating by the same weights, beam 5"


@dataclass
class Laps:
    """Seconds of a piece of work by each side, and how much of it was done, round after round."""

    ours: list[tuple[float, float]] = field(default_factory=list)
    theirs: list[tuple[float, float]] = field(default_factory=list)

    def row(self, work: str, setting: Setting, goal: Goal | None, note: str, amount: str) -> Row:
        """How many times as much ours do in a second; what each did is in ``amount``: seconds, or work a second."""
        mine, others = ([done / seconds for seconds, done in laps] for laps in (self.ours, self.theirs))
        ratios = [a / b for a, b in zip(mine, others, strict=True)]
        if amount == "s":
            mine, others = ([seconds for seconds, _ in laps] for laps in (self.ours, self.theirs))
        return Row(
            work, NAME, "× faster", statistics.median(ratios), min(ratios), max(ratios),
            ours=statistics.median(mine), theirs=statistics.median(others), amount=amount, rounds=len(ratios),
            goal=goal, judged=setting.judged, note=note,
        )  # fmt: skip


def speeds(setting: Setting, text: Text, model: Path | None) -> Iterator[Row]:
    """Training at its first updates; translating by the weights in ``model``, a directory (by untrained ones if quick).

    A peer that is missing, or fails, is the problem of every row.
    """
    left = [(WORK, LEARNING), (ASKED, DECODING)]
    try:
        python()
        with tempfile.TemporaryDirectory() as name, one_thread():
            settings = ENTRANT.settings(text, 1, 20, setting.quick)
            whole = None if model is None else Translator.load(model)
            course = Course.of(text.write(Path(name) / "text"), settings, None if whole is None else whole.source)
            with Peer(lay(Path(name) / "joey", course, text)) as peer:
                yield from _training(setting, course, peer)
                left.pop(0)
                if whole is None and setting.quick:
                    size = len(course.vocabulary)
                    net = architecture(settings.model).model(settings.config(size, size))
                    whole = Translator(net, course.vocabulary, course.vocabulary)
                if whole is None:
                    wanted = "no trained model; regard bench joeynmt --corpus multi30k-en-fr makes one"
                    yield Row(ASKED, NAME, "× faster", goal=DECODING, problem=wanted)
                else:
                    yield from _decoding(setting, whole, text, peer, Path(name))
                left.clear()
    except Exception as error:
        for work, goal in left:
            yield Row(work, NAME, "× faster", goal=goal, judged=setting.judged, problem=reason(NAME, error))


def _training(setting: Setting, course: Course, peer: Peer) -> Iterator[Row]:
    """Ours, theirs as it cuts its batches, theirs on our batches, in turn; the first round warms up."""
    count, rounds = setting.size(20, quick=1), min(5, setting.rounds)
    size = len(course.vocabulary)
    settings = course.settings
    torch.manual_seed(settings.seed)
    learner = Learner(architecture(settings.model).model(settings.config(size, size)), settings)
    learner.model.train()
    own, same = Laps(), Laps()
    epoch, done = course.lessons.epoch(0), 0
    for number in range(1 + rounds):
        order = [epoch.order[n % len(epoch)] for n in range(done, done + count)]
        start = time.perf_counter()
        steps = [learner.update(epoch.batches([pairs]), done + n + 1, 0.0) for n, pairs in enumerate(order)]
        ours = time.perf_counter() - start, float(sum(step.pieces for step in steps))
        done += count
        asked: dict[str, Any] = {"do": "updates", "count": count, "rates": [step.rate for step in steps]}
        found = [peer.ask(each) for each in (asked, {**asked, "batches": order})]
        if number:
            for laps, each in zip((own, same), found, strict=True):
                laps.ours.append(ours)
                laps.theirs.append((each["seconds"], each["pieces"]))
    note = f"{count} updates a round; batches as each cuts them, as many pairs on average"
    yield own.row(WORK, setting, LEARNING, note, "pieces/s")
    note = "its own updates on our very batches, of pairs of like length, which it has no option for"
    yield same.row(f"– {NAME} on our batches", setting, None, note, "pieces/s")


def _decoding(setting: Setting, whole: Translator, text: Text, peer: Peer, folder: Path) -> Iterator[Row]:
    """Ours as they come and as JoeyNMT searches, and theirs, in turn; the first round warms up."""
    few, rounds = min(setting.size(200, quick=2), len(text.test)), min(3, setting.rounds)
    weights = folder / "weights.pt"
    torch.save(joeys(whole.model.state_dict()), weights)
    eps = next(each.eps for each in whole.model.modules() if isinstance(each, nn.LayerNorm))
    peer.ask({"do": "load", "weights": str(weights), "eps": eps})
    lines = [a for a, _ in text.test[:few]]
    as_theirs = Beam(5, penalty=Penalty(1.0, "wu"))

    def like_theirs() -> list[str]:
        found = decode(whole.model, whole.source.encode(lines), as_theirs, batch=BATCH)
        return [whole.target.decode(best[0].ids) for best in found]

    usual, equal = Laps(), Laps()
    for number in range(1 + rounds):
        first, _ = timed(lambda: list(whole.texts(lines, ahead=few)))
        second, said = timed(like_theirs)
        answer = peer.ask({"do": "translate", "few": few, "batch": BATCH})
        if number:
            for laps, seconds in ((usual, first), (equal, second)):
                laps.ours.append((seconds, few))
                laps.theirs.append((answer["seconds"], few))
    yield usual.row(ASKED, setting, DECODING, f"{few} sentences; each its own batches and penalty", "s")
    note = f"both at most {BATCH} sentences at a time (ours padded alike), length penalty of Wu et al., α = 1"
    yield equal.row("– one batch size and penalty", setting, None, note, "s")
    alike = 100 * statistics.mean(a == b for a, b in zip(said, answer["texts"], strict=True))
    yield Row("– translations that are the same", NAME, "%", alike, judged=setting.judged, note="by the same weights")


def timed(call: Callable[[], Sequence[str]]) -> tuple[float, Sequence[str]]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found
