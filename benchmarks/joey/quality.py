"""Trains both on a text, one as often as the other, and says how far their translations are apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.harness.row import Line, Row, at_least
from benchmarks.harness.setting import Setting
from benchmarks.joey.config import lay
from benchmarks.joey.course import Course
from benchmarks.joey.peer import NAME, Peer
from benchmarks.translation.comparison import BEAM, Learnt, told, trained
from benchmarks.translation.corpora import Text
from benchmarks.translation.entrants import ENTRANTS
from benchmarks.translation.scores import Counts, ahead
from regard import files
from regard.translate import checkpoint
from regard.translate.training.claim import claim
from regard.translate.translator import Translator

__all__ = ["ENTRANT", "SHARED", "SIDES", "THEIRS", "Schooled", "ours", "school"]

Say = Callable[[str], None]
WITHIN = at_least(-0.5)  # BLEU of ours less theirs
SIDES = OURS, THEIRS = "regard", "joeynmt"
SHARED = "transformer-shared"  # pre-norm, width 256, 4 heads, 3 + 3 layers, one vocabulary and one embedding
ENTRANT = replace(ENTRANTS[SHARED], course={**ENTRANTS[SHARED].course, "precision": "float32"})
#: Whose weights, and which; by what the table calls them.
AVERAGE, LAST = f"{OURS}, running average, best exam", f"{OURS}, last weights, no average"
BEST, LATEST = f"{NAME}, best exam", f"{NAME}, last weights"


class Schooled:
    """What was trained with one seed on one text: what each said of the test text."""

    def __init__(self, corpus: str, text: Text, seed: int, said: dict[str, Learnt]) -> None:
        self.corpus, self.text, self.seed, self.said = corpus, text, seed, said
        wanted = [b for _, b in text.test]
        self.counts = {name: Counts.of(learnt.said, wanted, text.tokenize) for name, learnt in said.items()}

    def found(self, setting: Setting) -> Iterator[Line | Row]:
        """The table: BLEU and chrF of each, and what it took; where both were trained, how far ours are ahead."""
        for name, learnt in self.said.items():
            yield told(self.corpus, name, self.seed, self.text, learnt, self.counts[name])
        if AVERAGE in self.said and BEST in self.said:
            yield self._ahead(setting)

    def _ahead(self, setting: Setting) -> Row:
        gap, low, high = ahead(self.counts[AVERAGE], self.counts[BEST])
        plain = self.counts[LAST].bleu() - self.counts[LATEST].bleu()
        return Row(
            f"{self.corpus}: BLEU of ours less theirs, seed {self.seed}", NAME, "BLEU", gap, low, high,
            ours=self.counts[AVERAGE].bleu(), theirs=self.counts[BEST].bleu(), amount="BLEU", rounds=2, goal=WITHIN,
            judged=setting.judged,
            note=f"range: paired bootstrap, 95 %; ours a running average of weights, theirs as they were, each of its "
            f"best exam by greedy dev BLEU; both with the last weights, nothing averaged: {plain:+.1f}; beam {BEAM}",
        )  # fmt: skip


def ours(seed: int) -> str:
    """Where ours lies: beside that of ``regard bench translate``, whose products are in bfloat16."""
    return f"{SHARED}-float32-{seed}"


def school(
    corpus: str, sides: Sequence[str], text: Text, seed: int, epochs: int, folder: Path, say: Say, quick: bool
) -> Schooled:
    """Trains those of :data:`SIDES` that are named, or goes on, or finds it done; all is in ``folder``."""
    said: dict[str, Learnt] = {}
    if THEIRS in sides:
        course = Course.of(text.write(folder / "text"), ENTRANT.settings(text, seed, epochs, quick))
        said |= _theirs(course, text, folder / f"{THEIRS}-{seed}", lambda line: say(f"{NAME}-{seed}: {line}"))
    if OURS in sides:
        name = ours(seed)
        average = trained(ENTRANT, text, seed, epochs, folder, name, say, quick)
        said = {AVERAGE: average, LAST: _last(average, text, folder / name), **said}
    return Schooled(corpus, text, seed, said)


def _theirs(course: Course, text: Text, folder: Path, say: Say) -> dict[str, Learnt]:
    """By its own training loop; all is in ``folder``."""
    kept = folder / "said.json"
    if kept.exists():
        return {name: Learnt(**each) for name, each in json.loads(kept.read_text()).items()}
    total = sum(course.updates)
    with claim(folder):
        say(f"{total:,} updates, batches of {course.tokens:,} of its tokens")
        with Peer(lay(folder, course, text)) as peer:
            done = peer.ask({"do": "train", "updates": total, "rates": course.rates}, say)
            if done["updates"] < total:
                raise KeyboardInterrupt
            found = {}
            for name, chosen in ((BEST, "best"), (LATEST, "latest")):
                said = peer.ask({"do": "translate", "checkpoint": chosen})["texts"]
                found[name] = Learnt(
                    parameters=done["parameters"],
                    updates=done["updates"],
                    minutes=done["seconds"] / 60,
                    speed=done["pieces"] / max(done["learning"], 1e-9),
                    said=said,
                )
        files.replace(kept, json.dumps({name: asdict(each) for name, each in found.items()}, indent=1).encode())
    return found


def _last(average: Learnt, text: Text, folder: Path) -> Learnt:
    """What the weights that the last update left say, where ``average`` is what the run is kept for."""
    kept = folder.with_name(f"{folder.name}.last.json")
    if kept.exists():
        return Learnt(**json.loads(kept.read_text()))
    whole, state = Translator.load(folder), checkpoint.load_state(folder)
    assert state is not None, folder
    model = deepcopy(whole.model)
    model.load_state_dict(state["model"])
    last = Translator(model, whole.source, whole.target)
    found = replace(average, said=list(last.texts([a for a, _ in text.test], beam=BEAM)))
    files.replace(kept, json.dumps(asdict(found), ensure_ascii=False, indent=1).encode())
    return found
