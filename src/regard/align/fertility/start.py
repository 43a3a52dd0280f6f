"""Counts to begin with: from posteriors of a model without fertility, or from one alignment of each sentence."""

from __future__ import annotations

import numpy as np

from regard.align.fertility.cepts import Cepts, arrange
from regard.align.fertility.counting import add
from regard.align.fertility.tables import Sentence, add_places, lane_of
from regard.kernels.compile import kernel


@kernel
def guess(giving, gives, gets, starts, turned, base, post, nulls, edges, lanes, counts, first, last):
    """Fertilities and places under posteriors p_j(i) that are independent of each other, as Models 1 and 2 have them.

    φ_i is then a sum of coins with chances p_j(i), whose distribution is found coin by coin.
    """
    for lane in range(first, last):
        mine = lane_of(counts, lane)
        most = np.int64(counts.fertility.shape[2] - 1)
        chance = np.empty(most + 1)
        for run in range(lanes[lane], lanes[lane + 1]):
            for s in range(edges[run, 0], edges[run, 1]):
                l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
                if l == 0 or m == 0:
                    continue
                along, across = (1, l) if turned else (m, 1)
                found = np.empty((m, l), post.dtype)
                for i in range(l):
                    chance[:] = 0.0
                    chance[0] = 1.0
                    for j in range(m):
                        p = min(max(np.float64(post[starts[s] - base + j * across + i * along]), 0.0), 1.0)
                        found[j, i] = p
                        if p > 0.0:
                            chance[most] += chance[most - 1] * p  # and those that have as many already keep them
                            for phi in range(most - 1, 0, -1):
                                chance[phi] += p * (chance[phi - 1] - chance[phi])
                            chance[0] *= 1.0 - p
                    for phi in range(most + 1):
                        mine.fertility[giving[gives[s] + i], phi] += chance[phi]
                for j in range(m):
                    mine.null[0] += nulls[gets[s] + j]
                mine.null[1] += m
                add_places(mine, m, l, found)


@kernel
def recount(model, giving, gives, given, gets, source, target, links, edges, lanes, counts, first, last):
    """Each sentence's one alignment is counted for Model ``model``."""
    nothing = np.zeros(0)
    for lane in range(first, last):
        mine = lane_of(counts, lane)
        for run in range(lanes[lane], lanes[lane + 1]):
            for s in range(edges[run, 0], edges[run, 1]):
                l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
                if l == 0 or m == 0:
                    continue
                word, a, kind, other = (
                    np.empty(l, np.int64),
                    np.empty(m, np.int64),
                    np.empty(l, np.int64),
                    np.empty(m, np.int64),
                )
                for i in range(l):
                    word[i] = giving[gives[s] + i]
                    kind[i] = source[word[i]]
                for j in range(m):
                    other[j] = target[given[gets[s] + j]]
                    a[j] = links[gets[s] + j] if links[gets[s] + j] >= 0 else l
                    mine.null[0] += a[j] == l
                mine.null[1] += m
                cepts = Cepts(
                    np.empty(m, np.int64), np.empty(m, np.int64), np.empty(l + 1, np.int64), np.empty(l + 1, np.int64),
                    np.empty(l + 1, np.int64),
                )  # fmt: skip
                arrange(cepts, a)
                empty = nothing.reshape(0, 1)
                sentence = Sentence(empty, empty, empty, nothing, word, kind, other)
                post = np.zeros((m, l + 1))
                add(model, cepts, sentence, 1.0, post, mine)
                add_places(mine, m, l, post)
