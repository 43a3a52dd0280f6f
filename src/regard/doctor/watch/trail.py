"""What is remembered of a tensor while it lives: which projection, product, softmax or read it came from."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from regard.doctor.watch.call import Call, Fill
from regard.doctor.watch.place import Place


@dataclass(frozen=True)
class Projected:
    """It came from a linear layer: ``frame`` is all axes of its output but the last, ``width`` the last.

    ``split`` says that the last axis was cut into heads by a view, ``moved`` that axes changed places since, ``normed``
    that it was normalised, ``factors`` every single number it was multiplied by.
    """

    frame: tuple[int, ...]
    width: int
    split: bool = False
    moved: bool = False
    normed: bool = False
    factors: tuple[float, ...] = ()
    tokens: int | None = None


@dataclass(frozen=True)
class Scores:
    """q·kᵀ and what was done to it. ``query`` and ``key`` are its axes, counted from the end (−2 and −1 mostly)."""

    q: Tensor
    k: Tensor
    of_q: Projected | None
    of_k: Projected | None
    query: int = -2
    key: int = -1
    factors: tuple[float, ...] = ()
    fills: tuple[Fill, ...] = ()
    widened: bool = False  # columns were put beside the keys: a sink
    asked: tuple[int, ...] = ()  # the shape of the queries as they were given
    query_axis: int = 2  # and their axis in it
    changed: bool = False  # by a function that nothing is known of

    def then(self, fill: Fill) -> Scores:
        return replace(self, fills=(*self.fills, fill))


@dataclass(frozen=True)
class Masked:
    """Numbers that a mask was put on; how they were made is not known."""

    fills: tuple[Fill, ...] = ()


@dataclass(frozen=True)
class Weights:
    """A softmax of something: the scores it was of, the axis it ran over (from the end), and what was done since."""

    scores: Tensor
    of: Scores | None
    key_axis: int  # as the scores have it
    place: Place
    dim: int  # as the weights have it by now
    fills: tuple[Fill, ...] = ()  # before the softmax
    after: tuple[Fill, ...] = ()
    dropout: float = 0.0
    cut: bool = False  # columns were taken away: a sink
    rescaled: bool = False  # divided by something, as a sum


@dataclass(frozen=True)
class Read:
    """The output of an attention call, (…, H, L, E) until ``moved``."""

    call: Call
    moved: bool = False
    merged: bool = False  # heads and widths became one axis


Tag = Projected | Scores | Masked | Weights | Read


class Trail:
    """Tags by tensor, gone when the tensor is."""

    def __init__(self) -> None:
        self._tags: dict[int, tuple[weakref.ref[Tensor], Tag]] = {}

    def __getitem__(self, x: Any) -> Tag | None:
        found = self._tags.get(id(x))
        return found[1] if found is not None and found[0]() is x else None

    def __setitem__(self, x: Tensor, tag: Tag) -> None:
        key = id(x)

        def forget(gone: weakref.ref[Tensor]) -> None:
            found = self._tags.get(key)
            if found is not None and found[0] is gone:
                del self._tags[key]

        self._tags[key] = (weakref.ref(x, forget), tag)

    def __bool__(self) -> bool:
        return bool(self._tags)

    def clear(self) -> None:
        self._tags.clear()
