"""Scores: how well a key matches a query, any real number, before anything is normalised.

Every score is written in three steps, so that what can be done once is done once: ``queries`` turns the queries,
``keys`` turns the keys (a memory that is read many times keeps the result), ``compare`` matches the two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError, unknown_name
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


class Dot(Score):
    """s = q·k. Widths Dq = Dk.

    >>> import torch
    >>> Dot()(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[11.,  2.]])
    """

    def scale(self, width: int) -> float:
        return 1.0

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        # The query is scaled before the product: in half precision the unscaled product may already be inf.
        return (q * self.scale(q.shape[-1])) @ k.transpose(-2, -1)

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        return DotForm(q, k, self.scale(q.shape[-1]))


class ScaledDot(Dot):
    """s = q·k / √D, so that unit-variance queries and keys give unit-variance scores (Vaswani et al. 2017, eq. 1).

    >>> import torch
    >>> ScaledDot()(torch.ones(1, 4), torch.ones(1, 4))
    tensor([[2.]])
    """

    def scale(self, width: int) -> float:
        return 1.0 / math.sqrt(width)


class Cosine(Score):
    """s = β · q·k / (‖q‖‖k‖), in [−β, β]; a zero vector scores 0 against everything.

    >>> import torch
    >>> Cosine(beta=10.0)(torch.tensor([[2.0, 0.0]]), torch.tensor([[5.0, 0.0], [0.0, 0.0]]))
    tensor([[10.,  0.]])
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = beta

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        return _unit(q)

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        return _unit(k)

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return self.beta * (q @ k.transpose(-2, -1))

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        return DotForm(q, k, self.beta)


class Euclidean(Score):
    """s = −‖q − k‖², the negative squared distance.

    The softmax of it is that of ``2 q·k − ‖k‖²``: a dot product with one more column, which is how a fused kernel
    runs it.

    >>> import torch
    >>> Euclidean()(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 1.0], [4.0, 5.0]]))
    tensor([[ -0., -25.]])
    """

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return -(q.unsqueeze(-2) - k.unsqueeze(-3)).square().sum(-1)

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        q, k = _wide(q), _wide(k)  # ‖k‖² is out of reach of half precision
        # Distances do not move when both sides do, and the terms below cancel best near the origin. The median is a
        # place among the keys that a few masked slots full of rubbish cannot move.
        middle = k.detach().nanmedian(-2, keepdim=True).values
        k = k - middle
        if q.shape[-3:-2] != middle.shape[-3:-2]:
            middle = middle.repeat_interleave(q.shape[-3] // middle.shape[-3], dim=-3)
        q = q - middle
        augmented_q = torch.cat([2.0 * q, -torch.ones_like(q[..., :1])], dim=-1)
        augmented_k = torch.cat([k, k.square().sum(-1, keepdim=True)], dim=-1)
        return DotForm(augmented_q, augmented_k, 1.0, row=-q.square().sum(-1, keepdim=True))


class General(Score):
    """s = qᵀ W k, with W (Dq, Dk), or (H, Dq, Dk) when ``heads`` is given (Luong et al. 2015, eq. 8, "general").

    >>> import torch
    >>> General(3, 5)(torch.ones(1, 2, 3), torch.ones(1, 7, 5)).shape
    torch.Size([1, 2, 7])
    """

    def __init__(self, query_width: int, key_width: int, heads: int | None = None) -> None:
        super().__init__()
        shape = (query_width, key_width) if heads is None else (heads, query_width, key_width)
        self.weight = nn.Parameter(torch.empty(shape).normal_(0.0, query_width**-0.5))

    def check_widths(self, query_width: int, key_width: int) -> None:
        _check_projected(self, query_width, key_width, self.weight.shape[-2], self.weight.shape[-1])

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        return q @ self.weight.to(q.dtype)

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return q @ k.transpose(-2, -1)

    def as_dot(self, q: Tensor, k: Tensor) -> DotForm:
        return DotForm(q, k, 1.0)


class _TanhSum(Score):
    """s = vᵀ tanh(q′ + k′) for projected q′ and k′ of one width A. What Additive and Concat share."""

    no_dot_form = "vᵀ tanh(W q + U k) does not factor into a product of a query and a key"
    energy: nn.Parameter

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        hidden = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (…, L, S, A)
        return hidden @ self.energy.to(hidden.dtype)


class Additive(_TanhSum):
    """s = vᵀ tanh(W q + U k) (Bahdanau et al. 2015, appendix A.1.2). |s| ≤ ‖v‖₁.

    ``query`` is W (A, Dq), ``key`` is U (A, Dk), ``energy`` is v (A). As published, W and U start at N(0, 0.001²) and
    v at 0, so that an untrained model looks everywhere alike.

    >>> import torch
    >>> Additive(3, 5, width=4)(torch.ones(1, 2, 3), torch.ones(1, 7, 5)).abs().max().item()
    0.0
    """

    def __init__(self, query_width: int, key_width: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(key_width, width, bias=False)
        self.energy = nn.Parameter(torch.zeros(width))
        for projection in (self.query, self.key):
            nn.init.normal_(projection.weight, 0.0, 0.001)

    def check_widths(self, query_width: int, key_width: int) -> None:
        _check_projected(self, query_width, key_width, self.query.in_features, self.key.in_features)

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        return F.linear(q, self.query.weight.to(q.dtype))

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        return F.linear(k, self.key.weight.to(k.dtype))


class Concat(_TanhSum):
    """s = vᵀ tanh(W [q; k]), both sides projected, as the paper's formula has it (Luong et al. 2015, eq. 8, "concat").

    With W = [W_q U_k] this is :class:`Additive`: the two names are one function. W (A, Dq + Dk), v (A).

    >>> import torch
    >>> Concat(3, 5, width=4)(torch.ones(1, 2, 3), torch.ones(1, 7, 5)).shape
    torch.Size([1, 2, 7])
    """

    def __init__(self, query_width: int, key_width: int, width: int) -> None:
        super().__init__()
        self.query_width, self.key_width = query_width, key_width
        both = query_width + key_width
        self.weight = nn.Parameter(torch.empty(width, both).normal_(0.0, both**-0.5))
        self.energy = nn.Parameter(torch.empty(width).normal_(0.0, width**-0.5))

    def check_widths(self, query_width: int, key_width: int) -> None:
        _check_projected(self, query_width, key_width, self.query_width, self.key_width)

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        return F.linear(q, self.weight[:, : self.query_width].to(q.dtype))

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        return F.linear(k, self.weight[:, self.query_width :].to(k.dtype))


class Learned(Score):
    """s = f(q, k) for any module f that maps ``(…, Dq), (…, Dk)`` to ``(…, 1)`` or ``(…)``.

    :meth:`mlp` makes the usual one, a perceptron on [q; k; q⊙k].

    >>> import torch
    >>> Learned(torch.nn.Bilinear(3, 5, 1))(torch.ones(1, 2, 3), torch.ones(1, 7, 5)).shape
    torch.Size([1, 2, 7])
    """

    no_dot_form = "a learned function of the pair has no dot form"

    def __init__(self, function: nn.Module) -> None:
        super().__init__()
        self.function = function

    @classmethod
    def mlp(cls, query_width: int, key_width: int, width: int) -> Learned:
        """One hidden tanh layer of ``width`` on [q; k; q⊙k] (without the product where the widths differ)."""
        return cls(_PairPerceptron(query_width, key_width, width))

    def check_widths(self, query_width: int, key_width: int) -> None:
        """Any widths: only the module itself knows what it takes."""

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        pairs = (*torch.broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
        s = cast(Tensor, self.function(q.unsqueeze(-2).expand(*pairs, -1), k.unsqueeze(-3).expand(*pairs, -1)))
        s = s.squeeze(-1) if s.dim() == len(pairs) + 1 else s
        if s.shape != torch.Size(pairs):
            raise RegardError(
                f"score Learned: the module gave {tuple(s.shape)} for pairs of shape {pairs}; wanted one number a "
                "pair, "
                "(…, L, S, 1) or (…, L, S)"
            )
        return s


class _PairPerceptron(nn.Module):
    def __init__(self, query_width: int, key_width: int, width: int) -> None:
        super().__init__()
        self.product = query_width == key_width
        self.hidden = nn.Linear(query_width + key_width + (query_width if self.product else 0), width)
        self.out = nn.Linear(width, 1)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        pair = torch.cat([q, k, q * k] if self.product else [q, k], dim=-1)
        return cast(Tensor, self.out(torch.tanh(self.hidden(pair))))


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


def named(score: Score | str) -> Score:
    """The score itself, or the parameterless one of that name: dot, scaled_dot, cosine, euclidean."""
    if isinstance(score, Score):
        return score
    if isinstance(score, str) and score in NAMES:
        return NAMES[score]
    raise unknown_name("score", score, NAMES)


NAMES: dict[str, Score] = {
    "dot": Dot(),
    "scaled_dot": ScaledDot(),
    "cosine": Cosine(),
    "euclidean": Euclidean(),
}


def _unit(x: Tensor) -> Tensor:
    """x / ‖x‖, and 0 with zero gradient for a zero vector (an epsilon would bend every other vector)."""
    wide = _wide(x)  # the square of a half-precision vector easily overflows
    square = wide.square().sum(-1, keepdim=True)
    zero = square == 0
    return (wide * torch.where(zero, 1.0, square).rsqrt() * ~zero).to(x.dtype)


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _grid_of(s: Tensor) -> Grid:
    B, H, L, S = ((1,) * 4 + tuple(s.shape))[-4:]
    return Grid.of(B, H, L, S, device=s.device)


def _check_projected(score: Score, found_q: int, found_k: int, wanted_q: int, wanted_k: int) -> None:
    if (found_q, found_k) != (wanted_q, wanted_k):
        raise RegardError(
            f"score {type(score).__name__}: q has width {found_q} and k has width {found_k}, wanted {wanted_q} and "
            f"{wanted_k} as it was built; build it with {type(score).__name__}({found_q}, {found_k}, …)"
        )
