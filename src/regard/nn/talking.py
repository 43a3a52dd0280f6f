"""Talking heads: the heads hear each other before and after the softmax (Shazeer et al. 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.normalize import Normalizer


class TalkingHeads(nn.Module):
    """U = P_wᵀ normalise(P_lᵀ s), over the head axis: scores (B, H, L, S) → weights (B, H, L, S).

    ``before`` is P_l (H, H) and mixes scores, ``after`` is P_w (H, H) and mixes weights; both start as the identity,
    where this is plain multi-head attention. The mask is applied after P_l, because a −∞ that is mixed is −∞ for every
    head, or NaN against a weight of 0.

    P_w is free, so the result is *no distribution*: row sums of head h are the sum of column h of P_w, numbers may be
    negative, and the read leaves the hull of its values. That is what was published, not a fault. Where heads have
    different masks, a head may read what another one saw. An empty row of every head stays 0.

    >>> import torch
    >>> from regard.normalize import Softmax
    >>> talk = TalkingHeads(2)
    >>> talk.after.data = torch.tensor([[1.0, -1.0], [0.0, 1.5]])
    >>> talk(torch.zeros(1, 2, 1, 4), Softmax(), None).sum(-1).flatten().tolist()
    [1.0, 0.5]
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        if heads < 1:
            raise RegardError(f"TalkingHeads: heads is {heads}, wanted at least 1")
        self.heads = heads
        self.before = nn.Parameter(torch.eye(heads))
        self.after = nn.Parameter(torch.eye(heads))

    def forward(self, scores: Tensor, normalize: Normalizer, allowed: Tensor | None) -> Tensor:
        """``scores`` unmasked; ``allowed`` broadcasts to them, True = may look."""
        weights = self.distributions(scores, normalize, allowed)
        return torch.einsum("gh,...gij->...hij", self.after.to(weights.dtype), weights)

    def distributions(self, scores: Tensor, normalize: Normalizer, allowed: Tensor | None) -> Tensor:
        """normalise(P_lᵀ s): what P_w mixes, the last that are distributions."""
        mixed = torch.einsum("gh,...gij->...hij", self.before.to(scores.dtype), scores)
        if allowed is not None:
            mixed = mixed.masked_fill(~allowed, -torch.inf)
        weights: Tensor = normalize(mixed)
        return weights

    def extra_repr(self) -> str:
        return f"heads={self.heads}"
