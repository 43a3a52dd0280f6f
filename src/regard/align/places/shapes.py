"""A number for each place i of each generated place j of each shape (l, m) of sentences that a corpus has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.lexicon import Lexicon
from regard.align.pairs import runs
from regard.align.places import Found
from regard.align.places.likeliest import likeliest
from regard.align.view import Block, View
from regard.kernels.compile import kernel
from regard.kernels.vector import like
from regard.kernels.workers import share

__all__ = ["Biased", "Shapes", "look"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shapes:
    """Which shape (l generating, m generated words) a sentence has, and where its m rows of l + 1 places (NULL last)
    lie in a table of ``size`` numbers."""

    l: Array  # int64, of each shape
    m: Array
    begins: Array  # int64, one more than there are shapes
    of: Array  # int32, the shape of each sentence

    @staticmethod
    def found(view: View) -> Shapes:
        """The shapes of the whole corpus, so that every part of it means the same by a place in the table."""
        l, m = view.generating.lengths(), view.generated.lengths()
        keys, of = np.unique(l << 20 | m, return_inverse=True)
        l, m = keys >> 20, keys & (1 << 20) - 1
        begins = np.zeros(len(keys) + 1, np.int64)
        np.cumsum((l + 1) * m, out=begins[1:])
        return Shapes(l, m, begins, of.astype(np.int32))

    @property
    def size(self) -> int:
        return int(self.begins[-1])

    def rows(self) -> tuple[Array, Array, Array]:
        """Of every row of the table: its shape, its j, and where it begins."""
        shape = np.repeat(np.arange(len(self.m)), self.m)
        first = np.cumsum(self.m) - self.m
        j = np.arange(len(shape)) - first[shape]
        return shape, j, self.begins[shape] + j * (self.l[shape] + 1)


def look(
    view: View, block: Block, lexicon: Lexicon, shapes: Shapes, bias: Array, found: Found, threads: int | None
) -> None:
    """p(i|j) = t(f_j|e_i) a(i|j,l,m) / Σ_i' …, and the sums of these for each place of the table."""
    scores, _ = found.begin(block, 0)
    edges = np.array(block.runs, np.int64)
    share(
        _look, [(k, k + 1) for k in range(len(edges))], *view.layout(), lexicon.table, lexicon.null, shapes.of,
        shapes.begins, bias, edges, block.base, found.post, found.null, scores, threads=threads,
    )  # fmt: skip
    if len(found.table) != shapes.size:
        found.table = np.zeros(shapes.size)
    of = shapes.of[block.first : block.last]
    order = block.first + np.argsort(of, kind="stable")
    firsts = np.searchsorted(shapes.of[order], np.arange(len(shapes.m) + 1))
    work = np.diff(firsts) * np.diff(shapes.begins) + 1
    _, gives, _, gets, _, starts, turned = view.layout()
    share(
        _gather, runs(work), order, firsts, gives, gets, starts, turned, shapes.begins, block.base, found.post,
        found.null, found.table, threads=threads,
    )  # fmt: skip


class Biased(ABC):
    """Places whose bias a(i|j,l,m) is a table over ``shapes``: words look independently of each other."""

    shapes: Shapes
    bias: Array

    def expect(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> None:
        """p(i|j) = t(f_j|e_i) a(i|j,l,m) / Σ_i' …"""
        look(view, block, lexicon, self.shapes, self.bias, found, threads)

    def best(self, view: View, block: Block, lexicon: Lexicon, found: Found, threads: int | None) -> Array:
        """Word by word: none depends on another."""
        return likeliest(view, block, found, threads)

    def sums(self, view: View, found: Found) -> Array:
        """How often each place was looked at."""
        return found.table if len(found.table) else np.zeros(self.shapes.size)

    @abstractmethod
    def fitted(self, view: View, sums: Array) -> Biased:
        """The M-step."""


@kernel
def _look(
    giving, gives, given, gets, cells, starts, turned, table, null, shape, begins, bias, edges, base, post, nulls,
    scores, first, last
):  # fmt: skip
    one = like(table[0], 1.0)
    for run in range(first, last):
        score = 0.0
        for s in range(edges[run, 0], edges[run, 1]):
            l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
            along, across = (1, l) if turned else (m, 1)
            for j in range(m):
                cell = starts[s] + j * across
                row = begins[shape[s]] + j * (l + 1)
                none = null[given[gets[s] + j]] * bias[row + l]
                total = none
                for i in range(l):
                    post[cell - base + i * along] = table[cells[cell + i * along]] * bias[row + i]
                for i in range(l):  # apart: a loop that writes may be compiled two ways, and addresses say which runs
                    total += post[cell - base + i * along]
                if total > 0:
                    part = one / total
                    for i in range(l):
                        post[cell - base + i * along] *= part
                    nulls[gets[s] + j] = none * part
                    score += math.log(total)
                else:
                    for i in range(l):
                        post[cell - base + i * along] = bias[row + i]
                    nulls[gets[s] + j] = bias[row + l]
                    score = -math.inf
        scores[run] = score


@kernel
def _gather(order, firsts, gives, gets, starts, turned, begins, base, post, nulls, table, first, last):
    """Adds up, shape by shape, what each place got in each sentence of that shape."""
    for shape in range(first, last):
        for o in range(firsts[shape], firsts[shape + 1]):
            s = order[o]
            l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
            along, across = (1, l) if turned else (m, 1)
            for j in range(m):
                row = begins[shape] + j * (l + 1)
                cell = starts[s] - base + j * across
                for i in range(l):
                    table[row + i] += post[cell + i * along]
                table[row + l] += nulls[gets[s] + j]
