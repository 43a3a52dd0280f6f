"""Pegging: every link is once held fast, and the climb begun anew from there (Brown et al. 1993, section 4.3).

The set that is summed over is N(b^∞(V)) ∪ ⋃_{ij} N(b^∞_{i←j}(V_{i←j})): the neighbourhood of the best alignment found,
and of the best ones found with a_j = i, for each i and j. An alignment that lies in several counts once.
"""

from __future__ import annotations

import math

import numpy as np

from regard.align.fertility.bare import state_of
from regard.align.fertility.cepts import arrange, exchange, insert, remove, score
from regard.align.fertility.climb import climb
from regard.align.fertility.counting import add
from regard.kernels.compile import kernel

#: Links are pegged in sentences of up to so many cells; the work grows with their square.
PEGGED = 1024
#: So many alignments are held at most; those that come later are left out.
_MOST = 1 << 16


@kernel
def peg(model, cepts, sentence, tables, near, least, ratio, post, counts):
    """Climbs, pegs each link whose move is worth at least ``ratio``, and counts; log Σ P(f, a|e) over the set.

    Leaves the best alignment of the set in ``cepts``, and probabilities of links in ``post``. Alignments with less than
    ``least`` of the best one's probability are left out.
    """
    state = state_of(cepts)
    m, l = state.m, state.l
    floor = math.log(least) if least > 0 else -np.inf
    limit = math.log(ratio) if ratio > 0 else -np.inf
    climb(model, cepts, sentence, tables, near, -1)
    top = cepts.of.copy()
    first = near.move.copy()
    kept, scores = np.empty((256, m), np.int16), np.empty(256)
    slots = np.full(512, -1, np.int64)
    best = score(model, cepts, sentence, tables)
    number = np.int64(0)
    for j in range(-1, m):
        for i in range(l + 1):
            if j < 0:
                if i > 0:
                    break
            elif i == top[j] or not first[j, i] > -np.inf or first[j, i] < limit:
                continue
            else:
                arrange(cepts, top)
                remove(state, j)
                insert(state, np.int64(j), np.int64(i))
                climb(model, cepts, sentence, tables, near, j)
            here = score(model, cepts, sentence, tables)
            best = max(best, here)
            for one in range(m):
                mine = state.of[one]
                for two in range(-1, l + 1):  # the alignment itself, then each move of this word
                    if two == mine or (two < 0 and one > 0):
                        continue
                    x = here + (near.move[one, two] if two >= 0 else 0.0)
                    if x == -np.inf or x < best + floor or number == _MOST:
                        continue
                    if two >= 0:
                        remove(state, one)
                        insert(state, one, np.int64(two))
                    kept, scores, slots, number = keep(cepts.of, x, kept, scores, slots, number)
                    if two >= 0:
                        remove(state, one)
                        insert(state, one, mine)
                for two in range(one + 1, m):
                    x = here + near.swap[one, two]
                    if x == -np.inf or x < best + floor or number == _MOST:
                        continue
                    exchange(state, one, two)
                    kept, scores, slots, number = keep(cepts.of, x, kept, scores, slots, number)
                    exchange(state, one, two)
    at = np.argmax(scores[:number])
    best = scores[at]
    mass = 0.0
    for k in range(number):
        mass += math.exp(scores[k] - best)
    post[:] = 0
    for k in range(number):
        arrange(cepts, kept[k])
        add(model, cepts, sentence, math.exp(scores[k] - best) / mass, post, counts)
    arrange(cepts, kept[at])
    return best + math.log(mass)


@kernel
def keep(alignment, x, kept, scores, slots, number):
    """Adds an alignment to the set, if it is not there; the set, which may have been made larger."""
    m = len(alignment)
    if 2 * number >= len(slots):
        wide_kept, wide_scores = np.empty((2 * len(kept), m), np.int16), np.empty(2 * len(kept))
        wide_kept[:number], wide_scores[:number] = kept[:number], scores[:number]
        kept, scores = wide_kept, wide_scores
        slots = np.full(2 * len(slots), -1, np.int64)
        for k in range(number):
            slots[slot_of(kept[k], kept, slots)] = k
    slot = slot_of(alignment, kept, slots)
    if slots[slot] < 0:
        slots[slot] = number
        for j in range(m):
            kept[number, j] = alignment[j]
        scores[number] = x
        number += 1
    return kept, scores, slots, number


@kernel
def slot_of(alignment, kept, slots):
    """Where an alignment is in the table, or would be."""
    mask = np.int64(len(slots) - 1)
    code = np.int64(0)
    for j in range(len(alignment)):
        code = (code * np.int64(1000003)) ^ np.int64(alignment[j])
    code = (code ^ (code >> np.int64(17))) & mask
    while slots[code] >= 0:
        same = True
        for j in range(len(alignment)):
            if kept[slots[code], j] != alignment[j]:
                same = False
                break
        if same:
            break
        code = (code + 1) & mask
    return code
