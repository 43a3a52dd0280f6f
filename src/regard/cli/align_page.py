"""The page of `regard align`: hard links over posteriors, and over where a translator looked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.align.corpus import Corpus
from regard.align.links import Links
from regard.align.page import MOST, document

if TYPE_CHECKING:
    from regard.align.gold import Gold

__all__ = ["page"]


def page(
    corpus: Corpus, hard: Mapping[str, Links], shade: Links | None, gold: Gold | None, attention: Path | None
) -> str:
    """The sentences that have gold, or the first ones: links over ``shade``, what both directions believe; the
    attention of the translator in ``attention`` is another shade."""
    first = 0 if gold is None else gold.place(len(corpus))
    last = min(len(corpus), first + (MOST if gold is None else len(gold)))
    soft = {} if shade is None else {"both directions": shade}
    if attention is not None:
        soft["attention"] = _attended(attention, corpus, first, last)
    return document(corpus, hard, soft=soft, gold=gold, pairs=range(first, last))


def _attended(folder: Path, corpus: Corpus, first: int, last: int) -> Links:
    """Where the translator looks as it is led through each translation: its heads' mean, of words. Sentences outside of
    ``first`` to ``last`` have none."""
    from regard.align.soft.attention import fold, links
    from regard.translate.decoding.forced import forced
    from regard.translate.translator import Translator

    texts = (
        [b" ".join(side.sentence(s)).decode("utf-8", "replace") for s in range(first, last)]
        for side in (corpus.source, corpus.target)
    )
    read = forced(Translator.load(folder), *texts)
    found = links(
        (fold(each.weights.mean((0, 1)), each.target_words, each.source_words) for each in read), threshold=1e-3
    )
    counts = np.zeros(len(corpus) + 1, np.int64)
    counts[first + 1 : last + 1] = np.diff(found.offsets)
    return Links(np.cumsum(counts), found.source, found.target, found.probability)
