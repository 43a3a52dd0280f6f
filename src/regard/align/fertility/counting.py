"""Expected counts: over a neighbourhood, over every alignment, or over many neighbourhoods (pegging).

An alignment counts with its share of the probability of all that are looked at, and each counts once. Over a
neighbourhood only differences are added: what most neighbours have in common is counted with the best alignment, less
the share of those that have it otherwise.
"""

from __future__ import annotations

import math

import numpy as np

from regard.align.fertility.bare import state_of, sums_of
from regard.align.fertility.cepts import arrange, behind, exchange, insert, remove, score, tally
from regard.align.fertility.neighbours import reach
from regard.kernels.compile import kernel


@kernel
def gather(model, cepts, sentence, near, least, post, lost, counts):
    """Counts of the alignment in ``cepts`` and of its neighbours, as ``near`` has them; log Σ P(f, a'|e) / P(f, a|e).

    ``post[j, i]`` becomes the probability that a_j = i. What has less than ``least`` of the best alignment's
    probability is left out.
    """
    state, sums = state_of(cepts), sums_of(sentence, counts)
    m, l = state.m, state.l
    near.own[:] = 0.0  # from here on: the share of the neighbours in which a cept is smaller or larger
    floor = math.log(least) if least > 0 else -np.inf
    mass = 1.0
    for j in range(m):
        for i in range(l + 1):
            x = near.move[j, i]
            near.move[j, i] = math.exp(x) if x > floor and i != state.of[j] else 0.0
        for k in range(j + 1, m):
            x = near.swap[j, k]
            near.swap[j, k] = math.exp(x) if x > floor else 0.0
        for i in range(l + 1):  # apart: a loop that writes may be compiled two ways, and which runs hangs on addresses
            mass += near.move[j, i]
        for k in range(j + 1, m):
            mass += near.swap[j, k]
    scale = 1.0 / mass
    post[:] = 0
    lost[:] = 0.0
    for j in range(m):
        here = state.of[j]
        for i in range(l + 1):
            w = near.move[j, i] * scale
            if w > 0.0:
                post[j, i] += w
                near.own[here] += w
                near.own[i] += w
                if i < l:
                    counts.fertility[sentence.word[i], min(state.size[i] + 1, counts.fertility.shape[1] - 1)] += w
                if here < l:
                    counts.fertility[sentence.word[here], min(state.size[here] - 1, counts.fertility.shape[1] - 1)] += w
                if model > 3:
                    low, high = reach(model, here, i, l)
                    remove(state, j)
                    insert(state, j, i)
                    _differ(model, low, high, state, w, lost, sums)
                    remove(state, j)
                    insert(state, j, here)
        for k in range(j + 1, m):
            w = near.swap[j, k] * scale
            if w > 0.0:
                there = state.of[k]
                post[j, there] += w
                post[k, here] += w
                if model > 3:
                    low, high = reach(model, here, there, l)
                    exchange(state, j, k)
                    _differ(model, low, high, state, w, lost, sums)
                    exchange(state, j, k)
    # Swaps add to words behind and before j: what stays is known when all have been seen.
    for j in range(m):
        here = state.of[j]
        stays = 1.0
        for i in range(l + 1):
            if i != here:
                stays -= post[j, i]
        post[j, here] = max(stays, 0.0)
    for i in range(l):
        phi = min(state.size[i], counts.fertility.shape[1] - 1)
        counts.fertility[sentence.word[i], phi] += max(1.0 - near.own[i], 0.0)
        if model > 3 and state.size[i] > 0:
            tally(model, i, state, max(1.0 - lost[i], 0.0), sums)
    return math.log(mass)


@kernel
def _differ(model, low, high, state, w, lost, sums):
    """A neighbour has cepts ``low`` to ``high``, and the one behind, otherwise: those count for it alone."""
    q = behind(state, high)
    for i in range(low, min(q + 1, state.l)):
        lost[i] += w
        if state.size[i] > 0:
            tally(model, i, state, w, sums)


@kernel
def add(model, cepts, sentence, w, post, counts):
    """One alignment counts ``w`` times."""
    state, sums = state_of(cepts), sums_of(sentence, counts)
    for j in range(state.m):
        post[j, state.of[j]] += w
    for i in range(state.l):
        phi = min(state.size[i], counts.fertility.shape[1] - 1)
        counts.fertility[sentence.word[i], phi] += w
        if model > 3 and state.size[i] > 0:
            tally(model, i, state, w, sums)


@kernel
def whole(model, cepts, sentence, tables, scores, post, counts):
    """Counts over all (l + 1)^m alignments; leaves the best in ``cepts``; log P(f|e). ``scores`` has room for each."""
    m, l = len(cepts.of), len(cepts.size) - 1
    number = np.int64(len(scores))
    a = np.zeros(m, np.int64)
    best = 0
    for n in range(number):
        _digits(n, l + 1, a)
        arrange(cepts, a)
        scores[n] = score(model, cepts, sentence, tables)
        if scores[n] > scores[best]:
            best = n
    top = scores[best]
    mass = 0.0
    for n in range(number):
        scores[n] = math.exp(scores[n] - top)
        mass += scores[n]
    post[:] = 0
    for n in range(number):
        if scores[n] > 0.0:
            _digits(n, l + 1, a)
            arrange(cepts, a)
            add(model, cepts, sentence, scores[n] / mass, post, counts)
    _digits(best, l + 1, a)
    arrange(cepts, a)
    return top + math.log(mass)


@kernel
def _digits(n, base, a):
    """The n-th alignment."""
    for j in range(len(a) - 1, -1, -1):
        a[j] = n % base
        n //= base
