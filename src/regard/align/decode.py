"""From what two channels believe to links, block by block, in the order of the text."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.expect import Channel, agreed
from regard.align.links import Links
from regard.align.places import Found
from regard.align.places.likeliest import likeliest
from regard.align.symmetrize import named
from regard.align.view import Block, View

__all__ = ["Believed", "believe", "chosen", "combined", "hard", "weighed"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Believed:
    """Both channels' posteriors of the cells of a block: p(i|j), and p(j|i); and each one's hard links."""

    block: Block
    forward: Array
    reverse: Array
    links: tuple[Links, Links]  # forward: each target word has at most one; reverse: each source word

    @functools.cached_property
    def both(self) -> Array:
        """√(p(i|j) p(j|i)) of each cell."""
        return agreed(self.forward.copy(), self.reverse, "geometric", self.block.cells)


def believe(
    channels: tuple[Channel, Channel], *, viterbi: bool = False, threads: int | None = None
) -> Iterator[Believed]:
    """The posteriors of every block of the channels' part of a corpus, and the likeliest place of each word: by its
    own posterior, or with ``viterbi`` in the likeliest alignment of the sentence. What was believed of a block is good
    until the next is asked for."""
    founds = [Found(channel.view, channel.lexicon.table.dtype) for channel in channels]
    for block in channels[0].view.blocks():
        posts, links = [], []
        for channel, found in zip(channels, founds, strict=True):
            channel.places.expect(channel.view, block, channel.lexicon, found, threads)
            if viterbi:
                places = channel.places.best(channel.view, block, channel.lexicon, found, threads)
            else:
                places = likeliest(channel.view, block, found, threads)
            posts.append(found.post)
            links.append(hard(channel.view, block, places))
        yield Believed(block, posts[0], posts[1], (links[0], links[1]))


def combined(view: View, believed: Believed, symmetrize: str, threshold: float = 0.5) -> Links:
    """One set of links from both channels', each with √(p(i|j) p(j|i)): ``soft`` takes the cells where that is above
    the threshold, the other methods of ``symmetrize`` the hard links."""
    if symmetrize == "soft":
        return chosen(view, believed.block, believed.both, threshold)
    return weighed(view, believed, named(symmetrize)(*believed.links))


def weighed(view: View, believed: Believed, links: Links) -> Links:
    """Links of the block, each with √(p(i|j) p(j|i))."""
    block = believed.block
    sentence = np.repeat(np.arange(block.first, block.last), np.diff(links.offsets))
    cell = view.pairs.starts[sentence] - block.base + links.source * view.target.lengths()[sentence] + links.target
    return Links(links.offsets, links.source, links.target, believed.both[cell].astype(np.float32))


def hard(view: View, block: Block, places: Array) -> Links:
    """The links of the block's generated words to their ``places``, −1 for none."""
    gets = view.generated.offsets[block.first : block.last + 1]
    lengths = np.diff(gets)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    word = np.arange(len(places)) - (gets[:-1] - gets[0])[sentence]
    linked = places >= 0
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.bincount(sentence[linked], minlength=len(lengths)), out=offsets[1:])
    given, giving = word[linked].astype(np.int32), places[linked]
    return Links.sorted(offsets, given, giving) if view.turned else Links.sorted(offsets, giving, given)


def chosen(view: View, block: Block, weights: Array, threshold: float) -> Links:
    """The cells of the block that weigh more than ``threshold``, with their weight."""
    cell = np.nonzero(weights[: block.cells] > threshold)[0]
    starts = view.pairs.starts[block.first : block.last + 1] - block.base
    sentence = np.searchsorted(starts, cell, side="right") - 1
    lengths = view.target.lengths()[block.first : block.last]
    i, j = np.divmod(cell - starts[sentence], np.maximum(lengths[sentence], 1))
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.bincount(sentence, minlength=len(lengths)), out=offsets[1:])
    return Links(offsets, i.astype(np.int32), j.astype(np.int32), weights[cell].astype(np.float32))
