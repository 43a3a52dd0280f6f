"""A corpus aligned: trained by a recipe, both directions made one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.decode import believe, combined
from regard.align.expect import Channel
from regard.align.links import Links
from regard.align.pairs import Pairs
from regard.align.prior import spelt
from regard.align.recipe import RECIPES, Recipe
from regard.align.train import Iteration, begin, train

__all__ = ["Alignment", "align", "decoded"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Alignment:
    """``links`` of both directions together, each with √(p(i|j) p(j|i)), and the hard links of each direction."""

    links: Links
    forward: Links
    reverse: Links


def align(
    corpus: Corpus,
    recipe: Recipe = RECIPES["best"],
    *,
    symmetrize: str | None = None,
    threshold: float = 0.5,
    known: Array | None = None,
    threads: int | None = None,
    each: Callable[[Iteration], None] = lambda iteration: None,
) -> Alignment:
    """Trains ``recipe`` on ``corpus`` and aligns it. An empty pair of sentences, or one that was refused, has no links.

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
    state = train(
        begin(corpus, pairs, recipe), recipe, known=known, threads=threads, each=lambda found, state: each(found)
    )
    return decoded(state.channels, symmetrize or recipe.symmetrize, threshold, viterbi=recipe.viterbi, threads=threads)


def decoded(
    channels: tuple[Channel, Channel],
    symmetrize: str,
    threshold: float = 0.5,
    *,
    viterbi: bool = False,
    threads: int | None = None,
) -> Alignment:
    """The links of the channels' part of a corpus."""
    whole, forward, reverse = [], [], []
    for believed in believe(channels, viterbi=viterbi, threads=threads):
        whole.append(combined(channels[0].view, believed, symmetrize, threshold))
        forward.append(believed.links[0])
        reverse.append(believed.links[1])
    return Alignment(Links.join(whole), Links.join(forward), Links.join(reverse))
