"""The HMM of one pair of sentences, exactly: what each word looked at, and each jump, in expectation.

A state is the last place looked at, k − 1; state 0 is before the sentence. A word either looks at place i, with the
jump i − (k − 1), and the state becomes i + 1, or it comes from NULL and the state stays: the l NULL states of Och &
Ney 2003 (eq. 32) are these stays."""

from __future__ import annotations

import math

import numpy as np

from regard.kernels.compile import inline, kernel
from regard.kernels.vector import like

__all__ = ["both", "emissions", "forward", "scales", "viterbi"]


@inline
def emissions(table, null, cells, start, words, first, l, m, turned, match, nothing):
    """``match[j, i]`` = t(f_j|e_i) and ``nothing[j]`` = t(f_j|NULL)."""
    for j in range(m):
        nothing[j] = null[words[first + j]]
        if turned:
            for i in range(l):
                match[j, i] = table[cells[start + j * l + i]]
        else:
            for i in range(l):
                match[j, i] = table[cells[start + i * m + j]]


@inline
def scales(jumps, kinds, l, none, share):
    """``share[k]`` · jump is the probability of a jump out of state k that stays in the sentence."""
    reach = jumps.shape[1] // 2
    for k in range(l + 1):
        kind, shift = kinds[k], reach + 1 - k
        total = like(none, 0.0)
        for i in range(l):
            total += jumps[kind, shift + i]
        share[k] = (like(none, 1.0) - none) / total


@inline
def forward(match, nothing, jumps, kinds, none, share, l, m, least, state, real):
    """Fills ``state[j, k]``, p(state k after j words), and ``real[j, i]``, p(word j looks at i | words up to j); gives
    log p(words)."""
    reach = jumps.shape[1] // 2
    score = 0.0
    for k in range(l + 1):
        state[0, k] = 0
    state[0, 0] = 1
    for j in range(m):
        for i in range(l):
            real[j, i] = 0
        for k in range(l + 1):
            x = state[j, k] * share[k]
            if x > least:
                kind, shift = kinds[k], reach + 1 - k
                for i in range(l):
                    real[j, i] += x * jumps[kind, shift + i]
        stay = none * nothing[j]
        total = like(none, 0.0)
        for i in range(l):
            real[j, i] *= match[j, i]
        for i in range(l):  # apart: a loop that writes may be compiled two ways, and which runs hangs on addresses
            total += real[j, i]
        for k in range(l + 1):
            total += state[j, k] * stay
        if not total > 0:  # nothing could say this word: it says nothing
            for i in range(l):
                real[j, i] = 0
            for k in range(l + 1):
                state[j + 1, k] = state[j, k]
            score = -math.inf
            continue
        part = like(none, 1.0) / total
        stay *= part
        for i in range(l):
            real[j, i] *= part
        state[j + 1, 0] = state[j, 0] * stay
        for i in range(l):
            state[j + 1, i + 1] = state[j, i + 1] * stay + real[j, i]
        score += math.log(total)
    return score


@inline
def both(
    match, nothing, jumps, kinds, none, share, l, m, least, state, real, later, now, ahead, looks, nulls, held, made
):  # fmt: skip
    """Forward, then backward. ``looks[j, i]`` and ``nulls[j]`` are posteriors, ``held[k]`` expected jumps out of state
    k, and ``made`` gets each expected jump added; gives log p(words)."""
    reach = jumps.shape[1] // 2
    score = forward(match, nothing, jumps, kinds, none, share, l, m, least, state, real)
    one = like(none, 1.0)
    for k in range(l + 1):
        later[k] = 1
        held[k] = 0
    for j in range(m - 1, -1, -1):
        # What follows is worth `later`; `ahead` is that times what the word itself is worth at each place.
        for i in range(l):
            ahead[i] = match[j, i] * later[i + 1]
        stay = none * nothing[j]
        total = like(none, 0.0)
        for k in range(l + 1):
            kind, shift = kinds[k], reach + 1 - k
            reached = like(none, 0.0)
            for i in range(l):
                reached += jumps[kind, shift + i] * ahead[i]
            now[k] = share[k] * reached + stay * later[k]
            total += state[j, k] * now[k]
        if not total > 0:
            for i in range(l):
                looks[j, i] = 0
            nulls[j] = 1
            continue
        part = one / total
        rest = like(none, 0.0)
        for k in range(l + 1):
            kept = state[j, k] * stay * later[k] * part
            rest += kept
            held[k] += state[j, k] * now[k] * part - kept
            x = state[j, k] * share[k] * part
            if x > least:
                kind, shift = kinds[k], reach + 1 - k
                for i in range(l):
                    made[kind, shift + i] += x * jumps[kind, shift + i] * ahead[i]
        nulls[j] = rest
        for i in range(l):
            looks[j, i] = real[j, i] * later[i + 1]
        for k in range(l + 1):
            later[k] = now[k] * part
    return score


@kernel
def viterbi(match, nothing, jumps, kinds, none):
    """The likeliest places, −1 for NULL, of one pair of sentences."""
    m, l = match.shape
    reach = jumps.shape[1] // 2
    share = np.repeat(match[0, :1] * 0, l + 1)
    scales(jumps, kinds, l, none, share)
    best = share * 0
    best[0] = 1
    value = best.copy()
    back = np.zeros((m, l + 1), np.int32)  # the state before; −1 where the word came from NULL
    for j in range(m):
        value[:] = 0
        for k in range(l + 1):
            x = best[k] * share[k]
            if x > 0:
                row = jumps[kinds[k], reach + 1 - k : reach + 1 - k + l]
                for i in range(l):
                    if x * row[i] > value[i + 1]:
                        value[i + 1] = x * row[i]
                        back[j, i + 1] = k
        top = like(none, 0.0)
        for k in range(l + 1):
            stay = best[k] * none * nothing[j]
            jumped = value[k] * match[j, k - 1] if k else like(none, 0.0)
            if stay > jumped or jumped == 0:
                back[j, k] = -1
            value[k] = max(stay, jumped)
            top = max(top, value[k])
        if top > 0:
            for k in range(l + 1):
                best[k] = value[k] / top
        else:  # nothing could say this word
            back[j, :] = -1
    places = np.full(m, -1, np.int32)
    k = int(np.argmax(best))
    for j in range(m - 1, -1, -1):
        if back[j, k] >= 0:
            places[j] = k - 1
            k = back[j, k]
    return places
