"""A sweep of the collapsed Gibbs sampler: every generated word's link drawn anew, given all the other links.

The tables are integrated out, so what a word is drawn from is a product of ratios of counts, its own link left out:

    p(a_j = i | rest) ∝ (n(e_i, f_j) + α) / (n(e_i) + αW) · q(i − i_before) q(i_after − i)
                        · (c(e_i, φ + 1) + β) / (c(e_i, φ) + β)
    p(a_j = NULL | rest) ∝ ε/(1 − ε) · (n(NULL, f_j) + α₀) / (n(NULL) + α₀W) · q(i_after − i_before)

with φ the fertility of place i without word j and c(e, φ) how many tokens of e have fertility φ, the token i left out
too. Model 1 has the first fraction alone (and l times the odds of NULL), the HMM the first two. The jumps' distribution
q is drawn from its posterior once a sweep, which leaves the links' distribution as it is (Östling & Tiedemann 2016 draw
the fertilities that way; here they are integrated out).

Random numbers depend on (key of the sweep, sentence, word) alone, so nobody's turn changes anybody's draw.
"""

from __future__ import annotations

import numpy as np

from regard.align.gibbs.tally import CLASSES, move
from regard.kernels.compile import inline, kernel
from regard.kernels.vector import like

__all__ = ["BEYOND", "mixed", "scatter", "sweep", "uniform"]

#: What each word costs a place that has ``CLASSES`` - 1 already: all but impossible.
BEYOND = 1e-10

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _40 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(40)


@inline
def mixed(x):
    """SplitMix64's finaliser (Steele, Lea & Flood 2014): neighbouring numbers in, unrelated numbers out."""
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@inline
def uniform(key, s, j):
    """A number in [0, 1) of 24 bits for word j of sentence s."""
    return np.float64(mixed(mixed(key ^ mixed(np.uint64(s) + _STEP)) + np.uint64(j + 1) * _STEP) >> _40) * 2.0**-24


@kernel
def scatter(gives, gets, links, empty, key, first, last):
    """Links at random: NULL with probability ``empty``, or else any place."""
    for s in range(first, last):
        l = gives[s + 1] - gives[s]
        for j in range(gets[s + 1] - gets[s]):
            u = (uniform(key, s, j) - empty) / (1.0 - empty)
            links[gets[s] + j] = -1 if u < 0.0 else min(np.int64(u * l), l - 1)


@kernel
def sweep(
    giving, gives, given, gets, cells, starts, turned, ring, echo, links, fresh, pair, word, null, fertile, jumps,
    stage, believed, mass, prior, chance, mirror, key, live, first, last
):  # fmt: skip
    """Draws the links of sentences ``first`` to ``last`` into ``fresh``, from the counts less what the sentence itself
    changes on the way. With ``live`` the counts and ``links`` follow sentence by sentence: exact Gibbs. Without, both
    stay as they are, and whoever calls counts the block when all of it is drawn.

    ``believed`` holds α, α₀, β and the odds of NULL; ``mass`` the pseudo-counts of each generating word's known pairs,
    ``prior`` those of each pair, or nothing; ``chance`` the distribution of jumps and ``mirror`` the same reversed.
    """
    most_l = most_m = np.int64(1)
    for s in range(first, last):
        most_l = max(most_l, gives[s + 1] - gives[s])
        most_m = max(most_m, gets[s + 1] - gets[s])
    met_ = np.empty(most_l * most_m, believed.dtype)
    size_, scale_, weight_ = (
        np.empty(most_l, believed.dtype), np.empty(most_l, believed.dtype), np.empty(most_l, believed.dtype)
    )  # fmt: skip
    grow_ = np.ones(most_l, believed.dtype)
    kinds = np.empty((most_l, CLASSES), believed.dtype)
    fertility = np.zeros(most_l, np.int64)
    after = np.empty(most_m, np.int64)
    lone = np.empty(most_m, believed.dtype)
    alpha, alone, beta, odds = believed[0], believed[1], believed[2], believed[3]
    one, none = like(alpha, 1.0), like(alpha, 0.0)
    beyond = like(alpha, BEYOND)
    wide = alpha * like(alpha, len(null) - 1)
    reach = len(chance) // 2
    known = len(prior) > 0
    for s in range(first, last):
        words, emitted = giving[gives[s] : gives[s + 1]], given[gets[s] : gets[s + 1]]
        next_i, next_j = ring[gives[s] : gives[s + 1]], echo[gets[s] : gets[s + 1]]
        old, new = links[gets[s] : gets[s + 1]], fresh[gets[s] : gets[s + 1]]
        l, m = len(words), len(emitted)
        if l == 0 or m == 0:
            continue
        # what the whole sentence needs, in its own arrays
        size, scale, weight, grow = size_[:l], scale_[:l], weight_[:l], grow_[:l]
        box = cells[starts[s] : starts[s] + l * m]
        met = met_[: l * m]
        if turned:
            for k in range(len(met)):
                met[k] = pair[box[k]] + alpha
            if known:
                for k in range(len(met)):
                    met[k] += prior[box[k]]
        else:
            for i in range(l):
                row = box[i * m : i * m + m]
                for j in range(m):
                    met[j * l + i] = pair[row[j]] + alpha
                if known:
                    for j in range(m):
                        met[j * l + i] += prior[row[j]]
        for i in range(l):
            size[i] = word[words[i]] + wide + mass[words[i]]
            scale[i] = one / size[i]
            fertility[i] = 0
        lonely = null[-1] + alone * like(alpha, len(null) - 1)
        beside = np.int64(l)
        for j in range(m - 1, -1, -1):
            lone[j] = null[emitted[j]] + alone
            new[j] = old[j]
            after[j] = beside
            if old[j] >= 0:
                beside = np.int64(old[j])
                fertility[beside] += 1
        if stage == 3:
            for i in range(l):
                tokens, own = fertile[words[i]], kinds[i]
                for k in range(CLASSES):
                    own[k] = tokens[k] + beta
                _growth(own, fertility[i], i, grow, one, beyond)
        before = np.int64(-1)
        for j in range(m):
            a = np.int64(new[j])
            here = met[j * l : j * l + l]
            if a < 0:
                lonely -= one
                lone[j] -= one
            else:
                fertility[a] -= 1
                k = a
                while True:
                    size[k] -= one
                    scale[k] = one / size[k]
                    here[k] -= one
                    if stage == 3:
                        _shift(kinds[k], fertility[a] + 1, fertility[a], one)
                        _growth(kinds[k], fertility[k], k, grow, one, beyond)
                    k = np.int64(next_i[k])
                    if k == a:
                        break
            apart = lone[j] / lonely * odds
            total = none
            if stage == 1:
                apart *= like(alpha, l)
                for i in range(l):
                    weight[i] = here[i] * scale[i]
            else:
                come = chance[reach - before : reach - before + l]
                leave = mirror[reach - after[j] : reach - after[j] + l]
                apart *= chance[reach + after[j] - before]
                for i in range(l):
                    weight[i] = here[i] * scale[i] * come[i] * leave[i] * grow[i]
            for i in range(l):  # apart: a loop that writes may be compiled two ways, and which runs hangs on addresses
                total += weight[i]
            u = like(alpha, uniform(key, s, j)) * (total + apart) - apart
            b = np.int64(-1)
            if u >= none:
                b = np.int64(l - 1)
                for i in range(l):
                    u -= weight[i]
                    if u < none:
                        b = np.int64(i)
                        break
            if b < 0:
                lonely += one
                lone[j] += one
            else:
                before = b
                fertility[b] += 1
                k = b
                while True:
                    size[k] += one
                    scale[k] = one / size[k]
                    here[k] += one
                    if stage == 3:
                        _shift(kinds[k], fertility[b] - 1, fertility[b], one)
                        _growth(kinds[k], fertility[k], k, grow, one, beyond)
                    k = np.int64(next_i[k])
                    if k == b:
                        break
            if a == b:
                continue
            new[j] = b
            d = np.int64(next_j[j])
            while d > j:  # the same word farther on meets the changed counts
                there = met[d * l : d * l + l]
                if a < 0:
                    lone[d] -= one
                else:
                    _along(there, a, next_i, -one)
                if b < 0:
                    lone[d] += one
                else:
                    _along(there, b, next_i, one)
                d = np.int64(next_j[d])
        if live:
            move(
                giving,
                gives,
                given,
                gets,
                cells,
                starts,
                turned,
                links,
                fresh,
                pair,
                word,
                null,
                fertile,
                jumps,
                s,
                s + 1,
            )


@inline
def _growth(own, fertility, i, grow, one, beyond):
    """What one more word is worth to place i, its own token left out of the counts."""
    if fertility < CLASSES - 1:
        grow[i] = own[fertility + 1] / (own[fertility] - one)
    else:
        grow[i] = beyond


@inline
def _shift(own, here, there, one):
    """A token goes from one fertility to another."""
    own[min(here, CLASSES - 1)] -= one
    own[min(there, CLASSES - 1)] += one


@inline
def _along(there, place, ring, change):
    k = place
    while True:
        there[k] += change
        k = np.int64(ring[k])
        if k == place:
            break
