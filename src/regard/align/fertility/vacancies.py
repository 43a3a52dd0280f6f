"""Model 5 after a change: a word that goes from cept to cept fills or frees a place for every cept between the two.

How many of the first words are still to be placed when cept i's turn comes is known for the alignment as it stands; a
change adds one or takes one away between two places, for some cepts, so each cept's worth is found from its own words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from regard.align.fertility.bare import begin_of, log_onward, log_opening
from regard.align.fertility.cepts import before, behind, centre
from regard.kernels.compile import kernel


class Change(NamedTuple):
    """Model 5: a change as vacancies see it. ``known`` are those before it; between ``first`` and ``last`` there is one
    more for the cepts from ``low + 1`` to ``high``, or with ``sign`` −1 one less."""

    known: Any
    first: Any
    last: Any
    low: Any
    high: Any
    sign: Any


@kernel
def no_change(near):
    """As it stands."""
    zero = np.int64(0)
    return Change(begin_of(near.vacancies), zero, zero, zero, zero, zero)


@kernel
def vacancies(i, j, change, m):
    """How many of the words up to j are in cept i or behind."""
    count = np.int64(change.known[i * (m + 1) + j + 1])
    if change.first <= j and j < change.last and change.low < i and i <= change.high:
        count += change.sign
    return count


@kernel
def placed(i, change, state, gaps):
    """Model 5: what cept i, which has words, is worth after a change."""
    m, phi = state.m, state.size[i]
    j = state.first[i]
    room = vacancies(i, m - 1, change, m)
    prior = vacancies(i, j, change, m)
    c = centre(state, before(state, i))
    total = log_opening(gaps, gaps.target[j], room - phi + 1, vacancies(i, c, change, m), prior)
    k, j = 2, state.after[j]
    while j >= 0:
        v = vacancies(i, j, change, m)
        total += log_onward(gaps, gaps.target[j], room - prior - phi + k, v - prior)
        k, j, prior = k + 1, state.after[j], v
    return total


@kernel
def span(low, high, change, state, gaps):
    """Model 5: what cepts ``low`` to ``high`` and the next one behind are worth after a change."""
    total = 0.0
    for i in range(low, high + 1):
        if state.size[i] > 0:
            total += placed(i, change, state, gaps)
    q = behind(state, high)
    return total + (placed(q, change, state, gaps) if q < state.l else 0.0)
