"""A channel by its definition: every alignment of a short pair of sentences, one by one, each with its probability."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.corpus import Corpus, Side
from regard.align.lexicon import Lexicon
from regard.align.pairs import Pairs
from regard.align.places.jumps import NEAR, Jumps
from regard.align.recipe import RECIPES, Recipe
from regard.align.view import View

Array = np.ndarray[Any, Any]
Places = tuple[int, ...]

#: Recipes whose expectations are exact. The sampler draws, Models 3 to 5 climb.
TRAINED = {
    name: recipe
    for name, recipe in RECIPES.items()
    if isinstance(recipe, Recipe) and name in ("ibm1", "ibm2", "diagonal", "hmm", "agreement")
}


def corpus(*sentences: tuple[str, str]) -> Corpus:
    """A corpus of such pairs of sentences, words between spaces; one with an empty side keeps its place."""
    sides = []
    for k in range(2):
        lines = [pair[k].split() if pair[0].split() and pair[1].split() else [] for pair in sentences]
        words = list(dict.fromkeys(itertools.chain.from_iterable(lines)))
        number = {word: n for n, word in enumerate(words)}
        tokens = np.array([number[word] for line in lines for word in line], np.int32)
        offsets = np.cumsum([0, *map(len, lines)]).astype(np.int64)
        sides.append(Side(tokens, offsets, [word.encode() for word in words]))
    return Corpus(sides[0], sides[1], np.zeros(0, np.int64))


def random_corpus(
    rng: np.random.Generator, sentences: int, longest: int = 4, words: tuple[int, int] = (5, 7)
) -> Corpus:
    """Sentences of 1 to ``longest`` words out of few; every fifth pair is empty."""

    def side(k: int) -> str:
        return " ".join(f"{'ef'[k]}{w}" for w in rng.integers(words[k], size=int(rng.integers(1, longest + 1))))

    return corpus(*(("", "") if s % 5 == 3 else (side(0), side(1)) for s in range(sentences)))


def random_lexicon(rng: np.random.Generator, view: View) -> Lexicon:
    """Any positive numbers: posteriors and likelihood are defined whether or not they add up to 1."""
    null = rng.random(len(view.generated.words)) + 0.01
    return Lexicon(rng.random(len(view.pairs)) + 0.01, null, np.zeros(len(view.generating.words)))


def random_jumps(rng: np.random.Generator, view: View, kinds: int = 2, flat: float = 1.0) -> Jumps:
    """Any weights, for words of so many classes."""
    classes = rng.integers(kinds, size=len(view.generating.words)).astype(np.int32)
    made = Jumps.starting(view, classes, null=0.3, flat=flat, dtype=np.float64)
    size = int(classes.max(initial=0)) + 2
    return Jumps(rng.random((size, 2 * NEAR + 3)) + 0.01, classes, 0.3, made.reach, 0.0, flat, np.float64)


@dataclass(frozen=True)
class Words:
    """The numbers of one pair of sentences: t(f_j|e_i) as (m, l), t(f_j|NULL) as (m), the pair number of each cell."""

    table: Array
    null: Array
    pairs: Array
    giving: Array
    given: Array

    @staticmethod
    def of(view: View, lexicon: Lexicon, s: int) -> Words:
        giving, given = (
            side.tokens[side.offsets[s] : side.offsets[s + 1]] for side in (view.generating, view.generated)
        )
        m, l = len(given), len(giving)
        cells = view.pairs.cells[view.pairs.starts[s] : view.pairs.starts[s + 1]]
        pairs = cells.reshape(m, l) if view.turned else cells.reshape(l, m).T
        return Words(lexicon.table[pairs], lexicon.null[given], pairs, giving, given)


@dataclass(frozen=True)
class Truth:
    """What all alignments of a pair of sentences say together."""

    score: float
    post: Array  # (m, l)
    null: Array  # (m)
    most: float  # the posterior of the likeliest
    each: list[tuple[Places, float]]  # every alignment and its posterior


def enumerated(words: Words, place: Callable[[Places], float]) -> Truth:
    """Sums over all (l + 1)^m alignments; ``place`` is the probability of one before any word is seen."""
    m, l = words.table.shape
    each = []
    for a in itertools.product(range(-1, l), repeat=m):
        p = place(a)
        for j, i in enumerate(a):
            p *= words.null[j] if i < 0 else words.table[j, i]
        each.append((a, float(p)))
    total = sum(p for _, p in each)
    post, null = np.zeros((m, l)), np.zeros(m)
    for a, p in each:
        for j, i in enumerate(a):
            if i < 0:
                null[j] += p / total
            else:
                post[j, i] += p / total
    most = max(p for _, p in each) / total
    return Truth(math.log(total), post, null, most, [(a, p / total) for a, p in each])


def jumped(jumps: Jumps, giving: Array) -> Callable[[Places], float]:
    """The HMM's probability of places in a sentence of the words ``giving``, by its docstring."""
    l = len(giving)

    def weight(before: int, i: int) -> float:
        row = jumps.weights[-1] if before < 0 else jumps.weights[jumps.classes[giving[before]]]
        return float(row[bucket(i - before)] ** jumps.flat)

    def place(a: Places) -> float:
        p, before = 1.0, -1
        for i in a:
            if i < 0:
                p *= jumps.null
            else:
                p *= (1 - jumps.null) * weight(before, i) / sum(weight(before, other) for other in range(l))
                before = i
        return p

    return place


def bucket(jump: int) -> int:
    """Which weight a jump has."""
    return max(-NEAR - 1, min(NEAR + 1, jump)) + NEAR + 1


def views(text: Corpus) -> Sequence[View]:
    """Forward and turned."""
    return View.both(text, Pairs.of(text))
