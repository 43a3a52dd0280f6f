"""Two ways of believing in the same links, averaged: an HMM trained by EM, and the sampler that begins at its links.

They err differently. EM fits one table and sums over all alignments, and knows nothing of fertilities; the sampler sums
over tables, weighs fertilities, and looks at one alignment of the other words at a time. A cell that both believe in
stays, one that a single one is sure of is halved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.decode import Believed, hard
from regard.align.expect import Channel
from regard.align.gibbs.beliefs import Beliefs
from regard.align.gibbs.beliefs import sweeps as usual
from regard.align.gibbs.sampler import Sampler
from regard.align.places import Found
from regard.align.places.likeliest import likeliest
from regard.kernels.compile import kernel
from regard.kernels.workers import share

__all__ = ["after", "blend"]

Array = np.ndarray[Any, Any]


def after(
    corpus: Corpus,
    channels: tuple[Channel, Channel],
    *,
    seed: int = 0,
    chains: int = 3,
    sweeps: int | None = None,
    beliefs: Beliefs | None = None,
    known: Array | None = None,
    threads: int | None = None,
) -> Sampler:
    """A sampler of the model with fertilities whose chains begin at the channels' likeliest links; not yet run.

    ``sweeps`` are a quarter of the usual number if not given, and ``empty`` half of the usual probability: links that
    are good to begin with need few, and get worse when sampled for long.
    """
    many = max(2, usual(len(corpus))[2] // 4) if sweeps is None else sweeps
    starts = []
    for channel in channels:
        found = Found(channel.view, channel.lexicon.table.dtype)
        links = np.full(len(channel.view.generated.tokens), -1, np.int16)
        gets = channel.view.generated.offsets
        for block in channel.view.blocks():
            channel.places.expect(channel.view, block, channel.lexicon, found, threads)
            links[gets[block.first] : gets[block.last]] = likeliest(channel.view, block, found, threads)
        starts.append(links)
    return Sampler(
        corpus,
        channels[0].view.pairs,
        seed=seed,
        chains=chains,
        sweeps=(0, 0, many),
        beliefs=beliefs or Beliefs(empty=0.1),
        known=known,
        links=(starts[0], starts[1]),
    )


def blend(
    channels: tuple[Channel, Channel], sampler: Sampler, *, weight: float = 0.65, threads: int | None = None
) -> Iterator[Believed]:
    """For each block ``weight`` times the sampler's posteriors and 1 − ``weight`` times the channels', in each
    direction; and the likeliest place of each word under these."""
    for block in channels[0].view.blocks():
        posts, links = [], []
        for channel, side in zip(channels, range(2), strict=True):
            found = Found(channel.view, channel.lexicon.table.dtype)
            channel.places.expect(channel.view, block, channel.lexicon, found, threads)
            other = sampler.found(block, side, threads)
            for mine, theirs in ((found.post, other.post), (found.null, other.null)):
                chunks = [(a, min(a + (1 << 18), len(mine))) for a in range(0, len(mine), 1 << 18)]
                share(_average, chunks, mine, theirs, mine.dtype.type(weight), threads=threads)
            posts.append(found.post)
            links.append(hard(channel.view, block, likeliest(channel.view, block, found, threads)))
        yield Believed(block, posts[0], posts[1], (links[0], links[1]))


@kernel
def _average(mine, theirs, weight, first, last):
    for k in range(first, last):
        mine[k] += weight * (theirs[k] - mine[k])
