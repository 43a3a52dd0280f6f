"""Links: which word of a sentence answers to which of its translation, for a whole corpus in three arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from regard.errors import RegardError

__all__ = ["Links"]

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Links(Sequence[list[Pair]]):
    """The links of n pairs of sentences: those of sentence s stand from ``offsets[s]`` to ``offsets[s + 1]``.

    A link (i, j) joins source word i and target word j, both counted from 0. Within a sentence links ascend by source,
    then target, and none is there twice. ``probability`` is None for links that are there or not and nothing more.
    ``links[s]`` is a list of pairs, ``links[a:b]`` the links of some sentences. An empty sentence has no links.

    >>> links = Links.of([[(1, 0), (0, 0)], [], [(2, 1)]])
    >>> len(links), links[0], links[1], links.turned[2], links.offsets.tolist()
    (3, [(0, 0), (1, 0)], [], [(1, 2)], [0, 2, 2, 3])
    """

    offsets: Array  # int64 [n + 1]
    source: Array  # int32 [K]
    target: Array  # int32 [K]
    probability: Array | None = None  # float32 [K]

    @staticmethod
    def of(sentences: Iterable[Iterable[tuple[int, int] | tuple[int, int, float]]]) -> Links:
        """Links from pairs (i, j) or triples (i, j, p) in any order; all have a probability or none has.

        >>> Links.of([[(0, 1, 0.25), (0, 0, 1.0)]]).probability.tolist()
        [1.0, 0.25]
        """
        each = [list(sentence) for sentence in sentences]
        flat = list(itertools.chain.from_iterable(each))
        sizes = {len(link) for link in flat}
        if not sizes <= {2} and sizes != {3}:
            raise RegardError(
                f"sentences: found links of {' and '.join(map(str, sorted(sizes)))} numbers, "
                "wanted (i, j) everywhere or (i, j, p) everywhere"
            )
        columns = list(zip(*flat, strict=True)) or [(), ()]
        offsets = np.zeros(len(each) + 1, np.int64)
        np.cumsum([len(sentence) for sentence in each], out=offsets[1:])
        p = np.array(columns[2], np.float32) if len(columns) > 2 else None
        return Links.sorted(offsets, np.array(columns[0], np.int32), np.array(columns[1], np.int32), p)

    @staticmethod
    def sorted(offsets: Array, source: Array, target: Array, probability: Array | None = None) -> Links:
        """Links from arrays in any order within a sentence; of a link that is there twice the likelier one stays."""
        if min(int(side.min(initial=0)) for side in (source, target)) < 0:
            raise RegardError("links: found a word number below 0, wanted words counted from 0; NULL has no link")
        made = Links(offsets, source, target, probability)
        keys = made._keys(made._radix())
        steps = np.diff(keys)
        if (steps > 0).all():
            return made
        order = np.argsort(keys, kind="stable") if probability is None else np.lexsort((-probability, keys))
        keys = keys[order]
        once = np.concatenate((np.ones(min(1, len(keys)), np.bool_), keys[1:] != keys[:-1]))
        return made._taken(order[once], made.sentence[order[once]])

    @staticmethod
    def join(parts: Iterable[Links]) -> Links:
        """The links of several runs of sentences, one after the other.

        >>> Links.join([Links.of([[(0, 0)]]), Links.of([[], [(1, 1)]])])[:]
        Links.of([[(0, 0)], [], [(1, 1)]])
        """
        each = list(parts)
        if not each:
            return Links(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
        counts = np.concatenate([np.diff(part.offsets) for part in each])
        p = [part.probability for part in each if part.probability is not None]
        if p and len(p) < len(each):
            raise RegardError("parts: some links have a probability and some have none; give all of them one, or none")
        return Links(
            np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64))),
            np.concatenate([part.source for part in each]),
            np.concatenate([part.target for part in each]),
            np.concatenate(p) if p else None,
        )

    @staticmethod
    def above(weights: Iterable[Array], floor: float) -> Links:
        """The cells of dense matrices (source, target), one a sentence, that hold at least ``floor`` > 0.

        >>> Links.above([np.array([[0.75, 0.25], [0.0, 0.5]])], 0.5)
        Links.of([[(0, 0, 0.75), (1, 1, 0.5)]])
        """
        if not floor > 0:
            raise RegardError(f"floor: found {floor}, wanted more than 0; every cell would be a link")
        counts, sources, targets, values = [0], [], [], []
        for matrix in weights:
            w = np.asarray(matrix)
            i, j = np.nonzero(w >= floor)
            counts.append(len(i))
            sources.append(i.astype(np.int32))
            targets.append(j.astype(np.int32))
            values.append(w[i, j].astype(np.float32))
        whole = [np.concatenate(part) if part else np.zeros(0, np.int32) for part in (sources, targets, values)]
        return Links(np.cumsum(counts, dtype=np.int64), whole[0], whole[1], whole[2].astype(np.float32))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, s: int) -> list[Pair]: ...
    @overload
    def __getitem__(self, s: slice) -> Links: ...
    def __getitem__(self, s: int | slice) -> list[Pair] | Links:
        if isinstance(s, slice):
            first, last, step = s.indices(len(self))
            if step != 1:
                raise RegardError(f"links: found a slice with step {step}, wanted consecutive sentences")
            offsets = self.offsets[first : max(first, last) + 1]
            a, b = int(offsets[0]), int(offsets[-1])
            p = None if self.probability is None else self.probability[a:b]
            return Links(offsets - a, self.source[a:b], self.target[a:b], p)
        s = range(len(self))[s]
        a, b = int(self.offsets[s]), int(self.offsets[s + 1])
        return list(zip(self.source[a:b].tolist(), self.target[a:b].tolist(), strict=True))

    def __iter__(self) -> Iterator[list[Pair]]:
        return (self[s] for s in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Links):
            return NotImplemented
        same = [
            np.array_equal(a, b)
            for a, b in ((self.offsets, other.offsets), (self.source, other.source), (self.target, other.target))
        ]
        p, q = self.probability, other.probability
        return all(same) and (p is q if p is None or q is None else np.array_equal(p, q))

    __hash__ = None  # type: ignore[assignment]  # arrays may change; Python's own way to say so

    def __repr__(self) -> str:
        if len(self.source) > 20 or len(self) > 20:
            return f"<{len(self.source):,} links of {len(self):,} pairs of sentences>"
        return f"Links.of({[self.row(s) for s in range(len(self))]})"

    def row(self, s: int) -> list[tuple[int, int] | tuple[int, int, float]]:
        """The links of sentence ``s``, each with its probability where there are any."""
        if self.probability is None:
            return list(self[s])
        p = self.probability[self.offsets[s] : self.offsets[s + 1]]
        return [(i, j, round(float(q), 6)) for (i, j), q in zip(self[s], p, strict=True)]

    @property
    def sentence(self) -> Array:
        """The sentence of each link, int64 [K]."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @property
    def turned(self) -> Links:
        """The same links with source and target exchanged."""
        return Links.sorted(self.offsets, self.target, self.source, self.probability)

    @property
    def hard(self) -> Links:
        """The same links without their probabilities."""
        return Links(self.offsets, self.source, self.target)

    def likely(self, least: float) -> Links:
        """The links whose probability is at least ``least``.

        >>> Links.of([[(0, 0, 0.25), (1, 1, 0.75)], [(0, 0, 0.5)]]).likely(0.5)
        Links.of([[(1, 1, 0.75)], [(0, 0, 0.5)]])
        """
        if self.probability is None:
            raise RegardError("links: these have no probabilities, so none is likelier; ask for posteriors")
        return self.where(self.probability >= least)

    def where(self, kept: Array) -> Links:
        """The links marked in ``kept``, bool [K]."""
        return self._taken(np.flatnonzero(kept), self.sentence[kept])

    def within(self, other: Links) -> Array:
        """Which of these links are among ``other``, bool [K]; both have as many sentences.

        >>> Links.of([[(0, 0), (1, 1)]]).within(Links.of([[(1, 1)]])).tolist()
        [False, True]
        """
        if len(self) != len(other):
            raise RegardError(f"other: found links of {len(other):,} pairs of sentences, wanted {len(self):,}")
        radix = tuple(map(max, zip(self._radix(), other._radix(), strict=True)))
        mine, theirs = self._keys(radix), other._keys(radix)
        if not len(theirs):
            return np.zeros(len(mine), np.bool_)
        at = np.minimum(np.searchsorted(theirs, mine), len(theirs) - 1)
        return np.asarray(theirs[at] == mine)

    def _radix(self) -> Pair:
        return int(self.source.max(initial=0)) + 1, int(self.target.max(initial=0)) + 1

    def _keys(self, radix: tuple[int, ...]) -> Array:
        """A number for each link that ascends with (sentence, i, j)."""
        if len(self) * radix[0] * radix[1] >= 1 << 63:
            raise RegardError(
                f"links: {len(self):,} sentences with words up to {radix[0]:,}-{radix[1]:,} are more than can be "
                "numbered; take fewer sentences at a time"
            )
        return (self.sentence * radix[0] + self.source) * radix[1] + self.target

    def _taken(self, places: Array, sentence: Array) -> Links:
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.bincount(sentence, minlength=len(self)), out=offsets[1:])
        p = None if self.probability is None else self.probability[places]
        return Links(offsets, self.source[places], self.target[places], p)
