"""Word alignment: models on corpora beside the aligners people use, each as a command that reads the same files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.harness.aligners import noise, process
from benchmarks.harness.aligners.contest import Contest, Entry, hold
from benchmarks.harness.aligners.corpora import TEXTS, Corpus, Text, lay
from benchmarks.harness.aligners.ours import Regard
from benchmarks.harness.aligners.peers import Eflomal, FastAlign, Mgiza, Packaged
from benchmarks.harness.aligners.process import Step
from benchmarks.harness.peers import Missing
from benchmarks.harness.row import Line, Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import reason

TITLE = "word alignment: time, memory and AER of models on corpora, beside the aligners that are installed"

ROUNDS = 5  # of ours and eflomal, which has no seed; the others give the same at each
ERROR = {"Hansards 1,000": at_most(13.5), "Hansards 10,000": at_most(9), "Hansards 100,000": at_most(7)}
NO_WORSE, NO_SLOWER, NEAR, HALF = at_most(0), at_most(1), at_most(0.5), at_most(0.5)
IBM1 = {"nltk ibm1": at_least(20), "thot ibm1": at_least(3)}
SMALL, MIDDLE, LARGE = TEXTS[:3]
PEERS: dict[str, tuple[Packaged | Mgiza | FastAlign, ...]] = {
    "ibm1": (Packaged("thot", "ibm1"), Packaged("nltk", "ibm1")),
    "hmm": (Packaged("thot", "hmm"), Mgiza("hmm")),
    "ibm4": (Packaged("thot", "ibm4"), Mgiza("ibm4")),
    "ibm3": (Packaged("thot", "ibm3"), Mgiza("ibm3")),
    "diagonal": (FastAlign(),),
    "ibm5": (Mgiza("ibm5"),),
    "ibm2": (Packaged("thot", "ibm2"), Packaged("nltk", "ibm2")),
}
#: As many iterations of each as the peers make.
CHAIN = ("ibm1:5", "hmm:5", "ibm3:5", "ibm4:5", "ibm5:5")
STAGES = {
    "ibm1": CHAIN[:1],
    "ibm2": ("ibm1:5", "ibm2:5"),
    "diagonal": ("diagonal:5",),
    "hmm": CHAIN[:2],
    "ibm3": CHAIN[:3],
    "ibm4": CHAIN[:4],
    "ibm5": CHAIN,
}
USUAL = (5, 5, 3, 3, 0)  # of Models 1, HMM, 3, 4 and 5, as GIZA++ is run


def rows(setting: Setting) -> Iterator[Row | Line]:
    """The default model beside eflomal first; then the speed of classical ones, and each at equal iterations."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _first(setting, folder)
        for text in TEXTS:
            yield from _default(setting, text, folder)
        yield from _fast(setting, folder)
        yield from _chain(setting, folder)
        for model in PEERS:
            yield from _classical(setting, model, folder)


def _default(setting: Setting, text: Text, folder: Path) -> Iterator[Row | Line]:
    rounds = 1 if setting.quick else min(ROUNDS, setting.rounds)
    few = min(3 if text in (SMALL, MIDDLE) else 1, rounds)
    entries = [
        Entry(Regard(), rounds),
        Entry(Eflomal(), rounds),
        Entry(FastAlign(), few),
        Entry(Packaged("systran"), few),
        Entry(Regard("agreement"), few),
        *([Entry(Regard("sample"), few)] if text.name in ERROR else []),
    ]
    found = _held(setting, text, entries, folder)
    yield from found.lines()
    if text.name in ERROR:
        yield found.error("eflomal", ERROR[text.name])
    else:
        yield found.worse("eflomal", NO_WORSE)
    yield found.slower("eflomal", NO_SLOWER)


def _classical(setting: Setting, model: str, folder: Path) -> Iterator[Row | Line]:
    """One model as often as its peers iterate; Model 5 on the small corpus, since the peer's takes many times its 4."""
    text = SMALL if model == "ibm5" else MIDDLE
    ours = Regard(model, options=("--stages", " ".join(STAGES[model])))
    found = _held(setting, text, [Entry(ours), *map(Entry, PEERS[model])], folder)
    yield from found.lines()
    yield found.beyond_best(NEAR)
    if model == "ibm1":
        for peer, goal in IBM1.items():
            yield found.slower(peer, goal)


def _fast(setting: Setting, folder: Path) -> Iterator[Row | Line]:
    """Model 1 on the large corpus, where the work and not the start of the command is what takes time."""
    found = _held(setting, LARGE, [Entry(Regard("ibm1")), *map(Entry, PEERS["ibm1"])], folder)
    yield from found.lines()
    for peer, goal in IBM1.items():
        yield found.slower(peer, goal)


def _chain(setting: Setting, folder: Path) -> Iterator[Row | Line]:
    """The chain to Model 4 on the large corpus, with as many iterations as people give it."""
    usual = zip(("ibm1", "hmm", "ibm3", "ibm4"), USUAL, strict=False)
    ours = Regard("ibm4", options=("--stages", " ".join(f"{model}:{times}" for model, times in usual)))
    found = _held(setting, LARGE, [Entry(ours), Entry(Mgiza("ibm4", USUAL))], folder)
    yield from found.lines()
    yield found.slower("mgiza ibm4", HALF, without="mkcls")  # ours makes its classes within its time


def _first(setting: Setting, folder: Path) -> Iterator[Row]:
    """The first run after an install, which compiles; then one of each model, not timed: their kernels are kept."""
    place = folder / "first"
    place.mkdir()
    corpus = noise.small("first", place, 60)
    cold, problem = None, ""
    with tempfile.TemporaryDirectory() as cache:
        argv = [step.argv for step in Regard().steps(corpus, 0)]
        try:
            cold = process.run([Step(("env", f"NUMBA_CACHE_DIR={cache}", *each)) for each in argv], place).seconds
        except Exception as error:
            problem = reason("regard", error)
    for model in ("best", "agreement", "sample", *PEERS):
        with suppress(RuntimeError):  # what fails here fails again, and says so, where it is measured
            process.run(Regard(model).steps(corpus, 0), place)
    yield Row("the first run of an install: 60 pairs, nothing compiled", "", "s", cold, ours=cold, problem=problem)


def _held(setting: Setting, text: Text, entries: Sequence[Entry], folder: Path) -> Contest:
    """The entries on a text; on a small made one for `--quick`. A text that is missing is the problem of all."""
    place = folder / "corpus"
    place.mkdir(exist_ok=True)
    try:
        corpus = noise.small(text.name, place, 60) if setting.quick else lay(text, place)
    except Missing as missing:
        for entry in entries:
            entry.problem = str(missing)
        corpus = Corpus(text.name, place, place, place, place, 0)
    return hold(setting, corpus, entries)
