"""Where queries and keys stand: the four indices (b, h, i, j) over which masks and position biases are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.errors import RegardError

Anchor = Literal["start", "end"] | None


@dataclass(frozen=True)
class Grid:
    """Index tensors that broadcast to (B, H, L, S), and the whole lengths they are part of.

    ``b`` (B, 1, 1, 1), ``h`` (1, H, 1, 1), ``i`` (1, 1, L, 1) and ``j`` (1, 1, 1, S) are integer tensors. A tile of the
    grid keeps ``L`` and ``S`` of the whole, because an anchor is a statement about the whole.
    """

    b: Tensor
    h: Tensor
    i: Tensor
    j: Tensor
    L: int
    S: int

    @classmethod
    def of(cls, B: int, H: int, L: int, S: int, device: torch.device | str | None = None) -> Grid:
        """The whole grid of a read with B batch rows, H heads, L queries and S keys."""
        return cls(
            b=torch.arange(B, device=device).view(B, 1, 1, 1),
            h=torch.arange(H, device=device).view(1, H, 1, 1),
            i=torch.arange(L, device=device).view(1, 1, L, 1),
            j=torch.arange(S, device=device).view(1, 1, 1, S),
            L=L,
            S=S,
        )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S) of the indices held, which are fewer than the whole in a tile."""
        return self.b.shape[0], self.h.shape[1], self.i.shape[2], self.j.shape[3]

    def rows(self, start: int, stop: int) -> Grid:
        """The band of queries ``start ≤ i < stop``, over all keys."""
        return Grid(self.b, self.h, self.i[:, :, start:stop], self.j, self.L, self.S)

    def query_places(self, anchor: Anchor, who: str) -> Tensor:
        """Places of the queries on the keys' own ruler: i, or i + S − L when the last query is the last key.

        ``who`` names the part that asks, for the error when L ≠ S and nobody said which end the two share.
        """
        if anchor not in ("start", "end", None):
            raise RegardError(f'{who}: anchor is {anchor!r}, wanted "start", "end" or None')
        if self.L == self.S or anchor == "start":
            return self.i
        if anchor == "end":
            return self.i + (self.S - self.L)
        raise RegardError(
            f"{who}: L = {self.L} queries and S = {self.S} keys differ, so say which ends meet: "
            'anchor="end" (the last query stands at the last key: decoding with a cache) or '
            'anchor="start" (the first query stands at the first key)'
        )
