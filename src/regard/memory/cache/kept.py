"""Pairs as a store keeps them, taken out when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.memory.cache.buffer import Parts
from regard.memory.cache.stores import AsGiven, Store


@dataclass(frozen=True)
class Kept:
    """Keys and values (B, G, S, ·) as ``store`` keeps them, of numbers of ``dtype``."""

    k: Parts
    v: Parts
    store: Store
    dtype: torch.dtype

    @classmethod
    def given(cls, k: Tensor, v: Tensor) -> Kept:
        return cls((k,), (v,), AsGiven(), k.dtype)

    @property
    def heads(self) -> int:
        return self.k[0].shape[1]

    @property
    def length(self) -> int:
        return self.k[0].shape[2]

    def numbers(self) -> tuple[Tensor, Tensor]:
        """The keys and the values."""
        return self.store.take(self.k, self.dtype), self.store.take(self.v, self.dtype)

    def at(self, piece: slice, row: slice = slice(None)) -> Kept:
        """A piece of the pairs, of some rows."""
        if piece == slice(0, self.length) and row == slice(None):
            return self
        start, length = piece.start, piece.stop - piece.start
        k, v = (tuple(x.narrow(2, start, length) for x in parts) for parts in (self.k, self.v))
        if row != slice(None):
            k, v = (tuple(x[row] for x in parts) for parts in (k, v))
        return Kept(k, v, self.store, self.dtype)
