"""Scores with a hidden layer: additive, concat, and any module that maps a query and a key to a number."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError
from regard.grid import Grid
from regard.score.base import Score, check_projected


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
    v at 0, so that an untrained model looks everywhere alike. With ``bias`` it is vᵀ tanh(W q + b + U k), b from 0.

    >>> import torch
    >>> Additive(3, 5, width=4)(torch.ones(1, 2, 3), torch.ones(1, 7, 5)).abs().max().item()
    0.0
    """

    def __init__(self, query_width: int, key_width: int, width: int, *, bias: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=bias)
        self.key = nn.Linear(key_width, width, bias=False)
        self.energy = nn.Parameter(torch.zeros(width))
        for projection in (self.query, self.key):
            nn.init.normal_(projection.weight, 0.0, 0.001)
        if bias:
            nn.init.zeros_(self.query.bias)

    def check_widths(self, query_width: int, key_width: int) -> None:
        check_projected(self, query_width, key_width, self.query.in_features, self.key.in_features)

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        bias: Tensor | None = self.query.bias  # typed as a Tensor, and None where there is no bias
        return F.linear(q, self.query.weight.to(q.dtype), None if bias is None else bias.to(q.dtype))

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
        check_projected(self, query_width, key_width, self.query_width, self.key_width)

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
