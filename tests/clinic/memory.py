"""What the clinic's decoder keeps between calls, with the verbs of Hugging Face's caches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Memory:
    """Keys and values of one layer, in the order they came."""

    def __init__(self) -> None:
        self.seen = 0
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Write, and return what may be read: keys, values, and the keys' places."""
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        self.seen += k.shape[2]
        return self.k, self.v, torch.arange(self.seen - self.k.shape[2], self.seen)

    def crop(self, length: int) -> None:
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k[:, :, :length], self.v[:, :, :length]
            self.seen = min(self.seen, length)

    def reorder(self, rows: Tensor) -> None:
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k[rows], self.v[rows]


class Cache:
    """The memories of all layers, with the verbs of Hugging Face's caches."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self.memories = list(memories)

    def get_seq_length(self) -> int:
        return self.memories[0].seen

    def crop(self, max_length: int) -> None:
        for memory in self.memories:
            memory.crop(max_length)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        for memory in self.memories:
            memory.reorder(beam_idx)
