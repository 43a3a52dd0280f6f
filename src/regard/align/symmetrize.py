"""Two directions made one: each aligner gives every generated word at most one link, and a translation needs more.

All methods take the links of the forward channel (source generates target) and of the reverse one, both as (source,
target). Those that grow are the heuristics of Koehn, Och & Marcu (2003) as Koehn et al. (2005) published them: start
from the intersection, add links of the union beside links that are there.

What grows depends on the order of visiting, and implementations differ in it. Here, as in fast_align's ``atools``, the
candidates of the union are visited by source word, then target word, again and again until a round adds none; a link
that was added counts at once. The published loop visits the links that are there and looks around each: a few sentences
in a hundred then differ, by a link or two. For the same reason the growing methods are not quite symmetric: exchanging
the languages changes one or two sentences in a hundred. The other methods are.

Where both directions give probabilities, a link that both have gets the geometric mean √(p q), and a link that one has
keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.align.links import Links
from regard.errors import RegardError, unknown_name
from regard.kernels.compile import inline, kernel
from regard.kernels.workers import share

__all__ = [
    "METHODS",
    "grow_diag",
    "grow_diag_final",
    "grow_diag_final_and",
    "intersection",
    "named",
    "soft",
    "union",
]

Array = np.ndarray[Any, Any]
Method = Callable[..., Links]  # of (forward, reverse, *, threads=None)

_BLOCK = 1 << 16  # sentences whose union is held at a time
_CHUNK = 1 << 11  # sentences a thread takes at a time
_FINAL, _FINAL_AND = 1, 2


def intersection(forward: Links, reverse: Links, *, threads: int | None = None) -> Links:
    """forward ∩ reverse: few links and right ones.

    >>> forward, reverse = Links.of([[(0, 0), (1, 1), (1, 2)]]), Links.of([[(0, 0), (1, 1), (2, 1)]])
    >>> intersection(forward, reverse)[0]
    [(0, 0), (1, 1)]
    """
    return _combined(forward, reverse, lambda both: both.forward & both.reverse, threads)


def union(forward: Links, reverse: Links, *, threads: int | None = None) -> Links:
    """forward ∪ reverse: whatever one of them says.

    >>> forward, reverse = Links.of([[(0, 0), (1, 1), (1, 2)]]), Links.of([[(0, 0), (1, 1), (2, 1)]])
    >>> union(forward, reverse)[0]
    [(0, 0), (1, 1), (1, 2), (2, 1)]
    """
    return _combined(forward, reverse, lambda both: both.forward | both.reverse, threads)


def grow_diag(forward: Links, reverse: Links, *, threads: int | None = None) -> Links:
    """The intersection, and links of the union that touch one (diagonals too) with a word that has no link yet.

    Koehn et al. 2005, GROW-DIAG().

    >>> forward, reverse = Links.of([[(0, 0), (1, 1), (3, 3)]]), Links.of([[(0, 0), (1, 0), (2, 3)]])
    >>> grow_diag(forward, reverse)[0]  # (1, 0) touches (0, 0) and links 1; (1, 1) touches it and links 1 on the other
    [(0, 0), (1, 0), (1, 1)]
    """
    return _combined(forward, reverse, lambda both: both.grown(0), threads)


def grow_diag_final(forward: Links, reverse: Links, *, threads: int | None = None) -> Links:
    """:func:`grow_diag`, then every link of forward, then of reverse, with a word that has no link yet.

    Koehn et al. 2005, GROW-DIAG(); FINAL(). Exchanging forward and reverse can change the last step.

    >>> forward, reverse = Links.of([[(0, 0), (1, 1), (3, 3)]]), Links.of([[(0, 0), (1, 0), (2, 3)]])
    >>> grow_diag_final(forward, reverse)[0]
    [(0, 0), (1, 0), (1, 1), (2, 3), (3, 3)]
    """
    return _combined(forward, reverse, lambda both: both.grown(_FINAL), threads)


def grow_diag_final_and(forward: Links, reverse: Links, *, threads: int | None = None) -> Links:
    """:func:`grow_diag`, then every link of forward, then of reverse, of two words that both have none yet.

    Koehn et al. 2005, GROW-DIAG(); FINAL-AND(). What it gives need not lie in what :func:`grow_diag_final` gives: that
    may have linked both words by other links before.

    >>> forward, reverse = Links.of([[(0, 0), (1, 1), (3, 3)]]), Links.of([[(0, 0), (1, 0), (2, 3)]])
    >>> grow_diag_final_and(forward, reverse)[0]
    [(0, 0), (1, 0), (1, 1), (3, 3)]
    """
    return _combined(forward, reverse, lambda both: both.grown(_FINAL_AND), threads)


def soft(forward: Links, reverse: Links, threshold: float = 0.5, *, threads: int | None = None) -> Links:
    """The links with √(p q) ≥ threshold, p and q the posteriors of the two channels, where a missing link has 0.

    A threshold on the product p q (Liang, Taskar & Klein 2006) is its square root here, so that what comes out is on
    the scale of a probability. Give the posteriors of all links, not only of the best: those under threshold² cannot
    matter, because the other is at most 1.

    Raises:
        RegardError: a direction has no probabilities, or ``threshold`` is not in (0, 1].

    >>> forward, reverse = Links.of([[(0, 0, 0.9), (1, 1, 0.6)]]), Links.of([[(0, 0, 0.4), (1, 1, 0.3)]])
    >>> soft(forward, reverse)
    Links.of([[(0, 0, 0.6)]])
    """
    if not 0 < threshold <= 1:
        raise RegardError(f"threshold: found {threshold}, wanted more than 0 and at most 1")
    for name, links in (("forward", forward), ("reverse", reverse)):
        if links.probability is None:
            raise RegardError(f"{name}: these links have no probabilities; soft needs the posteriors of both channels")
    return intersection(forward, reverse, threads=threads).likely(threshold)


#: By the names that the command takes.
METHODS: dict[str, Method] = {
    "grow-diag": grow_diag,
    "grow-diag-final": grow_diag_final,
    "grow-diag-final-and": grow_diag_final_and,
    "intersection": intersection,
    "soft": soft,
    "union": union,
}


def named(name: str) -> Method:
    """The method of a name.

    >>> named("grow-diag") is grow_diag
    True
    >>> named("intersect")
    Traceback (most recent call last):
        ...
    regard.errors.RegardError: symmetrize: unknown name 'intersect'; did you mean 'intersection'? Known: grow-diag, ...
    """
    if name not in METHODS:
        raise unknown_name("symmetrize", name, METHODS)
    return METHODS[name]


class _Both:
    """The union of both directions, sentence by sentence, with gaps; which of it each direction has."""

    def __init__(self, forward: Links, reverse: Links, threads: int | None) -> None:
        n = len(forward)
        self.threads = threads
        self.starts = forward.offsets + reverse.offsets
        room = int(self.starts[-1])
        self.counts = np.zeros(n, np.int64)
        self.source, self.target = np.empty(room, np.int32), np.empty(room, np.int32)
        self.forward, self.reverse = np.zeros(room, np.bool_), np.zeros(room, np.bool_)
        self.chunks = [(first, min(n, first + _CHUNK)) for first in range(0, n, _CHUNK)]
        sides = (forward.offsets, forward.source, forward.target, reverse.offsets, reverse.source, reverse.target)
        out = (self.starts, self.counts, self.source, self.target, self.forward, self.reverse)
        share(_merge, self.chunks, *sides, *out, threads=threads)

    def grown(self, final: int) -> Array:
        kept = self.forward & self.reverse
        given = (self.starts, self.counts, self.source, self.target, self.forward, self.reverse)
        share(_grow, self.chunks, *given, np.int64(final), kept, threads=self.threads)
        return kept


def _combined(forward: Links, reverse: Links, chosen: Callable[[_Both], Array], threads: int | None) -> Links:
    if len(forward) != len(reverse):
        raise RegardError(
            f"reverse: found links of {len(reverse):,} pairs of sentences, forward has {len(forward):,}; "
            "both must be of the same corpus"
        )
    blocks = range(0, max(1, len(forward)), _BLOCK)
    return Links.join(_block(forward[a : a + _BLOCK], reverse[a : a + _BLOCK], chosen, threads) for a in blocks)


def _block(forward: Links, reverse: Links, chosen: Callable[[_Both], Array], threads: int | None) -> Links:
    both = _Both(forward, reverse, threads)
    kept = chosen(both)
    p = None
    if forward.probability is not None and reverse.probability is not None:
        p, q = np.ones((2, len(kept)), np.float32)
        p[both.forward], q[both.reverse] = forward.probability, reverse.probability
        p = np.where(both.forward & both.reverse, np.sqrt(p * q), p * q)[kept]
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept)))
    return Links(ends[both.starts], both.source[kept], both.target[kept], p)


@kernel
def _merge(fo, fs, ft, ro, rs, rt, starts, counts, source, target, forward, reverse, first, last):
    """Two ascending lists a sentence become one."""
    for s in range(first, last):
        at, a, b = starts[s], fo[s], ro[s]
        while a < fo[s + 1] or b < ro[s + 1]:
            before = b == ro[s + 1] or (a < fo[s + 1] and (fs[a] < rs[b] or (fs[a] == rs[b] and ft[a] <= rt[b])))
            after = a == fo[s + 1] or (b < ro[s + 1] and (rs[b] < fs[a] or (rs[b] == fs[a] and rt[b] <= ft[a])))
            if before:
                source[at] = fs[a]
                target[at] = ft[a]
                forward[at] = True
                a += 1
            if after:
                source[at] = rs[b]
                target[at] = rt[b]
                reverse[at] = True
                b += 1
            at += 1
        counts[s] = at - starts[s]


@inline
def _mark(k, start, stop, source, target, touched, rows, columns):
    """Link k is there: its words have a link, and the candidates beside it touch one."""
    i, j = source[k], target[k]
    rows[i] = True
    columns[j] = True
    near = k - 1
    while near >= start and source[near] >= i - 1:
        if abs(target[near] - j) <= 1:
            touched[near - start] = True
        near -= 1
    near = k + 1
    while near < stop and source[near] <= i + 1:
        if abs(target[near] - j) <= 1:
            touched[near - start] = True
        near += 1


@kernel
def _grow(starts, counts, source, target, forward, reverse, final, kept, first, last):
    most, widest, deepest = np.int64(0), np.int32(0), np.int32(0)
    for s in range(first, last):
        most = max(most, counts[s])
        for k in range(starts[s], starts[s] + counts[s]):
            widest, deepest = max(widest, source[k]), max(deepest, target[k])
    touched = np.zeros(most, np.bool_)
    rows, columns = np.zeros(widest + 1, np.bool_), np.zeros(deepest + 1, np.bool_)
    for s in range(first, last):
        start, stop = starts[s], starts[s] + counts[s]
        touched[: stop - start] = False
        for k in range(start, stop):
            rows[source[k]] = False
            columns[target[k]] = False
        for k in range(start, stop):
            if kept[k]:
                _mark(k, start, stop, source, target, touched, rows, columns)
        grew = True
        while grew:
            grew = False
            for k in range(start, stop):
                if not kept[k] and touched[k - start] and not (rows[source[k]] and columns[target[k]]):
                    kept[k] = True
                    grew = True
                    _mark(k, start, stop, source, target, touched, rows, columns)
        for turn in range(2 if final > 0 else 0):
            direction = forward if turn == 0 else reverse
            for k in range(start, stop):
                linked = rows[source[k]] and columns[target[k]] if final == 1 else rows[source[k]] or columns[target[k]]
                if direction[k] and not kept[k] and not linked:
                    kept[k] = True
                    rows[source[k]] = True
                    columns[target[k]] = True
