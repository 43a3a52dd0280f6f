"""Where the words of a cept go: the tables of Models 3, 4 and 5, and how each is estimated.

A table with an entry for every class and shape has more entries than a corpus has words, so each is smoothed towards
a smaller one that leaves out what is rarest to see, p = (c + κ p') / (Σ c + κ), a Dirichlet prior worth κ words; the
smallest is smoothed towards all distances alike. (GIZA++ mixes every table with all distances alike, in a share of 0.2
to 0.4, so that what is rare and what is frequent lose as much.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from regard.align.fertility.tables import FERTILITIES, TAIL, Counts, Tables, shape_at, sizes_to

__all__ = ["DISTANCES", "Absolute", "Distances", "Relative", "Vacancies"]

Array = np.ndarray[Any, Any]

#: Distances with an entry of their own; one more each side is for all beyond.
_NEAR = 40
#: Model 3 has an entry for each place in sentences of up to so many words a side.
_SHAPES = 32
#: Model 5 has entries of its own for up to so many vacancies.
_VACANCIES = 24


class Distances(Protocol):
    """A model's distortion."""

    @property
    def model(self) -> int:
        """3, 4 or 5."""

    @property
    def strength(self) -> float:
        """κ: how many words' worth each table is drawn to the smaller one."""

    def tables(self, longest: int, dtype: Any) -> Tables:
        """Logarithms, for generated sentences of up to ``longest`` words."""

    def shapes(self, words: int) -> Counts:
        """The shapes of what is counted, with ``words`` in the generating vocabulary."""

    def fitted(self, counts: Counts) -> Distances:
        """The M-step."""


def _blank(words: int) -> dict[str, Any]:
    return {
        "fertility": (words, FERTILITIES), "null": (2,), "places": (0,), "ridge": (1,), "head": (1, 1, 1),
        "body": (1, 1), "opening": (1, 1, 1, 1), "onward": (1, 1, 1), "lean": (1, 1), "stride": (1, 1),
    }  # fmt: skip


def _tables(dtype: Any, **own: Array) -> Tables:
    shapes = {**_blank(0), "ridges": (2,), "leans": (1, 2), "strides": (1, 2)}
    names = Tables._fields
    made = {name: own.get(name, np.zeros(shapes[name])) for name in names}
    exact = ("ridges", "leans", "strides")
    return Tables(*(np.ascontiguousarray(made[name], np.float64 if name in exact else dtype) for name in names))


def _log(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(x)


def smoothed(counts: Array, prior: Array, strength: float) -> Array:
    """(c + κ p) / (Σ c + κ) along the last axis; p where nothing was counted and κ is 0."""
    sums = counts.sum(-1, keepdims=True) + strength
    found: Array = np.where(sums > 0, (counts + strength * prior) / np.where(sums > 0, sums, 1.0), prior)
    return found


def _alike(size: int) -> Array:
    return np.full(size, 1.0 / size)


def _spread(table: Array, longest: int, signed: bool) -> Array:
    """A table of near distances as weights of all distances up to ``longest``: what lies beyond falls off."""
    most = (table.shape[-1] - 1) // 2 if signed else table.shape[-1] - 1
    steps = np.arange(-longest if signed else 0, longest + 1)
    near = np.clip(steps, -most, most)
    far = np.where(np.abs(steps) >= most, (1 - TAIL) * TAIL ** (np.abs(steps) - most + 0.0), 1.0)
    weights = table[..., near + (most if signed else 0)] * far
    return (
        np.maximum(weights, 1e-30)
        if signed
        else np.concatenate((0 * weights[..., :1], np.maximum(weights[..., 1:], 1e-30)), -1)
    )


def _running(weights: Array) -> Array:
    """Sums of what stands before each."""
    return np.concatenate((np.zeros((*weights.shape[:-1], 1)), np.cumsum(weights, -1)), -1)


@dataclass(frozen=True)
class Absolute:
    """Model 3: d(j|i, m, l), smoothed towards a ridge along the diagonal, w(j − i m/l)."""

    places: Array  # as Tables.places, no logarithm
    ridge: Array  # [2 K + 1]
    strength: float = 10.0
    model: ClassVar[int] = 3
    learnt: ClassVar[tuple[str, ...]] = ("places", "ridge")

    @staticmethod
    def starting(strength: float = 10.0) -> Absolute:
        """All places alike."""
        blank = Absolute(np.zeros(0), np.zeros(0), strength)
        return blank.fitted(Counts(*(np.zeros(shape) for shape in blank.shapes(1))))

    def shapes(self, words: int) -> Counts:
        return Counts(**{**_blank(words), "places": (sizes_to(_SHAPES),), "ridge": (2 * _NEAR + 1,)})

    def fitted(self, counts: Counts) -> Absolute:
        ridge = smoothed(counts.ridge, _alike(len(counts.ridge)), 1.0)
        weights = _spread(ridge, _SHAPES, True)
        places = np.empty_like(counts.places)
        for l in range(1, _SHAPES + 1):
            for m in range(1, _SHAPES + 1):
                start = shape_at.py_func(l, m, _SHAPES)
                here = slice(start, start + l * m)
                middle = (2 * np.arange(l) + 1) * m // (2 * l)
                prior = weights[np.arange(m)[:, None] - middle + _SHAPES]  # [m, l]
                found = smoothed(counts.places[here].reshape(m, l).T, (prior / prior.sum(0)).T, self.strength)
                places[here] = found.T.ravel()
        return Absolute(places, ridge, self.strength)

    def tables(self, longest: int, dtype: Any) -> Tables:
        weights = _spread(self.ridge, longest, True)
        return _tables(dtype, places=_log(self.places), ridge=_log(weights), ridges=_running(weights))


@dataclass(frozen=True)
class Relative:
    """Model 4: d_1(Δ|A, B) and d_>1(Δ|B), each smoothed towards the same of all classes.

    ``strength`` is κ of a class against all classes together.
    """

    head: Array  # [A + 1, B, 2 K + 1]
    body: Array  # [B, K + 1]
    strength: float = 10.0
    model: ClassVar[int] = 4
    learnt: ClassVar[tuple[str, ...]] = ("head", "body")

    @staticmethod
    def starting(a: int, b: int, strength: float = 10.0) -> Relative:
        """For ``a`` and ``b`` classes: all distances alike."""
        head = np.broadcast_to(_alike(2 * _NEAR + 1), (a + 1, b, 2 * _NEAR + 1))
        return Relative(head, np.concatenate((np.zeros((b, 1)), np.tile(_alike(_NEAR), (b, 1))), 1), strength)

    def shapes(self, words: int) -> Counts:
        return Counts(**{**_blank(words), "head": self.head.shape, "body": self.body.shape})

    def fitted(self, counts: Counts) -> Relative:
        head, body = counts.head, counts.body[:, 1:]
        starts, others = head[-1:], head[:-1]
        made = []
        for each in (others, starts):  # what comes first in a sentence is like nothing else
            every = smoothed(each.sum((0, 1)), _alike(each.shape[-1]), 1.0)
            # A class of the word before, then of the word itself as well.
            after = smoothed(each.sum(1, keepdims=True), every, self.strength)
            made.append(smoothed(each, after, self.strength))
        every = smoothed(body.sum(0), _alike(body.shape[-1]), 1.0)
        found = smoothed(body, every, self.strength)
        return Relative(np.concatenate(made), np.concatenate((0 * found[:, :1], found), 1), self.strength)

    def tables(self, longest: int, dtype: Any) -> Tables:
        return _tables(dtype, head=_log(self.head), body=_log(self.body))


@dataclass(frozen=True)
class Vacancies:
    """Model 5: d_1(v | B, v_c, max) and d_>1(Δv | B, max), smoothed towards tables of differences."""

    opening: Array  # [B, V + 1, V + 1, V + 1]
    onward: Array  # [B, V + 1, V + 1]
    lean: Array  # [B, 2 K + 1]
    stride: Array  # [B, K + 1]
    strength: float = 10.0
    model: ClassVar[int] = 5
    learnt: ClassVar[tuple[str, ...]] = ("opening", "onward", "lean", "stride")

    @staticmethod
    def starting(b: int, strength: float = 10.0) -> Vacancies:
        """For ``b`` classes: all vacancies alike."""
        wide = _VACANCIES + 1
        blank = Vacancies(
            np.zeros((b, wide, wide, wide)),
            np.zeros((b, wide, wide)),
            np.zeros((b, 2 * _NEAR + 1)),
            np.zeros((b, _NEAR + 1)),
            strength,
        )
        return blank.fitted(Counts(*(np.zeros(shape) for shape in blank.shapes(1))))

    def shapes(self, words: int) -> Counts:
        own = {name: getattr(self, name).shape for name in ("opening", "onward", "lean", "stride")}
        return Counts(**{**_blank(words), **own})

    def fitted(self, counts: Counts) -> Vacancies:
        every = smoothed(counts.lean.sum(0), _alike(counts.lean.shape[-1]), 1.0)
        lean = smoothed(counts.lean, every, self.strength)
        steps = counts.stride[:, 1:]
        stride = smoothed(steps, smoothed(steps.sum(0), _alike(steps.shape[-1]), 1.0), self.strength)
        stride = np.concatenate((0 * stride[:, :1], stride), 1)
        v = np.arange(_VACANCIES + 1)
        weights = _spread(lean, _VACANCIES, True)[:, v[None, :] - v[:, None] + _VACANCIES]  # [B, v_c, v]
        possible = (v >= 1) & (v <= v[:, None])  # [max, v]
        prior = weights[:, None] * possible[:, None, :]
        opening = smoothed(counts.opening, _shares(prior), self.strength)
        onward = smoothed(counts.onward, _shares(_spread(stride, _VACANCIES, False)[:, None] * possible), self.strength)
        return Vacancies(opening, onward, lean, stride, self.strength)

    def tables(self, longest: int, dtype: Any) -> Tables:
        lean, stride = _spread(self.lean, longest, True), _spread(self.stride, longest, False)
        return _tables(
            dtype, opening=_log(self.opening), onward=_log(self.onward), lean=_log(lean), leans=_running(lean),
            stride=_log(stride), strides=_running(stride),
        )  # fmt: skip


def _shares(weights: Array) -> Array:
    sums = weights.sum(-1, keepdims=True)
    found: Array = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
    return found


#: By the number of the model.
DISTANCES: dict[int, Any] = {made.model: made for made in (Absolute, Relative, Vacancies)}
