"""One attention call as it was made: the composition it stands for, the arguments as given, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.doctor.watch.place import Place
from regard.mask import Mask
from regard.normalize import Normalizer
from regard.score import Score


@dataclass(frozen=True)
class Fill:
    """Something done to scores (before the softmax) or to weights (after) that hides keys, or should.

    ``how`` is "add", "fill" (a number put where ``where`` says) or "times"; ``lowest`` is the least number it puts.
    """

    how: str
    lowest: float
    zero_one: bool = False
    values: Tensor | None = None  # what was added or multiplied, broadcasting to the scores
    kept: Tensor | None = None  # True where the scores stayed as they were
    sums: tuple[float, float] | None = None  # of the rows of weights after it: least and largest


@dataclass(frozen=True)
class Call:
    """softmax(score(q, k)) v under a mask, q (B, H, L, D), k (B, G, S, D), v (B, G, S, E).

    ``kind`` is how it was written: "sdpa", "softmax" (a product, a softmax, a product), "flex" or "regard". Where the
    scores were only seen as numbers, q and k hold none: ``score`` is :class:`~regard.doctor.watch.parts.Held`.
    """

    kind: str
    q: Tensor
    k: Tensor
    v: Tensor
    score: Score
    normalize: Normalizer | str
    mask: Mask | None
    place: Place
    output: Tensor | None = None
    given: Tensor | None = None  # the mask as it was given
    is_causal: bool = False
    dropout: float = 0.0
    scale: float | None = None  # as given; None is the kernel's own 1/√D
    factors: Sequence[float] = ()  # every scalar on the way from the projections to the softmax
    fills: Sequence[Fill] = ()  # before the softmax
    after: Sequence[Fill] = ()  # after it
    expanded: tuple[Tensor, Tensor] | None = None  # k and v with a head for each query head, as the call had them
    heads: bool = True  # whether axis 1 is known to be heads
    of_q: Any = None  # what is known of where q and k came from, a Projected
    of_k: Any = None
    queries_keys: tuple[Tensor, Tensor] | None = None  # as they were multiplied
    width: int = 0  # D of the product, where it was seen
    asked: tuple[int, ...] | None = None  # the shape of the queries as they were given to the product
    query_axis: int = 2  # which axis of ``asked`` the queries stood on
    after_product: Sequence[float] = ()  # those of ``factors`` that came after the product
    factors_known: bool = False  # whether ``factors`` are all there are, from the projections on

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S)."""
        B, H, L, _ = self.q.shape
        return B, H, L, self.k.shape[2]
