"""The neighbourhood of an alignment: one word moved to another cept, or two words of different cepts swapped.

What a change is worth, log P(f, a'|e) − log P(f, a|e), is found from the factors it touches. Lexical, fertility and
NULL's factors (and all of Model 3's) are differences of table entries. In Model 4 a word that joins or leaves a cept
touches that cept and the head of the one behind. In Model 5 it fills or frees a vacancy for every cept from the lower
of the two to the higher, and for the head behind.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from regard.align.fertility.bare import begin_of, log_body, log_fertility
from regard.align.fertility.cepts import before, behind, centre, exchange, insert, lead, remove
from regard.align.fertility.vacancies import Change, no_change, placed, span
from regard.kernels.compile import kernel

__all__ = ["Neighbours"]

Array = np.ndarray[Any, Any]

#: In sentences of more words a side a word moves to NULL and to the cepts next to its own, and swaps with the words
#: next to it, so many each way, and it takes its best neighbour before the next word looks: work grows with m, not m³.
LONG = 128
_NEXT_TO = 32


class Neighbours(NamedTuple):
    """What every change is worth. float64; the caller makes the room."""

    move: Array  # [m, l + 1] word j goes to cept i; 0 where it is
    swap: Array  # [m, m] words j < k change cepts; −∞ where they share one
    up: Array  # [l + 1] cept i has one word more: n(φ + 1)/n(φ), and Model 3's (φ + 1)
    down: Array  # [l + 1] and one less
    own: Array  # [l + 2] Model 5: what the cepts before i are worth
    vacancies: Array  # int32 [l, m + 1] Model 5: how many of the first j words are in cept i or behind


def room(m: int, l: int) -> Neighbours:
    """Neighbours of a sentence, not yet looked at."""
    return Neighbours(
        np.empty((m, l + 1)),
        np.empty((m, m)),
        np.empty(l + 1),
        np.empty(l + 1),
        np.empty(l + 2),
        np.empty((l, m + 1), np.int32),
    )


class Cells(NamedTuple):
    """What a change is worth wherever the words go, bare: cell values, and what a cept's size is worth."""

    model: Any
    lexical: Any
    places: Any
    up: Any
    down: Any


@kernel
def sizes(model, state, sentence, up, down):
    """What it is worth that a cept grows or shrinks, wherever its words go."""
    last = np.int64(sentence.fertility.shape[1] - 1)
    for i in range(state.l):
        phi = state.size[i]
        one = sentence.fertility[i]
        here = log_fertility(one, last, phi)
        up[i] = log_fertility(one, last, phi + 1) - here
        down[i] = log_fertility(one, last, phi - 1) - here if phi > 0 else 0.0
        if model == 3:
            up[i] += math.log(phi + 1.0)
            down[i] -= math.log(float(phi)) if phi > 0 else 0.0
    phi, l = state.size[state.l], state.l
    here = np.float64(sentence.null[phi])
    up[l] = np.float64(sentence.null[phi + 1]) - here if phi < state.m else -np.inf
    down[l] = np.float64(sentence.null[phi - 1]) - here if phi > 0 else 0.0


@kernel
def cell(cells, j, i, l):
    """log t(f_j|e_i), and Model 3's d(j|i, m, l)."""
    x = np.float64(cells.lexical[j * (l + 1) + i])
    return x + np.float64(cells.places[j * l + i]) if cells.model == 3 and i < l else x


@kernel
def gain(j, i, state, steps):
    """Model 4: what d_1 and d_>1 gain when j, which is in no cept, joins cept i."""
    l = state.l
    if i == l:
        return 0.0
    q = behind(state, i)
    size = state.size[i]
    if size == 0:
        p = before(state, i)
        c = centre(state, p)
        total = lead(p, c, j, steps)
        if q < l:
            k = state.first[q]
            total += lead(i, j, k, steps) - lead(p, c, k, steps)
        return total
    k = state.first[i]
    if j < k:
        p = before(state, i)
        c = centre(state, p)
        total = lead(p, c, j, steps) - lead(p, c, k, steps)
        total += log_body(steps, steps.target[k], k - j)
    else:
        n = state.after[k]
        while n >= 0 and n < j:
            k, n = n, state.after[n]
        total = log_body(steps, steps.target[j], j - k)
        if n >= 0:
            b = steps.target[n]
            total += log_body(steps, b, n - j) - log_body(steps, b, n - k)
    if q < l:
        old = centre(state, i)
        new = (state.total[i] + j + size) // (size + 1)
        if new != old:
            k = state.first[q]
            total += lead(i, new, k, steps) - lead(i, old, k, steps)
    return total


@kernel
def reach(model, i, k, l):
    """The cepts, first and last, whose own factors a change between cepts i and k touches; one behind follows."""
    low, high = min(i, k), max(i, k)
    if high == l:  # NULL's words are the last to be placed: in Model 5 a place is freed for all, in Model 4 for none
        high = l - 1 if model == 5 else low
    return low, high


@kernel
def moves(model, j, state, cells, steps, gaps, near):
    """``move[j]``: what it is worth that word j goes to each cept."""
    l = state.l
    here = state.of[j]
    row, own, now = begin_of(near.move[j]), begin_of(near.own), no_change(near)
    base = cell(cells, j, here, l) - cells.down[here]
    far = max(l, state.m) > LONG
    for i in range(l + 1):
        x = cell(cells, j, i, l) + cells.up[i] - base
        out = i == here or (far and here < l and i < l and abs(i - here) > _NEXT_TO)
        row[i] = -np.inf if out else x
    if model == 4:
        remove(state, j)
        had = gain(j, here, state, steps)
        for i in range(l + 1):
            if row[i] > -np.inf:
                row[i] += gain(j, i, state, steps) - had
        insert(state, j, here)
    elif model == 5:
        for i in range(l + 1):
            if row[i] > -np.inf:
                low, high = reach(model, here, i, l)
                sign = np.int64(1 if i > here else -1)
                change = Change(now.known, j, state.m, min(here, i), max(here, i), sign)
                remove(state, j)
                insert(state, j, i)
                row[i] += span(low, high, change, state, gaps)
                remove(state, j)
                insert(state, j, here)
                row[i] -= own[behind(state, high) + 1] - own[low]
    row[here] = 0.0


@kernel
def swaps(model, j, state, cells, steps, gaps, near):
    """``swap[j, k]``, k > j: what it is worth that words j and k change cepts."""
    l = state.l
    here = state.of[j]
    row, own, now = begin_of(near.swap[j]), begin_of(near.own), no_change(near)
    mine = cell(cells, j, here, l)
    far = max(l, state.m) > LONG
    for k in range(j + 1, state.m):
        there = state.of[k]
        x = cell(cells, j, there, l) - mine + cell(cells, k, here, l) - cell(cells, k, there, l)
        row[k] = -np.inf if here == there or (far and k - j > _NEXT_TO) else x
    if model == 3:
        return
    for k in range(j + 1, state.m):
        if row[k] == -np.inf:
            continue
        there = state.of[k]
        x = 0.0
        if model == 4:
            remove(state, j)
            x -= gain(j, here, state, steps)
            remove(state, k)
            x -= gain(k, there, state, steps)
            x += gain(j, there, state, steps)
            insert(state, j, there)
            x += gain(k, here, state, steps)
            remove(state, j)
            insert(state, k, there)
            insert(state, j, here)
        else:
            low, high = reach(model, here, there, l)
            sign = np.int64(1 if there > here else -1)
            change = Change(now.known, j, k, min(here, there), max(here, there), sign)
            exchange(state, j, k)
            x += span(low, high, change, state, gaps)
            exchange(state, j, k)
            x -= own[behind(state, high) + 1] - own[low]
        row[k] += x


@kernel
def survey(model, state, sentence, gaps, near):
    """What all changes of an alignment have in common: what sizes, and in Model 5 cepts, are worth."""
    sizes(model, state, sentence, near.up, near.down)
    if model == 5:
        known, own, now = begin_of(near.vacancies), begin_of(near.own), no_change(near)
        own[0] = 0.0
        for i in range(state.l):
            row = i * (state.m + 1)
            known[row] = 0
            for j in range(state.m):
                known[row + j + 1] = known[row + j] + (state.of[j] >= i)
            own[i + 1] = own[i] + (placed(i, now, state, gaps) if state.size[i] > 0 else 0.0)
        own[state.l + 1] = own[state.l]
