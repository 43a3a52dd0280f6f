"""What all chains believe together: for each generated word the average of its conditional distributions.

The links that chains stopped at are one draw each; the distribution that a link was drawn from says more than the draw
(Rao–Blackwell). Each chain gives the other links of the sentence; the counts are the mean over the chains, without what
any chain counted for the word itself.
"""

from __future__ import annotations

import numpy as np

from regard.align.gibbs.draw import BEYOND
from regard.align.gibbs.tally import CLASSES
from regard.kernels.compile import kernel
from regard.kernels.vector import like

__all__ = ["marginals"]


@kernel
def marginals(
    giving, gives, given, gets, cells, starts, turned, ring, echo, chains, pair, word, null, fertile, stage, believed,
    mass, prior, chance, mirror, base, post, nulls, first, last
):  # fmt: skip
    """Fills ``post`` (cells from ``base`` on) and ``nulls`` (by token) for sentences ``first`` to ``last``.

    ``chains`` are the links, a row for each chain; the counts are sums over the chains.
    """
    most_l = most_m = np.int64(1)
    for s in range(first, last):
        most_l = max(most_l, gives[s + 1] - gives[s])
        most_m = max(most_m, gets[s + 1] - gets[s])
    many = len(chains)
    alpha, alone, beta, odds = believed[0], believed[1], believed[2], believed[3]
    none, share = like(alpha, 0.0), like(alpha, 1.0 / many)
    words_ = like(alpha, len(null) - 1)
    reach = len(chance) // 2
    known = len(prior) > 0
    size, weight = np.empty(most_l, believed.dtype), np.empty(most_l, believed.dtype)
    score, word_score = np.empty(most_l, believed.dtype), np.empty(most_l, believed.dtype)
    kinds = np.empty((most_l, CLASSES), believed.dtype)
    grow = np.ones((many, most_l), believed.dtype)
    fertility = np.zeros((many, most_l), np.int64)
    after, before = np.empty((many, most_m), np.int64), np.empty(many, np.int64)
    for s in range(first, last):
        words, emitted = giving[gives[s] : gives[s + 1]], given[gets[s] : gets[s + 1]]
        next_i = ring[gives[s] : gives[s + 1]]
        l, m = len(words), len(emitted)
        along, across = (1, l) if turned else (m, 1)
        for i in range(l):
            size[i] = word[words[i]] * share + alpha * words_ + mass[words[i]]
        for c in range(many):
            places = chains[c, gets[s] : gets[s + 1]]
            fertility[c, :l] = 0
            before[c] = -1
            beside = np.int64(l)
            for j in range(m - 1, -1, -1):
                after[c, j] = beside
                if places[j] >= 0:
                    beside = np.int64(places[j])
                    fertility[c, beside] += 1
        if stage == 3:
            for i in range(l):
                for k in range(CLASSES):
                    kinds[i, k] = fertile[words[i], k] * share + beta
                for c in range(many):
                    kinds[i, min(fertility[c, i], CLASSES - 1)] -= share
                for c in range(many):
                    grow[c, i] = _growth(kinds[i], fertility[c, i], alpha)
        for j in range(m):
            here = gets[s] + j
            corner = starts[s] + j * across
            lonely, lone = null[-1] * share + alone * words_, null[emitted[j]] * share + alone
            for i in range(l):
                p = cells[corner + i * along]
                score[i] = pair[p] * share + alpha
                if known:
                    score[i] += prior[p]
                weight[i] = size[i]
            for c in range(many):
                a = np.int64(chains[c, here])
                if a < 0:
                    lonely -= share
                    lone -= share
                    continue
                k = a
                while True:
                    score[k] -= share
                    weight[k] -= share
                    k = np.int64(next_i[k])
                    if k == a:
                        break
            for i in range(l):
                word_score[i] = score[i] / weight[i]
                score[i] = none  # from here on, what the chains give the cell
            nulls[here] = none
            if stage == 3:
                _turn(chains[:, here], next_i, fertility, kinds, grow, share, -1)
            for c in range(many):
                a = np.int64(chains[c, here])
                apart = lone / lonely * odds
                total = none
                if stage == 1:
                    apart *= like(alpha, l)
                    for i in range(l):
                        weight[i] = word_score[i]
                else:
                    b = before[c]
                    come = chance[reach - b : reach - b + l]
                    leave = mirror[reach - after[c, j] : reach - after[c, j] + l]
                    apart *= chance[reach + after[c, j] - b]
                    for i in range(l):
                        weight[i] = word_score[i] * come[i] * leave[i] * grow[c, i]
                for i in range(l):  # apart: a loop that writes may be compiled two ways; which runs hangs on addresses
                    total += weight[i]
                scale = share / (total + apart)
                for i in range(l):
                    score[i] += weight[i] * scale
                nulls[here] += apart * scale
                if a >= 0:
                    before[c] = a
            if stage == 3:
                _turn(chains[:, here], next_i, fertility, kinds, grow, share, 1)
            for i in range(l):
                post[corner - base + i * along] = score[i]


@kernel
def _turn(places, ring, fertility, kinds, grow, share, by):
    """One word less (or again more) for its place in each chain: copies of the place's word see one token of another
    fertility, and what a further word is worth to them changes."""
    for c in range(len(places)):
        a = np.int64(places[c])
        if a < 0:
            continue
        old = fertility[c, a]
        fertility[c, a] += by
        k = np.int64(ring[a])
        while k != a:
            kinds[k, min(old, CLASSES - 1)] -= share
            kinds[k, min(old + by, CLASSES - 1)] += share
            k = np.int64(ring[k])
    for c in range(len(places)):
        a = np.int64(places[c])
        if a < 0:
            continue
        grow[c, a] = _growth(kinds[a], fertility[c, a], share)
        k = np.int64(ring[a])
        while k != a:
            for other in range(len(places)):
                grow[other, k] = _growth(kinds[k], fertility[other, k], share)
            k = np.int64(ring[k])


@kernel
def _growth(own, fertility, alpha):
    """What one more word is worth to a place, its own token not counted."""
    if fertility < CLASSES - 1:
        return own[fertility + 1] / own[fertility]
    return like(alpha, BEYOND)
