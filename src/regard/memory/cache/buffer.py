"""Room that states of a cache share: the newest writes in place, an older one in room of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.memory.cache.chunk import Chunk, Counts, same
from regard.memory.cache.large import in_large_pages

Parts = tuple[Tensor, ...]


class Buffer:
    """Tensors (B, G, C, ·) with room for C pairs a row, and who may write and read them.

    A state knows its number; the newest may write behind its own end, where no other state looks. ``cuts`` remembers
    where a state gave its end back to be written again, which those before it that reached further do not survive.
    """

    __slots__ = ("bare", "cuts", "graph", "newest", "parts")

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.bare = tuple(x.data for x in parts)
        #: Whether the pairs are part of a graph: then nothing is written over them.
        self.graph = any(x.requires_grad for x in parts)
        self.newest = 0
        self.cuts: list[tuple[int, Counts]] = []

    @classmethod
    def empty(cls, like: Parts, batch: int, room: int) -> Buffer:
        """Room for ``room`` pairs a row, of zeros: what is behind a row's end is hidden and must still be finite."""
        with torch.inference_mode(False):  # a tensor of inference could not be written outside of it
            made = tuple(x.new_empty(batch, x.shape[1], room, x.shape[3]) for x in like)
            for x in made:
                in_large_pages(x)
                x.zero_()
            return cls(made)

    @classmethod
    def holding(cls, old: Sequence[Tensor], room: int) -> Buffer:
        """Room for ``room`` pairs a row with a copy of ``old`` at its beginning."""
        made = cls.empty(tuple(old), old[0].shape[0], max(room, old[0].shape[2]))
        for new, x in zip(made.parts, old, strict=True):
            new.data[:, :, : x.shape[2]] = x.detach()
        return made

    @property
    def room(self) -> int:
        return self.parts[0].shape[2]

    @property
    def nbytes(self) -> int:
        return sum(x.numel() * x.element_size() for x in self.parts)

    def takes(self, number: int, stop: int, added: Parts) -> bool:
        """Whether state ``number`` may write up to ``stop`` in place: nobody else did, and no gradient is kept."""
        return number == self.newest and stop <= self.room and not self.graph and not kept_for_gradients(*added)

    def put(self, stops: Counts, chunk: Chunk, added: Parts) -> int:
        """Writes ``added`` behind each row's end; the number of the state that has them.

        By ``data``: autograd need not hear of it, because what was read before is not touched.
        """
        for x, new in zip(self.bare, added, strict=True):
            place(x, stops, chunk, new.detach() if new.requires_grad else new)
        self.newest += 1
        return self.newest

    def cut(self, stops: Counts) -> int:
        """Gives back what is behind ``stops``; the number of the state that ends there."""
        self.newest += 1
        self.cuts = [(n, s) for n, s in self.cuts if any(old < new for old, new in zip(s, stops, strict=True))]
        self.cuts.append((self.newest, stops))
        with torch.no_grad():
            for x in self.parts:
                x.narrow(2, 0, 0).zero_()  # a backward over what will be written again must raise
        return self.newest

    def holds(self, number: int, stops: Counts) -> bool:
        """Whether what state ``number`` wrote up to ``stops`` is still there."""
        for cut, at in reversed(self.cuts):
            if cut <= number:
                break
            if any(stop > end for stop, end in zip(stops, at, strict=True)):
                return False
        return True


def place(x: Tensor, stops: Counts, chunk: Chunk, new: Tensor) -> None:
    """x[b, :, stops[b] + rank] ← new[b, :, t], in place."""
    if chunk.valid is None and same(stops):
        if stops:
            x.narrow(2, stops[0], chunk.length).copy_(new)
        return
    b, t, rank = chunk.rows(x.device)
    at = rank + torch.tensor(stops, device=x.device)[b]
    x.transpose(1, 2)[b, at] = new.transpose(1, 2)[b, t]


def aligned(x: Tensor, starts: Counts, stops: Counts) -> Tensor:
    """Each row's own pairs from place 0 on; behind a shorter row's end lies anything finite."""
    held = max((z - a for a, z in zip(starts, stops, strict=True)), default=0)
    if same(starts):
        return x.narrow(2, starts[0] if starts else 0, held)
    at = torch.tensor(starts, device=x.device)[:, None] + torch.arange(held, device=x.device)
    return x.take_along_dim(at.clamp(max=x.shape[2] - 1)[:, None, :, None], 2)


def joined(x: Tensor, stops: Counts, chunk: Chunk, new: Tensor, length: int) -> Tensor:
    """Old and new pairs as one tensor that autograd knows."""
    if chunk.valid is None and same(stops):
        return torch.cat([x, new], 2)
    b, t, rank = chunk.rows(x.device)
    at = rank + torch.tensor(stops, device=x.device)[b]
    old = F.pad(x, (0, 0, 0, length - x.shape[2]))
    return old.transpose(1, 2).index_put((b, at), new.transpose(1, 2)[b, t]).transpose(1, 2)


def kept_for_gradients(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
