"""What a score is, and how scores compose: a bias is added, a cap is put on, keys are kept turned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.grid import Grid


@dataclass(frozen=True)
class DotForm:
    """A score as ``scale · q·k + row``; ``row`` (…, L, 1) is the same for all keys: it moves no weight."""

    q: Tensor
    k: Tensor
    scale: float
    row: Tensor | None = None


class Bias(nn.Module, ABC):
    """A number added to a score that depends on where query and key stand, not on what they hold."""

    @abstractmethod
    def forward(self, grid: Grid) -> Tensor:
        """The bias over ``grid``, broadcastable to (B, H, L, S)."""


class Score(nn.Module, ABC):
    """s(q, k) for every pair: ``(B, H, L, Dq), (B, H, S, Dk) → (B, H, L, S)``.

    ``score + bias`` adds a :class:`Bias`, ``score.capped(c)`` bounds it by ±c, ``score.keyed`` is the same score for
    keys that already went through :meth:`keys`.
    """

    #: Why this score is no scaled dot product of transformed queries and keys; empty when it is one.
    no_dot_form: str = ""

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        """What ``compare`` needs of the queries."""
        return q

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        """What ``compare`` needs of the keys; worth keeping when the memory is read more than once."""
        return k

    @abstractmethod
    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        """Scores (…, L, S) of turned queries (…, L, ·) and turned keys (…, S, ·)."""

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        """The turned queries and keys as a scaled dot product; only where ``no_dot_form`` is empty."""
        raise RegardError(f"score: {type(self).__name__} is no dot product: {self.no_dot_form}")

    def check_widths(self, query_width: int, key_width: int) -> None:
        """Raises when queries and keys of these widths cannot be matched."""
        if query_width != key_width:
            raise RegardError(
                f"score {type(self).__name__}: q has width D = {query_width} and k has D = {key_width}, wanted equal "
                "widths; project one of them, or use General, Additive or Concat, which take two widths"
            )

    def forward(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return self.compare(self.queries(q, grid), self.keys(k, grid), grid)

    def __add__(self, bias: Bias) -> Score:
        return Biased(self, bias)

    def capped(self, cap: float) -> Score:
        """c · tanh(s / c): the same score, smoothly kept within ±c (Gemma 2 uses c = 50)."""
        return Capped(self, cap)

    @property
    def keyed(self) -> Score:
        """This score for keys that already went through :meth:`keys` (a memory read at every step keeps them)."""
        return Keyed(self)


class Wrapped(Score):
    """A score around a score; each step goes through to the one inside unless it is overridden."""

    def __init__(self, inner: Score) -> None:
        super().__init__()
        self.inner = inner
        self.no_dot_form = inner.no_dot_form

    def check_widths(self, query_width: int, key_width: int) -> None:
        self.inner.check_widths(query_width, key_width)

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        return self.inner.queries(q, grid)

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        return self.inner.keys(k, grid)

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return self.inner.compare(q, k, grid)

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        return self.inner.as_dot(q, k)


class Biased(Wrapped):
    """s(q, k) + bias(h, i, j), what ``score + bias`` makes."""

    def __init__(self, inner: Score, bias: Bias) -> None:
        if not isinstance(bias, Bias):
            raise RegardError(
                f"score + {type(bias).__name__}: wanted a position bias such as ALiBi(heads) or RelativeBias(heads, "
                "reach)"
            )
        super().__init__(inner)
        self.bias = bias
        self.no_dot_form = inner.no_dot_form or "a position bias is added after the product"

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        s = self.inner.compare(q, k, grid)
        bias: Tensor = self.bias(_grid_of(s) if grid is None else grid)
        return s + bias.to(s.dtype)


class Capped(Wrapped):
    """c · tanh(s / c), what ``score.capped(c)`` makes."""

    def __init__(self, inner: Score, cap: float) -> None:
        if not cap > 0:
            raise RegardError(f"capped: cap is {cap}, wanted a number above 0")
        super().__init__(inner)
        self.cap = cap
        self.no_dot_form = inner.no_dot_form or "the tanh cap is applied after the product"

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return self.cap * torch.tanh(self.inner.compare(q, k, grid) / self.cap)


class Keyed(Wrapped):
    """A score whose keys are already turned, what ``score.keyed`` makes. It shares the parameters."""

    def check_widths(self, query_width: int, key_width: int) -> None:
        """The keys' own width is gone once they are turned; the product itself says whether they fit."""

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        return k

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        if q.shape[-1] != k.shape[-1]:
            raise RegardError(
                f"k: turned keys have width {k.shape[-1]}, turned queries {q.shape[-1]}, wanted equal widths; "
                "score.keyed takes keys that went through score.keys"
            )
        return super().as_dot(q, k)


def check_projected(score: Score, found_q: int, found_k: int, wanted_q: int, wanted_k: int) -> None:
    if (found_q, found_k) != (wanted_q, wanted_k):
        raise RegardError(
            f"score {type(score).__name__}: q has width {found_q} and k has width {found_k}, wanted {wanted_q} and "
            f"{wanted_k} as it was built; build it with {type(score).__name__}({found_q}, {found_k}, …)"
        )


def _grid_of(s: Tensor) -> Grid:
    B, H, L, S = ((1,) * 4 + tuple(s.shape))[-4:]
    return Grid.of(B, H, L, S, device=s.device)
