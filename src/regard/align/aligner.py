"""A corpus aligned: trained or sampled by a recipe, both directions made one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.decode import Believed, believe, chosen, combined, weighed
from regard.align.links import Links
from regard.align.pairs import Pairs
from regard.align.prior import spelt
from regard.align.recipe import BEST, Recipe, Sampling
from regard.align.train import Iteration, State, begin, train
from regard.align.view import View

if TYPE_CHECKING:
    from regard.align.expect import Channel
    from regard.align.gibbs.sampler import Sweep

__all__ = ["Alignment", "after_training", "align", "decoded", "sampled"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Alignment:
    """``links`` of both directions together and the hard links of each direction, each link with √(p(i|j) p(j|i)); as
    ``shade``, where it was asked for, every cell where that is more than a little."""

    links: Links
    forward: Links
    reverse: Links
    shade: Links | None = None

    def mapped(self, change: Callable[[Links], Links]) -> Alignment:
        """All of its links, changed."""
        shade = None if self.shade is None else change(self.shade)
        return Alignment(change(self.links), change(self.forward), change(self.reverse), shade)


def align(
    corpus: Corpus,
    recipe: Recipe | Sampling = BEST,
    *,
    symmetrize: str | None = None,
    threshold: float = 0.5,
    known: Array | None = None,
    seed: int = 1,
    threads: int | None = None,
    each: Callable[[Iteration], None] = lambda iteration: None,
) -> Alignment:
    """Trains or samples by ``recipe`` on ``corpus`` and aligns it. ``known`` are pseudo-counts of pairs, by number. An
    empty pair of sentences, or one that was refused, has no links. The threads never change the links.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from regard.align.corpus import read
    >>> with TemporaryDirectory() as folder:
    ...     text = Path(folder, "text")
    ...     _ = text.write_text("das Haus ||| the house\\ndas Buch ||| the book\\nein Buch ||| a book\\n")
    ...     found = align(read(text))
    >>> found.links[1], found.links[2]
    ([(0, 0), (1, 1)], [(0, 0), (1, 1)])
    """
    pairs = Pairs.of(corpus, threads=threads)
    alike = spelt(corpus, pairs, recipe, threads)
    if alike is not None:
        known = alike if known is None else known + alike
    believed: Iterator[Believed]
    if isinstance(recipe, Sampling):
        believed = sampled(corpus, pairs, recipe, known=known, seed=seed, threads=threads)
    else:
        state = begin(corpus, pairs, recipe)

        def said(iteration: Iteration, state: State) -> None:
            each(iteration)

        state = train(state, recipe, known=known, threads=threads, each=said)
        believed = after_training(corpus, state.channels, recipe, known=known, seed=seed, threads=threads)
    view = View.both(corpus, pairs)[0]
    return decoded(view, believed, symmetrize or recipe.symmetrize, threshold)


def after_training(
    corpus: Corpus,
    channels: tuple[Channel, Channel],
    recipe: Recipe,
    *,
    known: Array | None,
    seed: int,
    threads: int | None,
    each: Callable[[Sweep], None] = lambda sweep: None,
) -> Iterator[Believed]:
    """What trained channels believe, averaged with what chains that begin at their links do where ``recipe`` says
    so."""
    if recipe.drawn is None:
        return believe(channels, viterbi=recipe.viterbi, threads=threads)
    from regard.align.gibbs.blend import after, blend

    drawn = recipe.drawn
    sampler = after(
        corpus, channels, seed=seed, chains=drawn.chains, beliefs=drawn.beliefs, known=known, threads=threads
    )
    sampler.run(threads=threads, each=lambda sweep, sampler: each(sweep))
    return blend(channels, sampler, weight=drawn.weight, threads=threads)


def sampled(
    corpus: Corpus, pairs: Pairs, recipe: Sampling, *, known: Array | None, seed: int, threads: int | None
) -> Iterator[Believed]:
    """What the chains believe in the end."""
    from regard.align.gibbs.sampler import Sampler

    sampler = Sampler(corpus, pairs, seed=seed, chains=recipe.chains, beliefs=recipe.beliefs, known=known)
    sampler.run(threads=threads)
    return sampler.believe(threads=threads)


def decoded(
    view: View, believed: Iterator[Believed], symmetrize: str, threshold: float = 0.5, *, shade: float | None = None
) -> Alignment:
    """The links of a part of a corpus, from what is believed of it block by block; with ``shade`` also the cells above
    that."""
    nothing = Links(*(np.zeros(n, kind) for n, kind in ((1, np.int64), (0, np.int32), (0, np.int32), (0, np.float32))))
    whole, forward, reverse, shaded = [nothing], [nothing], [nothing], [nothing]  # of no text the links of one are none
    for block in believed:
        whole.append(combined(view, block, symmetrize, threshold))
        forward.append(weighed(view, block, block.links[0]))
        reverse.append(weighed(view, block, block.links[1]))
        if shade is not None:
            shaded.append(chosen(view, block.block, block.both, shade))
    soft = None if shade is None else Links.join(shaded)
    return Alignment(Links.join(whole), Links.join(forward), Links.join(reverse), soft)
