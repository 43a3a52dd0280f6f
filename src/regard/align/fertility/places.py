"""Models 3, 4 and 5 as the places of a channel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.align.corpus import Side
from regard.align.expect import Channel
from regard.align.fertility.belief import Belief
from regard.align.fertility.distances import Absolute, Distances, Relative, Vacancies, smoothed
from regard.align.fertility.look import begin, look
from regard.align.fertility.start import guess, recount
from regard.align.fertility.tables import FERTILITIES, Counts
from regard.align.lexicon import Lexicon
from regard.align.places import Found, Places
from regard.align.view import Block, View
from regard.kernels.workers import share

__all__ = ["Fertile", "Tops"]

Array = np.ndarray[Any, Any]

#: Who adds up counts; the same however many threads there are.
_LANES = 16
_UNKNOWN = -2


@dataclass(frozen=True)
class Tops:
    """Where climbing has come, of each generated word of ``side``: its place, −1 for NULL. A pass writes it anew."""

    side: Side
    places: Array  # int16

    @staticmethod
    def none(side: Side) -> Tops:
        """No word has been looked at."""
        return Tops(side, np.full(len(side.tokens), _UNKNOWN, np.int16))

    def gathered(self, part: tuple[int, int], together: Callable[[Array], Array]) -> Tops:
        """Where all processes have come, each of whom climbs in its ``part`` of the sentences."""
        begin, end = self.side.offsets[list(part)].tolist()
        mine = np.zeros(len(self.places), np.int32)
        mine[begin:end] = self.places[begin:end]
        return Tops(self.side, together(mine).astype(np.int16))


@dataclass(frozen=True)
class Fertile:
    """Fertility n(φ|e), NULL's share p1, and distances: Absolute is Model 3, Relative Model 4, Vacancies Model 5.

    The score is that of the alignments which are looked at, log Σ_a P(f, a|e) over them.
    """

    distances: Distances
    fertility: Array  # float64 [V + 1, FERTILITIES], the last for a word not seen before
    p1: float
    guide: Places  # whence a text not seen before starts to climb
    tops: Tops
    source: Array  # int32, the class A of each generating word
    target: Array  # int32, the class B of each generated word
    belief: Belief
    dtype: Any = np.float32

    @staticmethod
    def starting(
        channel: Channel,
        classes: tuple[Array, Array],
        belief: Belief | None = None,
        *,
        threads: int | None = None,
        together: Callable[[Array], Array] = lambda x: x,
    ) -> Fertile:
        """Model 3 from the posteriors of a channel that has been trained without fertility.

        ``classes`` are those of the generating and of the generated words. Fertilities are counted as if each word
        looked for itself; ``together`` adds counts up over all that train on a part of the corpus each.
        """
        view, belief = channel.view, belief or Belief()
        distances = Absolute.starting(belief.strength)
        counts, tops = _lanes(distances.shapes(len(view.generating.words))), Tops.none(view.generated)
        found = Found(view, channel.lexicon.table.dtype)
        for block in view.blocks():
            channel.places.expect(view, block, channel.lexicon, found, threads)
            _begin(view, block, found, tops.places, threads)
            _, gives, _, gets, _, starts, turned = view.layout()
            share(
                guess, _ALL, view.generating.tokens, gives, gets, starts, turned, block.base, found.post, found.null,
                *_lines(block), counts, threads=threads,
            )  # fmt: skip
        alike = np.full((len(view.generating.words) + 1, FERTILITIES), 1 / FERTILITIES)
        made = Fertile(
            distances, alike, belief.p1 or 0.1, channel.places, tops, *classes, belief,
            channel.lexicon.table.dtype.type,
        )  # fmt: skip
        return made.fitted(view, together(_row(counts)))

    def next(
        self,
        model: int,
        view: View,
        *,
        threads: int | None = None,
        together: Callable[[Array], Array] = lambda x: x,
    ) -> Fertile:
        """Model 3, 4 or 5, counted from the alignments to which climbing has come in this one."""
        a, b = (int(each.max(initial=0)) + 1 for each in (self.source, self.target))
        strength = self.belief.strength
        distances: Distances
        if model == 3:
            distances = Absolute.starting(strength)
        elif model == 4:
            distances = Relative.starting(a, b, strength)
        else:
            distances = Vacancies.starting(b, strength)
        counts = _lanes(distances.shapes(len(view.generating.words)))
        giving, gives, given, gets, *_ = view.layout()
        for block in view.blocks():
            share(
                recount, _ALL, model, giving, gives, given, gets, self.source, self.target, self.tops.places,
                *_lines(block), counts, threads=threads,
            )  # fmt: skip
        return replace(self, distances=distances).fitted(view, together(_row(counts)))

    def over(self, giving: Array, given: Array, view: View, guide: Places) -> Fertile:
        """The same for the words of another text: ``giving`` and ``given`` are the numbers its generating and generated
        words have here, −1 for none; ``guide`` is for that text."""
        source, target = (
            np.where(known >= 0, of[known] if len(of) else 0, 0).astype(np.int32)
            for known, of in ((giving, self.source), (given, self.target))
        )
        fertility, tops = self.fertility[np.append(giving, -1)], Tops.none(view.generated)
        return replace(self, fertility=fertility, source=source, target=target, guide=guide, tops=tops)

    def expect(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> None:
        """Climbs from where it had come, or from where the guide looks, and counts the neighbourhood."""
        scores, _ = found.begin(block, 0)
        if not len(found.tops):
            known = self.tops.side is view.generated
            found.tops = self.tops.places if known else Tops.none(view.generated).places
        giving, gives, given, gets, cells, starts, turned = view.layout()
        if (found.tops[gets[block.first] : gets[block.last]] == _UNKNOWN).any():
            guided = Found(view, self.dtype)
            self.guide.expect(view, block, lexicon, guided, threads)
            _begin(view, block, guided, found.tops, threads)
        shapes = self.distances.shapes(len(view.generating.words))
        if not len(found.table):
            found.table = np.zeros(_LANES * _size(shapes))
        longest = int(max(view.source.lengths().max(initial=0), view.target.lengths().max(initial=0)))
        factorials = np.zeros(longest + 2)
        np.cumsum(np.log(np.arange(1, longest + 2)), out=factorials[1:])
        fertility = np.log(np.maximum(self.fertility, 1e-30)).astype(self.dtype)
        belief = self.belief
        share(
            look, _ALL, self.distances.model, giving, gives, given, gets, cells, starts, turned, lexicon.table,
            lexicon.null, fertility, self.p1, self.source, self.target, self.distances.tables(longest, self.dtype),
            factorials, block.base, belief.least, -1.0 if belief.peg is None else belief.peg, found.tops, found.post,
            found.null, scores, *_lines(block), _cut(found.table, shapes, _LANES), threads=threads,
        )  # fmt: skip

    def best(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> Array:
        """Where climbing came: the best alignment of all where each was looked at."""
        gets = view.generated.offsets
        places: Array = found.tops[gets[block.first] : gets[block.last]].astype(np.int32)
        return places

    def sums(self, view: View, found: Found) -> Array:
        """All counts in a row."""
        shapes = self.distances.shapes(len(view.generating.words))
        return _row(_cut(found.table, shapes, _LANES)) if len(found.table) else np.zeros(_size(shapes))

    def fitted(self, view: View, sums: Array) -> Fertile:
        """The M-step."""
        counts = _cut(sums, self.distances.shapes(len(view.generating.words)))
        # Words that were never seen have what all have.
        known = np.concatenate((counts.fertility, np.zeros((1, FERTILITIES))))
        everyone = smoothed(counts.fertility.sum(0), np.full(FERTILITIES, 1 / FERTILITIES), 1.0)
        p1 = self.p1
        if self.belief.p1 is None and counts.null[1] > 0:
            # Every word that isn't NULL's may bring one of NULL's.
            p1 = float(np.clip(counts.null[0] / (counts.null[1] - counts.null[0]), 1e-6, 0.5))
        fertility = smoothed(known, everyone, self.belief.rare)
        return replace(self, distances=self.distances.fitted(counts), fertility=fertility, p1=p1)


_ALL = [(lane, lane + 1) for lane in range(_LANES)]


def _begin(view: View, block: Block, found: Found, tops: Array, threads: int | None) -> None:
    """Climbing begins where each word most probably looks."""
    _, gives, _, gets, _, starts, turned = view.layout()
    share(
        begin, block.runs, gives, gets, starts, turned, block.base, found.post, found.null, tops, threads=threads
    )  # fmt: skip


def _lines(block: Block) -> tuple[Array, Array]:
    """The runs of a block, and where each lane's begin."""
    edges = np.array(block.runs, np.int64).reshape(-1, 2)
    return edges, np.linspace(0, len(edges), _LANES + 1).astype(np.int64)


def _lanes(shapes: Counts) -> Counts:
    return Counts(*(np.zeros((_LANES, *shape)) for shape in shapes))


def _size(shapes: Counts) -> int:
    return sum(math.prod(shape) for shape in shapes)


def _row(lanes: Counts) -> Array:
    """The sums of all lanes, in their order."""
    return np.concatenate([each.sum(0).ravel() for each in lanes])


def _cut(row: Array, shapes: Counts, lanes: int | None = None) -> Counts:
    """And back."""
    many = () if lanes is None else (lanes,)
    edges = np.cumsum([0, *((lanes or 1) * math.prod(shape) for shape in shapes)])
    return Counts(
        *(row[a:b].reshape((*many, *shape)) for a, b, shape in zip(edges[:-1], edges[1:], shapes, strict=True))
    )
