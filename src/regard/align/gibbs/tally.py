"""What the links of a chain add up to: the integers that a Dirichlet prior turns into predictive probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.view import View
from regard.kernels.compile import kernel

__all__ = ["CLASSES", "Tally", "count", "move", "rings"]

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

    def add(self, view: View, links: Array, first: int, last: int) -> None:
        """Counts the links of sentences ``first`` to ``last``."""
        count(*view.layout(), links, *self.arrays(), first, last)

    def move(self, view: View, links: Array, fresh: Array, first: int, last: int) -> None:
        """Counts ``fresh`` for what was counted of ``links``, which become the same."""
        move(*view.layout(), links, fresh, *self.arrays(), first, last)

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
    giving, gives, given, gets, cells, starts, turned, links, pair, word, null, fertile, jumps, first, last
):  # fmt: skip
    """Adds the links of sentences ``first`` to ``last``."""
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
                null[emitted[j]] += 1
                null[-1] += 1
                continue
            pair[cells[starts[s] + i * along + j * across]] += 1
            word[words[i]] += 1
            fertility[i] += 1
            jumps[reach + min(max(i - before, -reach), reach)] += 1
            before = i
        jumps[reach + min(max(l - before, -reach), reach)] += 1
        for i in range(l):
            fertile[words[i], min(fertility[i], CLASSES - 1)] += 1


@kernel
def move(
    giving, gives, given, gets, cells, starts, turned, links, fresh, pair, word, null, fertile, jumps, first, last
):  # fmt: skip
    """Takes ``links`` out and puts ``fresh`` in: most words keep their place, and their counts are not touched."""
    reach = len(jumps) // 2
    longest = np.int64(1)
    for s in range(first, last):
        longest = max(longest, gives[s + 1] - gives[s])
    left, joined = np.zeros(longest, np.int64), np.zeros(longest, np.int64)
    for s in range(first, last):
        words, emitted = giving[gives[s] : gives[s + 1]], given[gets[s] : gets[s + 1]]
        old, new = links[gets[s] : gets[s + 1]], fresh[gets[s] : gets[s + 1]]
        l, m = len(words), len(emitted)
        if l == 0 or m == 0:
            continue
        along, across = (1, l) if turned else (m, 1)
        left[:l] = 0
        joined[:l] = 0
        before, after = np.int64(-1), np.int64(-1)
        for j in range(m):
            a, b = np.int64(old[j]), np.int64(new[j])
            if a >= 0:
                left[a] += 1
                jumps[reach + min(max(a - before, -reach), reach)] -= 1
                before = a
            if b >= 0:
                joined[b] += 1
                jumps[reach + min(max(b - after, -reach), reach)] += 1
                after = b
            if a == b:
                continue
            if a >= 0:
                pair[cells[starts[s] + a * along + j * across]] -= 1
                word[words[a]] -= 1
            else:
                null[emitted[j]] -= 1
                null[-1] -= 1
            if b >= 0:
                pair[cells[starts[s] + b * along + j * across]] += 1
                word[words[b]] += 1
            else:
                null[emitted[j]] += 1
                null[-1] += 1
            old[j] = new[j]
        jumps[reach + min(max(l - before, -reach), reach)] -= 1
        jumps[reach + min(max(l - after, -reach), reach)] += 1
        for i in range(l):
            if left[i] != joined[i]:
                fertile[words[i], min(left[i], CLASSES - 1)] -= 1
                fertile[words[i], min(joined[i], CLASSES - 1)] += 1
