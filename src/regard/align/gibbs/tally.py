"""What the links of a chain add up to: the integers that a Dirichlet prior turns into predictive probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.view import View
from regard.kernels.compile import kernel

__all__ = ["CLASSES", "Tally", "count", "rings"]

Array = np.ndarray[Any, Any]

#: Fertilities told apart: 0 to 6, and 7 or more.
CLASSES = 8


@dataclass(frozen=True)
class Tally:
    """Counts of links, all integers: by pair of words, by generating word, of NULL by generated word (the last entry:
    in all), of fertilities by generating word, and of jumps from −reach to reach, longer ones as the longest.

    A sentence's jumps lead from −1 over its linked places, in the order of the generated words, to l.
    """

    pair: Array  # int32 [P]
    word: Array  # int32 [V]
    null: Array  # int32 [W + 1]
    fertile: Array  # int32 [V, CLASSES]
    jumps: Array  # int64 [2 * reach + 1]

    @staticmethod
    def of(view: View, *links: Array) -> Tally:
        """The counts of one or several sets of ``links``, added: int16, each generated token's place or −1."""
        pairs = view.pairs
        lengths = np.diff(view.generating.offsets[pairs.first : pairs.last + 1])
        made = Tally(
            np.zeros(len(pairs), np.int32),
            np.zeros(len(view.generating.words), np.int32),
            np.zeros(len(view.generated.words) + 1, np.int32),
            np.zeros((len(view.generating.words), CLASSES), np.int32),
            np.zeros(2 * (int(lengths.max(initial=0)) + 1) + 1, np.int64),
        )
        for each in links:
            made.add(view, each, pairs.first, pairs.last)
        return made

    def add(self, view: View, links: Array, first: int, last: int, *, times: int = 1) -> None:
        """Counts the links of sentences ``first`` to ``last``, or with −1 takes them out."""
        count(*view.layout(), links, *self.arrays(), times, first, last)

    def arrays(self) -> tuple[Array, ...]:
        """In the order in which the kernels take them."""
        return self.pair, self.word, self.null, self.fertile, self.jumps


def rings(view: View) -> tuple[Array, Array]:
    """For each generating and each generated token the next place of the same word in its sentence, the first being
    next after the last: where one count is changed, every copy of it is found. int16."""
    found = []
    for side in (view.generating, view.generated):
        ring = np.zeros(len(side.tokens), np.int16)
        _ring(side.tokens, side.offsets, ring, view.pairs.first, view.pairs.last)
        found.append(ring)
    return found[0], found[1]


@kernel
def _ring(tokens, offsets, ring, first, last):
    for s in range(first, last):
        words = tokens[offsets[s] : offsets[s + 1]]
        here = ring[offsets[s] : offsets[s + 1]]
        for i in range(len(words)):
            here[i] = i
            for k in range(i - 1, -1, -1):
                if words[k] == words[i]:
                    here[i] = here[k]
                    here[k] = i
                    break


@kernel
def count(
    giving, gives, given, gets, cells, starts, turned, links, pair, word, null, fertile, jumps, times, first, last
):  # fmt: skip
    """Adds the links of sentences ``first`` to ``last``, ``times`` over: −1 takes them out."""
    reach = len(jumps) // 2
    longest = np.int64(1)
    for s in range(first, last):
        longest = max(longest, gives[s + 1] - gives[s])
    fertility = np.zeros(longest, np.int64)
    for s in range(first, last):
        words, emitted = giving[gives[s] : gives[s + 1]], given[gets[s] : gets[s + 1]]
        places = links[gets[s] : gets[s + 1]]
        l, m = len(words), len(emitted)
        if l == 0 or m == 0:
            continue
        along, across = (1, l) if turned else (m, 1)
        fertility[:l] = 0
        before = np.int64(-1)
        for j in range(m):
            i = np.int64(places[j])
            if i < 0:
                null[emitted[j]] += times
                null[-1] += times
                continue
            pair[cells[starts[s] + i * along + j * across]] += times
            word[words[i]] += times
            fertility[i] += 1
            jumps[reach + min(max(i - before, -reach), reach)] += times
            before = i
        jumps[reach + min(max(l - before, -reach), reach)] += times
        for i in range(l):
            fertile[words[i], min(fertility[i], CLASSES - 1)] += times
