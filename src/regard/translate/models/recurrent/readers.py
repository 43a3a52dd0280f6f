"""Readers: what a state of the decoder finds in what the encoder wrote down. Every look is one of this package."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.mask import Mask, dense, padding
from regard.operator import attend, weights
from regard.score import Additive, Concat, Dot, General, Score

__all__ = ["Handed", "Memory", "Place", "Reader", "full", "scored"]


@dataclass(frozen=True)
class Memory:
    """A read source that is looked back at: ``states`` h (B, 1, S, E), ``keys`` (B, 1, S, A), ``lengths`` (B,)."""

    states: Tensor
    keys: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Handed:
    """A read source of which one vector is left: ``context`` c (B, 1, E)."""

    context: Tensor


class Place(nn.Module):
    """p = S · σ(v_pᵀ tanh(W_p h)): where a state wants to look in a source of S pieces (Luong et al. 2015, eq. 9).

    ``project`` is W_p (n, n), ``energy`` is v_p (n).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, width, bias=False)
        self.energy = nn.Parameter(torch.empty(width).normal_(0.0, width**-0.5))
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """Real places (B, L) for states (B, L, n), between 0 and ``lengths`` (B,)."""
        hidden = torch.tanh(self.project(states))
        return lengths.unsqueeze(-1) * torch.sigmoid((hidden * self.energy).sum(-1))


@dataclass(frozen=True)
class Reader:
    """c = Σ_s a(s) h_s with a = normalise(score(q, h_s)), over all of a source, or over a window about p.

    ::

        global    a(s) = w(s),                               s < S
        local-m   a(s) = w(s),                               s < S, |s − p| ≤ D,   p = t
        local-p   a(s) = w(s) · exp(−(s − p)² / 2σ²),        s < S, |s − p| ≤ D,   p = S · σ(v_pᵀ tanh(W_p q)),  σ = D/2

    (Luong et al. 2015, section 3.2.) w is normalised over the places that are seen; what the bell takes is not given
    to others, so that a local-p read has a mass below 1. A factor on weights that are not normalised again is no bias
    on scores (which would be), and for other normalisers than softmax no read can be scaled to it afterwards: so
    ``weights`` gives w, and the bell and the sum over h follow. Only the bell tells p what to learn: a window's edges
    have no gradient. Places count from 0, in the source as in the target; the article does not say from where.

    A step of local-m whose window lies behind the end of the source sees nothing and reads 0.

    Attributes:
        score: for queries (n) and states (E).
        normalize: a name of :mod:`regard.normalize`.
        reach: D, where there is a window.
        place: what says p, for local-p.
    """

    score: Score
    normalize: str = "softmax"
    reach: int | None = None
    place: Place | None = None

    def remember(self, states: Tensor, lengths: Tensor) -> Memory:
        """``states`` (B, S, E) of sources of ``lengths`` (B,), with what the score needs of them done once."""
        h = states.unsqueeze(1)
        return Memory(h, self.score.keys(h).to(h.dtype), lengths)

    def read(self, queries: Tensor, memory: Memory, steps: Tensor | None = None) -> Tensor:
        """c (B, L, E), asked by ``queries`` (B, L, n) of the target's ``steps`` (B, L), which only local-m needs."""
        with torch.autocast(queries.device.type, enabled=False):  # it is little work, and rounding blurs a look
            if self.place is not None:
                return (self._weights(queries, memory, steps) @ memory.states).squeeze(1)
            seen, _ = self._seen(queries, memory, steps)
            q, score = queries.unsqueeze(1), self.score.keyed
            return attend(q, memory.keys, memory.states, score=score, normalize=self.normalize, mask=seen).squeeze(1)

    def weights(self, queries: Tensor, memory: Memory, steps: Tensor | None = None) -> Tensor:
        """a (B, L, S), exactly 0 on padding and outside of a window."""
        with torch.autocast(queries.device.type, enabled=False):
            return self._weights(queries, memory, steps).squeeze(1)

    def _weights(self, queries: Tensor, memory: Memory, steps: Tensor | None) -> Tensor:
        seen, distance = self._seen(queries, memory, steps)
        q, score = queries.unsqueeze(1), self.score.keyed
        w = weights(q, memory.keys, score=score, normalize=self.normalize, mask=seen)  # (B, 1, L, S)
        if distance is None or self.reach is None:
            return w
        return w * torch.exp(distance.square() / (-2 * (self.reach / 2) ** 2))

    def _seen(self, queries: Tensor, memory: Memory, steps: Tensor | None) -> tuple[Mask, Tensor | None]:
        """Which places may be looked at, and for local-p how far they are (B, 1, L, S)."""
        inside = padding(memory.lengths)
        if self.reach is None:
            return inside, None
        centre = steps if self.place is None else self.place(queries, memory.lengths)
        assert centre is not None, "a window that follows the target needs its steps"
        places = torch.arange(memory.states.shape[-2], device=queries.device)
        distance = (places - centre.unsqueeze(-1)).unsqueeze(1)  # (B, 1, L, S)
        seen = inside & dense(distance.abs() <= self.reach)
        return seen, None if self.place is None else distance


def scored(name: str, query: int, key: int, width: int) -> Score:
    """The score of that name for queries and keys of these widths; ``width`` is that of a hidden layer, if it has one.

    Raises:
        RegardError: a dot product of unequal widths.
    """
    if name == "additive":
        return Additive(query, key, width)
    if name == "concat":
        return Concat(query, key, width)
    score = Dot() if name == "dot" else General(query, key)
    score.check_widths(query, key)
    return score


def full(x: Tensor) -> Tensor:
    """In float32 or wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
