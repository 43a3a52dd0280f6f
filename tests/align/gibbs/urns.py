"""The sampler's model by definition: words and places drawn from Pólya urns, one after another, and tiny corpora.

An urn begins with pseudo-counts; a ball's probability is its share, and a drawn ball goes back with one more of its
kind. That is a Dirichlet prior with its table integrated out, and there is no Γ in it.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from regard.align.corpus import Corpus, Side
from regard.align.gibbs.beliefs import Beliefs
from regard.align.gibbs.draw import BEYOND
from regard.align.gibbs.tally import CLASSES
from regard.align.view import View

Array = np.ndarray[Any, Any]


def corpus(*sentences: tuple[str, str]) -> Corpus:
    """A corpus of such pairs of sentences; words are letters."""
    sides = []
    for k in range(2):
        lines = [list(pair[k]) if pair[0] and pair[1] else [] for pair in sentences]
        words = list(dict.fromkeys(itertools.chain.from_iterable(lines)))
        offsets = np.cumsum([0, *map(len, lines)])
        tokens = np.array([words.index(w) for line in lines for w in line], np.int32)
        sides.append(Side(tokens, offsets.astype(np.int64), [w.encode() for w in words]))
    return Corpus(sides[0], sides[1], np.zeros(0, np.int64))


class Urn:
    """Balls of so many ``kinds``, all with the same pseudo-count, some with ``more``."""

    def __init__(self, alpha: float, kinds: int, more: dict[Any, float] | None = None) -> None:
        self.alpha, self.more = alpha, more or {}
        self.size = alpha * kinds + sum(self.more.values())
        self.balls: dict[Any, int] = defaultdict(int)

    def draw(self, kind: Any) -> float:
        """log p(kind), which is put back with another of its kind."""
        p = (self.alpha + self.more.get(kind, 0.0) + self.balls[kind]) / self.size
        self.balls[kind] += 1
        self.size += 1
        return math.log(p)


def log_joint(
    view: View,
    links: Sequence[int],
    stage: int,
    beliefs: Beliefs,
    *,
    chance: Array | None = None,
    known: Array | None = None,
) -> float:
    """log p(generated words, links | generating words); with ``chance``, the jumps' distribution is that one."""
    giving, given = view.generating, view.generated
    owners: dict[int, dict[int, float]] = defaultdict(dict)
    if known is not None:
        for e, row in enumerate(itertools.pairwise(view.pairs.rows.tolist())):
            for p in range(*row):
                f = int(view.pairs.target[p])
                generating, generated = (f, e) if view.turned else (e, f)
                owners[generating][generated] = float(known[p])
    size = len(given.words)
    lexicon = {e: Urn(beliefs.lexical, size, owners[e]) for e in range(len(giving.words))}
    null = Urn(beliefs.null, size)
    fertility = {e: Urn(beliefs.fertility, CLASSES) for e in range(len(giving.words))}
    reach = int(giving.lengths().max()) + 1
    jumps = Urn(beliefs.jump, 2 * reach + 1)
    total = 0.0
    for s in range(len(giving.offsets) - 1):
        words = giving.tokens[giving.offsets[s] : giving.offsets[s + 1]].tolist()
        places = links[given.offsets[s] : given.offsets[s + 1]]
        before = -1
        for f, i in zip(given.tokens[given.offsets[s] : given.offsets[s + 1]].tolist(), places, strict=True):
            if i < 0:
                total += math.log(beliefs.empty) + null.draw(f)
                continue
            total += math.log(1 - beliefs.empty) + lexicon[words[i]].draw(f)
            if stage == 1:
                total -= math.log(len(words))
            else:
                total += jumps.draw(i - before) if chance is None else math.log(chance[reach + i - before])
            before = i
        if stage > 1 and words:
            total += (
                jumps.draw(len(words) - before) if chance is None else math.log(chance[reach + len(words) - before])
            )
        if stage == 3:
            for i, e in enumerate(words):
                phi = sum(1 for place in places if place == i)
                total += fertility[e].draw(min(phi, CLASSES - 1))
                total += max(0, phi - CLASSES + 1) * math.log(BEYOND)
    return total


def all_links(view: View) -> Iterator[tuple[int, ...]]:
    """Every set of links of a tiny corpus."""
    giving, given = view.generating, view.generated
    ranges = [range(-1, l) for l, m in zip(giving.lengths(), given.lengths(), strict=True) for _ in range(m)]
    return itertools.product(*ranges)


def conditional(view: View, links: Sequence[int], j: int, stage: int, beliefs: Beliefs, **more: Any) -> Array:
    """p(link of token ``j`` = NULL, 0, 1, … | all others), from the joint of each choice."""
    s = int(np.searchsorted(view.generated.offsets, j, side="right")) - 1
    l = int(view.generating.lengths()[s])
    logs = np.array([log_joint(view, [*links[:j], i, *links[j + 1 :]], stage, beliefs, **more) for i in range(-1, l)])
    p: Array = np.exp(logs - logs.max())
    return np.asarray(p / p.sum())
