"""In the long run a chain visits every alignment as often as its exact probability says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.align.corpus import Corpus
from regard.align.gibbs.beliefs import Beliefs
from regard.align.gibbs.sampler import Sampler
from regard.align.pairs import Pairs
from tests.align.gibbs.urns import all_links, corpus, log_joint

Array = np.ndarray[Any, Any]
#: Pseudo-counts of the size of the counts, so that chains move.
BELIEFS = Beliefs(lexical=0.3, null=0.4, jump=0.6, fertility=0.7, empty=0.2)
TEXT = corpus(("ab", "xy"), ("ba", "x"), ("b", "yy"))  # 9 · 3 · 4 alignments forward, 9 · 2² · 3 back
REPEATS = corpus(("aa", "xyx"), ("ba", "x"))  # a word twice on both sides
SWEEPS = 12_000


def exact(text: Corpus, k: int, stage: int) -> tuple[dict[tuple[int, ...], int], Array]:
    """Every alignment, and its probability."""
    view = Sampler(text, Pairs.of(text)).sides[k].view
    states = {links: n for n, links in enumerate(all_links(view))}
    p = np.exp([log_joint(view, links, stage, BELIEFS) for links in states])
    return states, p / p.sum()


def visited(text: Corpus, stage: int, *, live: bool) -> list[dict[tuple[int, ...], int]]:
    """How often a chain stood at each alignment, in both directions."""
    sweeps = (SWEEPS * (stage == 1), SWEEPS * (stage == 2), SWEEPS * (stage == 3))
    sampler = Sampler(
        text,
        Pairs.of(text),
        seed=5,
        chains=1,
        sweeps=sweeps,
        beliefs=BELIEFS,
        live=live,
        dtype=np.float64,
    )
    counts: list[dict[tuple[int, ...], int]] = [{}, {}]

    def each(_: object, sampler: Sampler) -> None:
        for k, side in enumerate(sampler.sides):
            at = tuple(side.links[0].tolist())
            counts[k][at] = counts[k].get(at, 0) + 1

    sampler.run(threads=1, each=each)
    return counts


@pytest.mark.parametrize("text", [TEXT, REPEATS], ids=["text", "repeats"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_chain_visits_alignments_by_their_probability(text: Corpus, stage: int) -> None:
    """So many sweeps leave a total variation of 0.03 to 0.045."""
    for k, counts in enumerate(visited(text, stage, live=True)):
        states, p = exact(text, k, stage)
        found = np.zeros(len(p))
        for links, n in counts.items():
            found[states[links]] = n / SWEEPS

        assert np.abs(found - p).sum() / 2 < 0.07
