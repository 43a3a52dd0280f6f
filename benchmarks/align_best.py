"""What each part of `regard align --model best` is worth: AER with the part left out or exchanged, on each corpus.

Its numbers were chosen by looking at these gold sets, so these figures say what a part does and not how it will do on
text that nobody looked at.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.aligners import noise
from benchmarks.harness.aligners.corpora import TEXTS, Text, lay
from benchmarks.harness.peers import Missing
from benchmarks.harness.row import Line, Row
from benchmarks.harness.setting import Setting

if TYPE_CHECKING:
    from regard.align.corpus import Corpus
    from regard.align.gold import Gold
    from regard.align.recipe import Recipe

TITLE = "what each part of `regard align --model best` is worth: AER without it, on each corpus with gold"

TABLE = "AER in percent, lower is better"


@dataclass(frozen=True)
class Variant:
    """`best` with something changed; `change` makes the recipe, `symmetrize` and `threshold` how links are read."""

    name: str
    change: Callable[[Recipe], Recipe]
    symmetrize: str = "soft"
    threshold: float = 0.5


def rows(setting: Setting) -> Iterator[Row | Line]:
    """A line for each variant; a row for each corpus that is not there."""
    from regard.align.recipe import BEST

    texts: dict[str, tuple[Corpus, Gold]] = {}
    for text in TEXTS[:1] if setting.quick else TEXTS:
        try:
            read = _read(setting, text)
        except Missing as missing:
            yield Row(text.name, "", "", problem=str(missing))
            continue
        texts[text.name] = read
    for variant in variants() if texts else ():
        found = {name: _aer(corpus, gold, variant, variant.change(BEST)) for name, (corpus, gold) in texts.items()}
        cells = {name: f"{aer:.1f}" for name, aer in found.items()}
        yield Line(TABLE, {"variant": variant.name, **cells}, {"variant": variant.name, **found})


def variants() -> list[Variant]:
    """What is tried, the whole first; then without what is drawn, and that with one thing changed."""
    from regard.align.lexicon import Dirichlet

    def stages(*names: str) -> Callable[[Recipe], Recipe]:
        from regard.align.recipe import Stage

        return with_(stages=tuple(map(Stage.of, names)))

    def with_(**fields: object) -> Callable[[Recipe], Recipe]:
        return lambda best: replace(best, drawn=None, **fields)  # type: ignore[arg-type]  # fields of a Recipe

    mean, product = "ibm1:4:mean", "hmm:4:product"
    return [
        Variant("best", lambda best: best),
        Variant("agreement (nothing drawn)", with_()),
        Variant("without spelling", with_(spelling=0.0)),
        Variant("jumps as learnt (power 1)", with_(flat=1.0)),
        Variant("without both", with_(spelling=0.0, flat=1.0)),
        Variant("each direction for itself", stages("ibm1:4", "hmm:4")),
        Variant("agreement in the HMM alone", stages("ibm1:4", product)),
        Variant("product in IBM 1 too", stages("ibm1:4:product", product)),
        Variant("geometric mean in the HMM", stages(mean, "hmm:4:geometric")),
        Variant("mean in the HMM", stages(mean, "hmm:4:mean")),
        Variant("HMM of 2 iterations", stages(mean, "hmm:2:product")),
        Variant("HMM of 8 iterations", stages(mean, "hmm:8:product")),
        Variant("IBM 1 alone, agreeing", stages(mean)),
        Variant("spelling counts 10 times", with_(spelling=10.0)),
        Variant("no prior on translations", with_(prior=Dirichlet())),
        Variant("prior 0.01 on translations", with_(prior=Dirichlet(0.01, 0.01))),
        Variant("variational Bayes", with_(prior=Dirichlet(0.001, 0.001, variational=True))),
        Variant("no smoothing of jumps", with_(jump=0.0)),
        Variant("NULL 0.2", with_(null=0.2)),
        Variant("threshold 0.4", with_(), threshold=0.4),
        Variant("threshold 0.6", with_(), threshold=0.6),
        Variant("hard: intersection", with_(), "intersection"),
        Variant("hard: grow-diag-final-and", with_(), "grow-diag-final-and"),
    ]


def _read(setting: Setting, text: Text) -> tuple[Corpus, Gold]:
    from regard.align import gold
    from regard.align.corpus import read

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        laid = noise.small(text.name, folder, 60) if setting.quick else lay(text, folder)
        return read(laid.source, laid.target), gold.read(laid.gold)


def _aer(corpus: Corpus, gold: Gold, variant: Variant, recipe: Recipe) -> float:
    """In percent."""
    from regard.align.aligner import align
    from regard.align.gold import score

    found = align(corpus, recipe, symmetrize=variant.symmetrize, threshold=variant.threshold)
    return 100 * score(found.links, gold).aer
