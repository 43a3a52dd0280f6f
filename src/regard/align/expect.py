"""The E-step: both channels over the corpus, block by block, agreeing or each for itself.

Agreement (Liang, Taskar & Klein 2006): where two channels must explain the same links, a cell's count is what both
believe, the product of their posteriors; both tables are then estimated from the same counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.align.lexicon import Lexicon
from regard.align.pairs import Pairs, runs
from regard.align.places import Found, Places
from regard.align.view import Block, View
from regard.kernels.compile import kernel
from regard.kernels.workers import share

__all__ = ["Agreement", "Channel", "Expected", "agreed", "expect"]

Array = np.ndarray[Any, Any]

#: How two channels' posteriors p and q of a cell become one: pq, √(pq) or (p + q)/2.
Agreement = Literal["product", "geometric", "mean"]
_KINDS: tuple[Agreement, ...] = ("product", "geometric", "mean")


@dataclass(frozen=True)
class Channel:
    """One direction of translation: what a word becomes, and where a word looks."""

    view: View
    lexicon: Lexicon
    places: Places


@dataclass(frozen=True)
class Expected:
    """What a pass over a part of the corpus found for one channel: sums that may be added up over the parts."""

    score: float  # natural log likelihood
    counts: Array  # of each pair
    null: Array  # of each generated word, float64
    sums: Array  # what its places need


def expect(channels: Sequence[Channel], agreement: Agreement | None, threads: int | None = None) -> list[Expected]:
    """Expected counts of each channel over its view; with ``agreement`` of two, both get the same counts of pairs."""
    views = [channel.view for channel in channels]
    pairs, dtype = views[0].pairs, channels[0].lexicon.table.dtype
    found = [Found(view, dtype) for view in views]
    counts = [np.zeros(len(pairs), dtype) for _ in channels[: 1 if agreement else None]]
    for block in views[0].blocks():
        for channel, each in zip(channels, found, strict=True):
            channel.places.expect(channel.view, block, channel.lexicon, each, threads)
        posts = [each.post for each in found]
        if agreement:
            posts = [agreed(posts[0], posts[1], agreement, block.cells, threads)]
        for post, count in zip(posts, counts, strict=True):
            _count(pairs, views[0], block, post, count, threads)
    results = []
    for k, (channel, each) in enumerate(zip(channels, found, strict=True)):
        side = channel.view.generated
        null = np.bincount(side.tokens, weights=each.null, minlength=len(side.words))
        results.append(
            Expected(each.score, counts[0 if agreement else k], null, channel.places.sums(channel.view, each))
        )
    return results


def agreed(p: Array, q: Array, agreement: Agreement, size: int, threads: int | None = None) -> Array:
    """The two posteriors of each cell as one, in the place of the first."""
    chunks = [(a, min(a + (1 << 18), size)) for a in range(0, size, 1 << 18)]
    share(_agree, chunks, p, q, _KINDS.index(agreement), threads=threads)
    return p


def _count(pairs: Pairs, view: View, block: Block, post: Array, counts: Array, threads: int | None) -> None:
    """Adds each cell's posterior to its pair's count: a source word's pairs by one thread, in the order of the text."""
    lengths = np.diff(pairs.words)
    chunks = runs(lengths + np.diff(pairs.rows))
    share(
        _add, chunks, pairs.words, pairs.tokens, pairs.sentence, view.source.offsets, view.target.offsets, pairs.starts,
        pairs.cells, post, block.first, block.last, block.base, counts, threads=threads,
    )  # fmt: skip


@kernel
def _agree(p, q, kind, first, last):
    if kind == 0:
        for k in range(first, last):
            p[k] *= q[k]
    elif kind == 1:
        for k in range(first, last):
            p[k] = np.sqrt(p[k] * q[k])
    else:
        for k in range(first, last):
            p[k] = (p[k] + q[k]) / 2


@kernel
def _add(words, tokens, sentence, sources, targets, starts, cells, post, begin, end, base, counts, e0, e1):
    low, high = sources[begin], sources[end]
    for e in range(e0, e1):
        place = words[e] + np.searchsorted(tokens[words[e] : words[e + 1]], low)
        while place < words[e + 1] and tokens[place] < high:
            k = tokens[place]
            s = sentence[k]
            m = targets[s + 1] - targets[s]
            cell = starts[s] + (k - sources[s]) * m
            for j in range(m):
                counts[cells[cell + j]] += post[cell - base + j]
            place += 1
