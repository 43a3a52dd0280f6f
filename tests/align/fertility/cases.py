"""Random tables of every model, as the kernels read them and as the reference asks for them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.fertility.cepts import Cepts
from regard.align.fertility.cepts import room as cepts_of
from regard.align.fertility.neighbours import Neighbours
from regard.align.fertility.neighbours import room as neighbours_of
from regard.align.fertility.tables import FERTILITIES, TAIL, Counts, Sentence, Tables
from tests.align.fertility import reference

Array = np.ndarray[Any, Any]

CLASSES = (3, 2)  # A and B


def normal(draw: Array) -> Array:
    """Rows that sum to one."""
    found: Array = draw / draw.sum(-1, keepdims=True)
    return found


def null_part(m: int, p1: float) -> Array:
    found = np.full(m + 1, -np.inf)
    for phi in range(m // 2 + 1):
        found[phi] = math.log(math.comb(m - phi, phi)) + (m - 2 * phi) * math.log1p(-p1)
        found[phi] += phi * math.log(p1) if phi else 0.0
    return found


@dataclass(frozen=True)
class Case:
    """A pair of sentences with tables of its own."""

    sentence: Sentence
    tables: Tables
    reference: reference.Tables
    counts: Counts

    @property
    def m(self) -> int:
        return len(self.sentence.target)

    @property
    def giving(self) -> int:
        return len(self.sentence.source)

    def cepts(self) -> Cepts:
        return cepts_of(self.m, self.giving)

    def near(self) -> Neighbours:
        return neighbours_of(self.m, self.giving)


def case(l: int, m: int, seed: int, *, most: int = 3, free: int = 3, sharp: float = 1.0) -> Case:
    """``most`` and ``free`` are K and V of the tables; small ones make sentences go beyond them."""
    rng = np.random.default_rng(seed)
    A, B = CLASSES

    def table(*shape: int) -> Array:
        return normal(rng.gamma(sharp, size=shape) + 1e-3)

    lexical, places = rng.random((m, l + 1)) ** (1 / sharp) + 1e-4, table(l, m).T.copy()
    fertility, p1 = table(l, FERTILITIES), rng.uniform(0.05, 0.4)
    head, body = table(A + 1, B, 2 * most + 1), table(B, most)
    opening, onward = np.zeros((B, free + 1, free + 1, free + 1)), np.zeros((B, free + 1, free + 1))
    for room in range(1, free + 1):
        opening[:, room, :, 1 : room + 1] = table(B, free + 1, room)
        onward[:, room, 1 : room + 1] = table(B, room)
    lean, stride = table(B, 2 * m + 1), table(B, m)
    source, target = rng.integers(A, size=l), rng.integers(B, size=m)

    with np.errstate(divide="ignore"):
        logs = [np.log(each) for each in (lexical, places, fertility, head)]
        sentence = Sentence(logs[0], logs[1], logs[2], null_part(m, p1), np.arange(l), source, target)
        tables = Tables(
            np.zeros(0),
            np.zeros(1),
            np.zeros(2),
            logs[3],
            np.log(np.concatenate((np.zeros((B, 1)), body), 1)),
            np.log(opening),
            np.log(onward),
            np.log(lean),
            np.cumsum(np.concatenate((np.zeros((B, 1)), lean), 1), 1),
            np.log(np.concatenate((np.zeros((B, 1)), stride), 1)),
            np.cumsum(np.concatenate((np.zeros((B, 2)), stride), 1), 1),
        )

    def beyond(step: int) -> float:
        return (1 - TAIL) * TAIL ** (abs(step) - most) if abs(step) >= most else 1.0

    def nine(phi: int, i: int) -> float:
        last = FERTILITIES - 1
        return float(fertility[i - 1, min(phi, last)]) * (0.5 ** (phi - last + 1) if phi >= last else 1.0)

    def opens(v: int, b: int, before: int, room: int) -> float:
        if room <= free and before <= free:
            return float(opening[b - 1, room, before, v])
        possible = [lean[b - 1, u - before + m] for u in range(1, room + 1)]
        return float(lean[b - 1, v - before + m] / sum(possible))

    def goes(step: int, b: int, room: int) -> float:
        if room <= free:
            return float(onward[b - 1, room, step])
        return float(stride[b - 1, step - 1] / stride[b - 1, :room].sum())

    asked = reference.Tables(
        words=lambda j, i: float(lexical[j - 1, i - 1]),  # i = 0 is NULL, the last column
        fertility=nine,
        p1=p1,
        places=lambda j, i, m, l: float(places[j - 1, i - 1]),
        head=lambda step, a, b: float(head[a - 1, b - 1, max(-most, min(step, most)) + most]) * beyond(step),
        body=lambda step, b: float(body[b - 1, min(step, most) - 1]) * beyond(step),
        opening=opens,
        onward=goes,
        source=tuple(int(each) + 1 for each in source),
        target=tuple(int(each) + 1 for each in target),
    )
    counts = Counts(
        fertility=np.zeros(fertility.shape),
        null=np.zeros(2),
        places=np.zeros(0),
        ridge=np.zeros(1),
        head=np.zeros(head.shape),
        body=np.zeros(tables.body.shape),
        opening=np.zeros(opening.shape),
        onward=np.zeros(onward.shape),
        lean=np.zeros((B, 2 * most + 1)),
        stride=np.zeros((B, most + 1)),
    )
    return Case(sentence, tables, asked, counts)


def published(alignment: Array, l: int) -> reference.Alignment:
    """The same alignment as the paper writes it: from 1, NULL being 0."""
    return tuple(0 if i == l else int(i) + 1 for i in alignment)


def internal(a: reference.Alignment, l: int) -> Array:
    """And back."""
    return np.array([l if i == 0 else i - 1 for i in a], np.int64)
