"""Models 1 to 5 of Brown et al. (1993) as they are printed: P(f, a | e) of one alignment, in plain Python.

Here everything counts from 1, as in the paper: f_1..f_m are generated from e_1..e_l, and a_j = 0 stands for NULL.
Tables are functions, so that any table can be asked about, and sums run over every alignment there is.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Alignment = tuple[int, ...]
Counts = dict[tuple[object, ...], float]


@dataclass(frozen=True)
class Tables:
    """What a model has learnt, about the sentence at hand."""

    words: Callable[[int, int], float]  # t(f_j | e_i), asked by (j, i)
    fertility: Callable[[int, int], float] = lambda phi, i: 0.0  # n(φ | e_i)
    p1: float = 0.0
    looks: Callable[[int, int, int, int], float] = lambda i, j, m, l: 0.0  # Model 2: a(i | j, m, l)
    places: Callable[[int, int, int, int], float] = lambda j, i, m, l: 0.0  # Model 3: d(j | i, m, l)
    head: Callable[[int, int, int], float] = lambda step, a, b: 0.0  # Model 4: d_1(Δ | A, B); A = 0 before any word
    body: Callable[[int, int], float] = lambda step, b: 0.0  # Model 4: d_>1(Δ | B)
    opening: Callable[[int, int, int, int], float] = lambda v, b, before, room: 0.0  # Model 5: d_1(v | B, v_c, max)
    onward: Callable[[int, int, int], float] = lambda v, b, room: 0.0  # Model 5: d_>1(Δv | B, max)
    source: tuple[int, ...] = ()  # A(e_i), i = 1..l; classes from 1
    target: tuple[int, ...] = ()  # B(f_j), j = 1..m


def alignments(l: int, m: int) -> Iterator[Alignment]:
    """All (l+1)^m of them."""
    return itertools.product(range(l + 1), repeat=m)


def cepts(a: Alignment, l: int) -> list[list[int]]:
    """cepts[i] = the positions of the words that e_i generates, from left to right; cepts[0] NULL's."""
    found: list[list[int]] = [[] for _ in range(l + 1)]
    for j, i in enumerate(a, 1):
        found[i].append(j)
    return found


@dataclass
class Made:
    """A product of table entries, and which entries they were."""

    value: float = 1.0
    entries: list[tuple[object, ...]] = field(default_factory=list)

    def take(self, probability: float, *entry: object) -> None:
        self.value *= probability
        self.entries.append(entry)


def joint(model: int, a: Alignment, l: int, tables: Tables) -> Made:
    """P(f, a | e) with ε = 1; NULL is a word of the generating side like any other in Models 1 and 2."""
    m, made = len(a), Made()
    if model <= 2:
        for j, i in enumerate(a, 1):
            made.take(tables.words(j, i), "t", j, i)
            made.take(1 / (l + 1) if model == 1 else tables.looks(i, j, m, l), "a", i, j)
        return made
    places = cepts(a, l)
    null = len(places[0])
    if m < 2 * null:
        return Made(0.0)
    made.value *= math.comb(m - null, null) * (1 - tables.p1) ** (m - 2 * null) * tables.p1**null
    for i in range(1, l + 1):
        made.take(tables.fertility(len(places[i]), i), "n", len(places[i]), i)
    for j, i in enumerate(a, 1):
        made.take(tables.words(j, i), "t", j, i)
    if model == 3:
        for i in range(1, l + 1):
            made.value *= math.factorial(len(places[i]))  # any order of a cept's words gives the same alignment
            for j in places[i]:
                made.take(tables.places(j, i, m, l), "d", j, i)
    elif model == 4:
        _relative(made, places, tables)
    else:
        _vacant(made, places, m, tables)
    return made


def _relative(made: Made, places: list[list[int]], tables: Tables) -> None:
    """Model 4: no factorial, for only one order of a cept's words has probability."""
    centre, before = 0, 0  # c = 0 and no class until a word has been placed
    for i, cept in enumerate(places):
        if i == 0 or not cept:
            continue
        b = tables.target[cept[0] - 1]
        made.take(tables.head(cept[0] - centre, before, b), "head", cept[0] - centre, before, b)
        for last, j in itertools.pairwise(cept):
            b = tables.target[j - 1]
            made.take(tables.body(j - last, b), "body", j - last, b)
        centre, before = math.ceil(sum(cept) / len(cept)), tables.source[i - 1]


def _vacant(made: Made, places: list[list[int]], m: int, tables: Tables) -> None:
    """Model 5: only vacant positions are counted, and only they can be taken."""
    taken = [False] * (m + 1)

    def vacancies(j: int) -> int:
        return sum(not taken[place] for place in range(1, j + 1))

    centre = 0
    for i, cept in enumerate(places):
        if i == 0 or not cept:
            continue
        phi, head = len(cept), cept[0]
        b, room = tables.target[head - 1], vacancies(m) - phi + 1
        entry = (vacancies(head), b, vacancies(centre), room)
        made.take(tables.opening(*entry), "opening", *entry)
        taken[head] = True
        for k, (last, j) in enumerate(itertools.pairwise(cept), 2):
            b, room = tables.target[j - 1], vacancies(m) - vacancies(last) - phi + k
            step = vacancies(j) - vacancies(last)
            made.take(tables.onward(step, b, room), "onward", step, b, room)
            taken[j] = True
        centre = math.ceil(sum(cept) / phi)


def enumerate_all(model: int, l: int, m: int, tables: Tables) -> tuple[float, Counts, Alignment]:
    """Σ_a P(f, a | e), the expected count of every table entry given f, and the alignment of largest probability."""
    total, best = 0.0, -1.0
    counts: Counts = defaultdict(float)
    viterbi: Alignment = ()
    for a in alignments(l, m):
        made = joint(model, a, l, tables)
        total += made.value
        for entry in made.entries:
            counts[entry] += made.value
        if made.value > best:
            best, viterbi = made.value, a
    return total, {entry: value / total for entry, value in counts.items()}, viterbi
