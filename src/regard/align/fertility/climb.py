"""Climbing: from an alignment to its best neighbour, until none is better (Brown et al. 1993, section 4.3)."""

from __future__ import annotations

import numpy as np

from regard.align.fertility.bare import begin_of, gaps_of, state_of, steps_of
from regard.align.fertility.cepts import exchange, insert, remove
from regard.align.fertility.neighbours import LONG, Cells, moves, survey, swaps
from regard.kernels.compile import kernel

#: A neighbour is better if it is by this much: no climb goes in circles for a rounding.
_BETTER = 1e-9


@kernel
def look(model, cepts, sentence, tables, near, climbs, fixed):
    """The neighbourhood. With ``climbs`` each word takes its best neighbour before the next one looks; how many did."""
    state, steps, gaps = state_of(cepts), steps_of(sentence, tables), gaps_of(sentence, tables)
    cells = Cells(model, begin_of(sentence.lexical), begin_of(sentence.places), begin_of(near.up), begin_of(near.down))
    survey(model, state, sentence, gaps, near)
    taken = 0
    for j in range(state.m):
        moves(model, j, state, cells, steps, gaps, near)
        swaps(model, j, state, cells, steps, gaps, near)
        if climbs and j != fixed and take_best(j, j + 1, fixed, state, near):
            survey(model, state, sentence, gaps, near)
            taken += 1
    return taken


@kernel
def take_best(first, last, fixed, state, near):
    """Goes to the best neighbour that changes one of the words ``first`` … ``last`` − 1, if it is better; if it was."""
    move, swap = near.move, near.swap
    best, one, two, moved = _BETTER, np.int64(-1), np.int64(-1), True
    for j in range(first, last):
        if j == fixed:
            continue
        for i in range(state.l + 1):
            if move[j, i] > best:
                best, one, two, moved = move[j, i], j, i, True
        for k in range(j + 1, state.m):
            if k != fixed and swap[j, k] > best:
                best, one, two, moved = swap[j, k], j, k, False
    if one < 0:
        return False
    if moved:
        remove(state, one)
        insert(state, one, two)
    else:
        exchange(state, one, two)
    return True


@kernel
def climb(model, cepts, sentence, tables, near, fixed):
    """Goes to the best neighbour until none is better, and leaves the neighbourhood there in ``near``.

    Word ``fixed`` stays where it is (−1: none does). In a long sentence each word in turn takes its best neighbour, up
    to 32 times.
    """
    state = state_of(cepts)
    if max(state.m, state.l) > LONG:
        for _ in range(32):
            if look(model, cepts, sentence, tables, near, True, fixed) == 0:
                return
        look(model, cepts, sentence, tables, near, False, fixed)
        return
    look(model, cepts, sentence, tables, near, False, fixed)
    while take_best(0, state.m, fixed, state, near):
        look(model, cepts, sentence, tables, near, False, fixed)
