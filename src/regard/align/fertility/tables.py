"""What Models 3, 4 and 5 know, as kernels read it: natural logarithms in arrays, and the rules at their ends.

Positions j and words i count from 0 here, and NULL is the last word, i = l. Where Brown et al. (1993) leave a table
without bound, the last entry stands for all that lie beyond it, which share it geometrically, so that every
distribution still sums to one:

- fertility: n(φ|e) for φ = 0..8, and n(9|e) for "nine or more", φ having 2^(8−φ) of it;
- distance: d_1(Δ|A,B) and d_>1(Δ|B) for |Δ| < K, and a share (1−ρ)ρ^(|Δ|−K) of the entry at K beyond, ρ = 0.9.

Other tables are free up to a size, and beyond it tables of differences, renormalised over what is possible: Model 3's
d(j|i, m, l) is w(j − i m/l) / Σ_k w(k − i m/l) in sentences of more than L words; Model 5's d_1(v | B, v_c, max) is
w_B(v − v_c) / Σ_u w_B(u − v_c), u = 1..max, where max or v_c is above V, and d_>1(Δv | B, max) likewise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from regard.kernels.compile import kernel

__all__ = ["FERTILITIES", "TAIL", "Counts", "Sentence", "Tables", "nothing"]

Array = np.ndarray[Any, Any]

#: Entries of n(φ|e); the last is for all fertilities from there on.
FERTILITIES = 10
#: How what lies beyond a table of distances is shared.
TAIL = 0.9


class Sentence(NamedTuple):
    """A pair of sentences: m words generated from l words and NULL. Logarithms."""

    lexical: Array  # [m, l + 1] t(f_j|e_i), NULL last
    places: Array  # [m, l] d(j|i, m, l); Model 3 alone looks
    fertility: Array  # [l, FERTILITIES] n(φ|e_i)
    null: Array  # [m + 1] what NULL's fertility adds: C(m − φ, φ) p0^(m − 2φ) p1^φ, −∞ where there is no such
    word: Array  # [l] which row of the counts is e_i's
    source: Array  # [l] A(e_i)
    target: Array  # [m] B(f_j)


class Tables(NamedTuple):
    """Where words go, by classes: A of the word before, B of the word that is placed. Logarithms.

    A model's own tables are filled; those of the others may have any size.
    """

    places: Array  # Model 3: d(j|i, m, l) in sentences of l, m ≤ L, each shape's [m, l] where `shape_at` says
    ridge: Array  # [2 M + 1] Model 3 beyond L: w(Δ) at Δ + M, M being the most words of a sentence
    ridges: Array  # [2 M + 2] float64, no logarithm: the sums of what stands before
    head: Array  # [A + 1, B, 2 K + 1] Model 4: d_1(Δ|A, B) at Δ + K; the last A is for no word before
    body: Array  # [B, K + 1] Model 4: d_>1(Δ|B)
    opening: Array  # [B, V + 1, V + 1, V + 1] Model 5: d_1(v|B, v_c, max), by B, max, v_c, v
    onward: Array  # [B, V + 1, V + 1] Model 5: d_>1(Δv|B, max), by B, max, Δv
    lean: Array  # [B, 2 M + 1] Model 5 beyond V: w_B(v − v_c)
    leans: Array  # [B, 2 M + 2] and its sums
    stride: Array  # [B, M + 1] and for Δv
    strides: Array  # [B, M + 2]


class Counts(NamedTuple):
    """What is expected of every entry; no logarithms. Sentences are added to it."""

    fertility: Array  # [V, FERTILITIES]
    null: Array  # [2] words that NULL has, and all words
    places: Array
    ridge: Array  # [2 K + 1] differences, in sentences of any length
    head: Array
    body: Array
    opening: Array
    onward: Array
    lean: Array  # [B, 2 K + 1] and [B, K + 1] differences, whatever the room
    stride: Array


def nothing(like: Counts) -> Counts:
    """Counts of the same shapes with nothing in them."""
    return Counts(*(np.zeros_like(each) for each in like))


@kernel
def lane_of(counts, lane):
    """One of many counts that stand side by side."""
    return Counts(
        counts.fertility[lane], counts.null[lane], counts.places[lane], counts.ridge[lane], counts.head[lane],
        counts.body[lane], counts.opening[lane], counts.onward[lane], counts.lean[lane], counts.stride[lane],
    )  # fmt: skip


def sizes_to(longest: int) -> int:
    """How many entries Model 3's table has for sentences of up to ``longest`` words a side."""
    return (longest * (longest + 1) // 2) ** 2


@kernel
def longest_of(size):
    """And back: L."""
    return np.int64((math.sqrt(8.0 * math.sqrt(float(size)) + 1.0) - 1.0) / 2.0 + 1e-6)


@kernel
def shape_at(l, m, longest):
    """Where the table of shape (l, m) begins."""
    return (l - 1) * l // 2 * (longest * (longest + 1) // 2) + l * ((m - 1) * m // 2)


@kernel
def ridge_of(i, m, l):
    """The place on the diagonal, i m/l, to the nearest word."""
    return (2 * i + 1) * m // (2 * l)


@kernel
def fill_places(tables, m, l, places):
    """``places[j, i]`` = log d(j|i, m, l)."""
    longest = longest_of(len(tables.places))
    if m <= longest and l <= longest:
        start = shape_at(l, m, longest)
        for j in range(m):
            for i in range(l):
                places[j, i] = tables.places[start + j * l + i]
        return
    for i in range(l):
        zero = (len(tables.ridge) - 1) // 2 - ridge_of(i, m, l)
        total = math.log(tables.ridges[m + zero] - tables.ridges[zero])
        for j in range(m):
            places[j, i] = tables.ridge[j + zero] - total


@kernel
def add_places(counts, m, l, post):
    """Model 3's counts are the posteriors."""
    longest = longest_of(len(counts.places))
    most = (len(counts.ridge) - 1) // 2
    free = m <= longest and l <= longest
    start = shape_at(l, m, longest)
    for j in range(m):
        for i in range(l):
            counts.ridge[min(max(j - ridge_of(i, m, l), -most), most) + most] += post[j, i]
            if free:
                counts.places[start + j * l + i] += post[j, i]


@kernel
def fill_null(log_factorials, p1, null):
    """``null[φ]`` = log of C(m − φ, φ) p0^(m − 2φ) p1^φ."""
    m = len(null) - 1
    for phi in range(m + 1):
        if 2 * phi > m:
            null[phi] = -np.inf
            continue
        null[phi] = log_factorials[m - phi] - log_factorials[phi] - log_factorials[m - 2 * phi]
        null[phi] += (m - 2 * phi) * math.log1p(-p1)
        if phi > 0:
            null[phi] += phi * math.log(p1)
