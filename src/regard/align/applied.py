"""A trained aligner put to text that it was not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.align.corpus import Corpus, Side
from regard.align.expect import Channel
from regard.align.fertility.places import Fertile
from regard.align.lexicon import Lexicon
from regard.align.pairs import Pairs
from regard.align.places import Places
from regard.align.places.jumps import Jumps
from regard.align.saved import Saved
from regard.align.view import View
from regard.errors import RegardError

__all__ = ["Applied"]

Array = np.ndarray[Any, Any]

#: What a pair that never met is worth at least: with less, a sentence of strange words would say nothing at all.
_LEAST = 1e-9


class Applied:
    """A saved aligner put to other text, a batch of sentences at a time."""

    def __init__(self, saved: Saved) -> None:
        if "rows" not in saved.arrays:
            raise RegardError(
                f"--load: {saved.folder} was killed while it sampled; run its command with --save again, it goes on"
            )
        self.saved = saved
        self.numbers = [{word: k for k, word in enumerate(saved.words(side))} for side in ("source", "target")]
        self.lexicons = [saved.lexicon(k) for k in (0, 1)]
        rows, target = saved.arrays["rows"], saved.arrays["target"]
        self.wide = len(self.numbers[1]) + 1
        keys = np.repeat(np.arange(len(rows) - 1, dtype=np.int64), np.diff(rows)) * self.wide + target
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    def channels(self, corpus: Corpus, pairs: Pairs) -> tuple[Channel, Channel]:
        """Both channels over ``corpus``.

        A pair that never met has what is left for such by the prior. A word that was never seen says nothing: every
        word generates it alike; but one that stands on both sides as it is answers to itself.
        """
        known = [self._known(k, side) for k, side in enumerate((corpus.source, corpus.target))]
        e = np.repeat(np.arange(len(pairs.rows) - 1), np.diff(pairs.rows))
        f = pairs.target
        key = np.where((known[0][e] >= 0) & (known[1][f] >= 0), known[0][e] * self.wide + known[1][f], -1)
        at = np.minimum(np.searchsorted(self.keys, key), max(0, len(self.keys) - 1))
        met = self.keys[at] == key if len(self.keys) else np.zeros(len(key), np.bool_)
        number = self.order[at] if len(self.keys) else at
        same = _same(corpus.source, corpus.target, e, f) & (known[0][e] < 0) & (known[1][f] < 0)
        made = []
        for k, view in enumerate(View.both(corpus, pairs)):
            lexicon = self.lexicons[k]
            giving, given = (known[k][(e, f)[k]], known[1 - k][(f, e)[k]])
            size = 1 / max(1, len(lexicon.null))
            rest = np.where((giving >= 0) & (given >= 0), lexicon.rest[giving] if len(lexicon.rest) else 0.0, size)
            table = np.where(met, lexicon.table[number] if len(lexicon.table) else 0.0, np.maximum(rest, _LEAST))
            table = np.where(same, 0.5, table).astype(lexicon.table.dtype)
            words = known[1 - k]
            null = np.where(words >= 0, lexicon.null[words] if len(lexicon.null) else 0.0, size)
            places = _over(self.saved.places(k, view), known[k], known[1 - k], view)
            made.append(Channel(view, Lexicon(table, null.astype(table.dtype), lexicon.rest), places))
        return made[0], made[1]

    def _known(self, k: int, side: Side) -> Array:
        """The number each word of ``side`` had in training, −1 for none."""
        return np.array([self.numbers[k].get(word, -1) for word in side.words] or [-1], np.int64)


def _over(places: Places, giving: Array, given: Array, view: View) -> Places:
    """The places for other words, whose numbers in training are ``giving`` and ``given``."""
    if isinstance(places, Jumps):
        kinds = np.where(giving >= 0, places.classes[giving] if len(places.classes) else 0, 0)
        return places.over(kinds.astype(np.int32), int(view.generating.lengths().max(initial=0)))
    if isinstance(places, Fertile):
        sides = (view.generating, view.generated)
        one, two = (known[: len(side.words)] for known, side in zip((giving, given), sides, strict=True))
        return places.over(one, two, view, _over(places.guide, giving, given, view))
    return places


def _same(source: Side, target: Side, e: Array, f: Array) -> Array:
    """Which pairs are of one word that stands on both sides."""
    numbers = {word: k for k, word in enumerate(target.words)}
    twin = np.array([numbers.get(word, -1) for word in source.words] or [-1])
    alike: Array = twin[e] == f
    return alike
