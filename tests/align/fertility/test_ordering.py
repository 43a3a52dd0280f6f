"""On text whose links are known: the HMM is better than Model 1, and Model 4 no worse than Model 3.

Each source word has a fertility of 0 to 3 of its own and a translation of that many words, some of which it shares with
others; words of one kind change places with the next; words come in that answer to nothing.
"""

from __future__ import annotations

import numpy as np
import pytest

from regard.align.aligner import align
from regard.align.corpus import Corpus, Side
from regard.align.links import Links
from regard.align.recipe import RECIPES, Recipe

WORDS, SENTENCES = 113, 1009

Pairs = list[tuple[list[int], list[int], set[tuple[int, int]]]]


def drawn(seed: int) -> Pairs:
    rng = np.random.default_rng(seed)
    often = 1 / np.arange(3, WORDS + 3)
    often /= often.sum()
    fertility = rng.choice(4, WORDS, p=[0.1, 0.6, 0.2, 0.1])
    # The words that each may become, in order: the second is one of 19, the third one of 7, for all.
    meant = [
        [int(rng.integers(WORDS)), WORDS + int(rng.integers(19)), WORDS + 19 + int(rng.integers(7))]
        for _ in range(WORDS)
    ]
    hops = rng.random(WORDS) < 0.3  # goes behind the word that follows it
    found: Pairs = []
    for _ in range(SENTENCES):
        source = [int(x) for x in rng.choice(WORDS, rng.integers(4, 17), p=often)]
        order = list(range(len(source)))
        k = 0
        while k + 1 < len(order):
            if hops[source[order[k]]] and rng.random() < 0.9:
                order[k], order[k + 1] = order[k + 1], order[k]
                k += 1
            k += 1
        target, links = [], set()
        for i in order:
            for word in meant[source[i]][: fertility[source[i]]]:
                if rng.random() < 0.08:
                    target.append(WORDS + 26 + int(rng.integers(3)))  # from NULL
                links.add((i, len(target)))
                target.append(word)
        if target:
            found.append((source, target, links))
    return found


def corpus_of(pairs: Pairs) -> Corpus:
    sides = []
    for sentences in ([source for source, *_ in pairs], [target for _, target, _ in pairs]):
        tokens = np.concatenate(sentences).astype(np.int32)
        offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
        sides.append(Side(tokens, offsets, [b"%d" % w for w in range(WORDS + 29)]))
    return Corpus(sides[0], sides[1], np.zeros(0, np.int64))


def error(found: Links, pairs: Pairs) -> float:
    """AER, every link sure."""
    same = sum(len(links & set(found[s])) for s, (*_, links) in enumerate(pairs))
    return 1 - 2 * same / (len(found.source) + sum(len(links) for *_, links in pairs))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_order_of_the_models(seed: int) -> None:
    pairs = drawn(seed)
    corpus = corpus_of(pairs)
    rates = {}
    for name in ("ibm1", "hmm", "ibm3", "ibm4", "ibm5"):
        recipe = RECIPES[name]
        assert isinstance(recipe, Recipe)
        rates[name] = error(align(corpus, recipe).forward, pairs)
    assert rates["ibm1"] > rates["hmm"] + 0.02
    assert rates["ibm4"] <= rates["ibm3"]
    assert rates["ibm5"] < rates["ibm1"]
