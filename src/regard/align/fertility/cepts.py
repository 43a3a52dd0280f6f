"""An alignment as its cepts, the words that each generating word has, and what their places are worth.

P(f, a | e) = NULL's part · Π_i n(φ_i|e_i) · Π_j t(f_j|e_aj) · where the words go. The last factor is a product over
words in Model 3 (with φ_i! orders), over cepts in Models 4 and 5: a cept's head stands relative to the centre of the
cept before it, every other word relative to the word before it. A change of an alignment changes few of the factors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from regard.align.fertility.bare import (
    add_body,
    add_head,
    add_onward,
    add_opening,
    gaps_of,
    log_body,
    log_fertility,
    log_head,
    log_onward,
    log_opening,
    state_of,
    steps_of,
)
from regard.kernels.compile import kernel

__all__ = ["Cepts"]

Array = np.ndarray[Any, Any]


class Cepts(NamedTuple):
    """The alignment of m words to l words and NULL (i = l). All int64; the caller makes the room."""

    of: Array  # [m] a_j
    after: Array  # [m] the next word of the same cept, −1 where there is none
    first: Array  # [l + 1] its first word, −1 where there is none
    total: Array  # [l + 1] the sum of its positions
    size: Array  # [l + 1] φ_i


def room(m: int, l: int) -> Cepts:
    """Cepts of a sentence, with nothing in them yet."""
    return Cepts(*(np.zeros(size, np.int64) for size in (m, m, l + 1, l + 1, l + 1)))


@kernel
def insert(state, j, i):
    """Word j joins cept i."""
    state.of[j] = i
    state.total[i] += j
    state.size[i] += 1
    k = state.first[i]
    if k < 0 or j < k:
        state.after[j] = k
        state.first[i] = j
        return
    while state.after[k] >= 0 and state.after[k] < j:
        k = state.after[k]
    state.after[j] = state.after[k]
    state.after[k] = j


@kernel
def remove(state, j):
    """Word j leaves its cept; ``of[j]`` still says which that was."""
    i = state.of[j]
    state.total[i] -= j
    state.size[i] -= 1
    k = state.first[i]
    if k == j:
        state.first[i] = state.after[j]
        return
    while state.after[k] != j:
        k = state.after[k]
    state.after[k] = state.after[j]


@kernel
def exchange(state, j, k):
    """Words j and k change cepts."""
    here, there = state.of[j], state.of[k]
    remove(state, j)
    remove(state, k)
    insert(state, j, there)
    insert(state, k, here)


@kernel
def arrange(cepts, alignment):
    """The cepts of an alignment."""
    state = state_of(cepts)
    for i in range(state.l + 1):
        state.first[i] = -1
        state.total[i] = 0
        state.size[i] = 0
    for j in range(state.m - 1, -1, -1):  # from the right: every word is first in its cept when it comes
        insert(state, j, alignment[j])


@kernel
def centre(state, i):
    """⌈mean position⌉ of a cept that has words; −1, the place before the sentence, for i = −1."""
    return (state.total[i] + state.size[i] - 1) // state.size[i] if i >= 0 else np.int64(-1)


@kernel
def before(state, i):
    """The last cept before i that has words, −1 where there is none."""
    p = i - 1
    while p >= 0 and state.size[p] == 0:
        p -= 1
    return p


@kernel
def behind(state, i):
    """The first cept behind i that has words, l where there is none."""
    q = i + 1
    while q < state.l and state.size[q] == 0:
        q += 1
    return min(q, state.l)


@kernel
def lead(p, c, j, steps):
    """Model 4: what it is worth that j is the head behind cept p with centre c."""
    return log_head(steps, steps.source[p] if p >= 0 else steps.start, steps.target[j], j - c)


@kernel
def relative(i, state, steps):
    """Model 4: log of d_1 and d_>1 of cept i, which has words."""
    p = before(state, i)
    j = state.first[i]
    total = lead(p, centre(state, p), j, steps)
    k = state.after[j]
    while k >= 0:
        total += log_body(steps, steps.target[k], k - j)
        j, k = k, state.after[k]
    return total


@kernel
def vacant(i, state, gaps):
    """Model 5: the same over vacancies. Before cept i is placed, those positions are vacant whose a_j ≥ i."""
    c = centre(state, before(state, i))
    phi, m = state.size[i], state.m
    v, vc, head, prior, k, at = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    room = np.int64(0)
    for j in range(m):
        room += state.of[j] >= i
    total = 0.0
    for j in range(m):
        if state.of[j] >= i:
            v += 1
            if state.of[j] == i:
                k += 1
                if k == 1:
                    head, at = v, j
                else:
                    total += log_onward(gaps, gaps.target[j], room - prior - phi + k, v - prior)
                prior = v
        if j == c:
            vc = v
        if j >= c and k == phi:
            break
    return total + log_opening(gaps, gaps.target[at], room - phi + 1, vc, head)


@kernel
def tally(model, i, state, weight, sums):
    """The entries that cept i, which has words, has taken of Model 4's or 5's tables are counted ``weight`` times."""
    p = before(state, i)
    c = centre(state, p)
    j = state.first[i]
    if model == 4:
        add_head(sums, sums.source[p] if p >= 0 else sums.start, sums.target[j], j - c, weight)
        k = state.after[j]
        while k >= 0:
            add_body(sums, sums.target[k], k - j, weight)
            j, k = k, state.after[k]
        return
    phi = state.size[i]
    room, vc, v, k, prior = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for j in range(state.m):
        room += state.of[j] >= i
        if j == c:
            vc = room
    for j in range(state.m):
        v += state.of[j] >= i
        if state.of[j] == i:
            k += 1
            b = sums.target[j]
            if k == 1:
                add_opening(sums, b, room - phi + 1, vc, v, weight)
            else:
                add_onward(sums, b, room - prior - phi + k, v - prior, weight)
            prior = v


@kernel
def worth(model, i, state, steps, gaps):
    """log of where the words of cept i go, in Model 4 or 5; it has words."""
    return relative(i, state, steps) if model == 4 else vacant(i, state, gaps)


@kernel
def score(model, cepts, sentence, tables):
    """log P(f, a | e)."""
    state, steps, gaps = state_of(cepts), steps_of(sentence, tables), gaps_of(sentence, tables)
    total = np.float64(sentence.null[state.size[state.l]])
    for j in range(state.m):
        total += np.float64(sentence.lexical[j, state.of[j]])
        if model == 3 and state.of[j] < state.l:
            total += np.float64(sentence.places[j, state.of[j]])
    for i in range(state.l):
        phi = state.size[i]
        total += log_fertility(sentence.fertility[i], sentence.fertility.shape[1] - 1, phi)
        if model == 3:
            total += math.lgamma(phi + 1.0)
        elif phi > 0:
            total += worth(model, i, state, steps, gaps)
    return total
