"""The E-step of Models 3, 4 and 5 over a run of sentences: climb, then count what is around the top.

A pair of sentences with no more than ``WHOLE`` alignments is summed over all of them.
"""

from __future__ import annotations

import math

import numpy as np

from regard.align.fertility.cepts import Cepts, arrange, score
from regard.align.fertility.climb import climb
from regard.align.fertility.counting import gather, whole
from regard.align.fertility.neighbours import Neighbours
from regard.align.fertility.pegging import PEGGED, peg
from regard.align.fertility.tables import Sentence, add_places, fill_null, fill_places, lane_of
from regard.kernels.compile import kernel

__all__ = ["WHOLE"]

#: Pairs of sentences with this many alignments (l + 1)^m or fewer are summed over all: all of up to four words a side.
WHOLE = 1024

_FLOOR = 1e-30  # no word is impossible: a climb may begin anywhere


@kernel
def begin(gives, gets, starts, turned, base, post, null, links, first, last):
    """Each word to where it most probably looks, −1 for NULL, by posteriors ``post`` of cells and ``null`` of words."""
    for s in range(first, last):
        l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
        along, across = (1, l) if turned else (m, 1)
        for j in range(m):
            cell = starts[s] - base + j * across
            best, at = null[gets[s] + j], -1
            for i in range(l):
                if post[cell + i * along] > best:
                    best, at = post[cell + i * along], i
            links[gets[s] + j] = at


@kernel
def alignments(l, m):
    """(l + 1)^m, or a number above WHOLE."""
    number = 1
    for _ in range(m):
        if number > WHOLE:
            break
        number *= l + 1
    return number


@kernel
def depart(cepts, sentence, links):
    """The cepts where a climb begins: ``links``, less the words of NULL that it may not have (φ_0 ≤ m/2)."""
    m, l = len(cepts.of), len(cepts.size) - 1
    a = np.empty(m, np.int64)
    spare = m // 2
    for j in range(m):
        a[j] = l
        if links[j] >= 0:
            a[j] = links[j]
        elif spare > 0:
            spare -= 1
        else:
            best = np.int64(0)
            for i in range(l):
                if sentence.lexical[j, i] > sentence.lexical[j, best]:
                    best = np.int64(i)
            a[j] = best
    arrange(cepts, a)


@kernel
def look(
    model, giving, gives, given, gets, cells, starts, turned, table, none, fertility, p1, source, target, tables,
    log_factorials, base, least, ratio, links, post, nulls, scores, edges, lanes, counts, first, last
):  # fmt: skip
    """Lanes ``first`` to ``last``: lane k takes the runs ``lanes[k]`` to ``lanes[k + 1]`` and adds to ``counts[k]``.

    Links are pegged whose move is worth ``ratio`` or more; none where it is below 0.
    """
    for lane in range(first, last):
        most_l = most_m = np.int64(1)
        for run in range(lanes[lane], lanes[lane + 1]):
            for s in range(edges[run, 0], edges[run, 1]):
                most_l = max(most_l, gives[s + 1] - gives[s])
                most_m = max(most_m, gets[s + 1] - gets[s])
        n = most_l + 1
        lexical_, found_ = np.empty(most_m * n, table.dtype), np.empty(most_m * n, table.dtype)
        places_ = np.empty(most_m * most_l if model == 3 else 0, table.dtype)
        rows_ = np.empty((most_l, fertility.shape[1]), fertility.dtype)
        null_ = np.empty(most_m + 1)
        word_, source_, target_ = np.empty(most_l, np.int64), np.empty(most_l, np.int64), np.empty(most_m, np.int64)
        of_, after_, first_ = np.empty(most_m, np.int64), np.empty(most_m, np.int64), np.empty(n, np.int64)
        total_, size_ = np.empty(n, np.int64), np.empty(n, np.int64)
        move_, swap_ = np.empty(most_m * n), np.empty(most_m * most_m)
        up_, down_, own_, lost_, every = np.empty(n), np.empty(n), np.empty(n + 1), np.empty(n), np.empty(WHOLE)
        vacancies_ = np.empty(most_l * (most_m + 1) if model == 5 else 0, np.int32)
        mine = lane_of(counts, lane)
        for run in range(lanes[lane], lanes[lane + 1]):
            sum_of_scores = 0.0
            for s in range(edges[run, 0], edges[run, 1]):
                l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
                if l == 0 or m == 0:
                    continue
                along, across = (1, l) if turned else (m, 1)
                lexical = lexical_[: m * (l + 1)].reshape(m, l + 1)
                found = found_[: m * (l + 1)].reshape(m, l + 1)
                places = places_[: m * l if model == 3 else 0].reshape(m if model == 3 else 0, l)
                sentence = Sentence(lexical, places, rows_[:l], null_[: m + 1], word_[:l], source_[:l], target_[:m])
                for j in range(m):
                    w = given[gets[s] + j]
                    target_[j] = target[w]
                    cell = starts[s] + j * across
                    for i in range(l):
                        lexical[j, i] = math.log(max(table[cells[cell + i * along]], _FLOOR))
                    lexical[j, l] = math.log(max(none[w], _FLOOR))
                for i in range(l):
                    w = giving[gives[s] + i]
                    word_[i], source_[i] = w, source[w]
                    rows_[i] = fertility[w]
                fill_null(log_factorials, p1, null_[: m + 1])
                if model == 3:
                    fill_places(tables, m, l, places)
                cepts = Cepts(of_[:m], after_[:m], first_[: l + 1], total_[: l + 1], size_[: l + 1])
                few = alignments(l, m)
                if few <= WHOLE:
                    sum_of_scores += whole(model, cepts, sentence, tables, every[:few], found, mine)
                else:
                    near = Neighbours(
                        move_[: m * (l + 1)].reshape(m, l + 1), swap_[: m * m].reshape(m, m), up_[: l + 1],
                        down_[: l + 1], own_[: l + 2],
                        vacancies_[: l * (m + 1) if model == 5 else 0].reshape(l if model == 5 else 0, m + 1),
                    )  # fmt: skip
                    depart(cepts, sentence, links[gets[s] : gets[s + 1]])
                    if ratio >= 0.0 and m * l <= PEGGED:
                        sum_of_scores += peg(model, cepts, sentence, tables, near, least, ratio, found, mine)
                    else:
                        climb(model, cepts, sentence, tables, near, -1)
                        sum_of_scores += score(model, cepts, sentence, tables)
                        sum_of_scores += gather(model, cepts, sentence, near, least, found, lost_[: l + 1], mine)
                if model == 3:
                    add_places(mine, m, l, found)
                for j in range(m):
                    cell = starts[s] - base + j * across
                    for i in range(l):
                        post[cell + i * along] = found[j, i]
                    nulls[gets[s] + j] = found[j, l]
                    mine.null[0] += found[j, l]
                    links[gets[s] + j] = cepts.of[j] if cepts.of[j] < l else -1
                mine.null[1] += m
            scores[run] = sum_of_scores
