"""What a memory is: something that is written and read, with all it keeps in a state that its user holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.memory.given import check_index, check_pairs, check_queries
from regard.memory.readings import joined, where_valid
from regard.reading import Reading

S = TypeVar("S", bound=tuple[Any, ...])


class Cost(NamedTuple):
    """What one step takes: floating-point operations (a multiply-add is two), and bytes that must move."""

    flops: float
    bytes: float


class Memory(ABC, Generic[S]):
    """How a memory is written and read; the memory itself is the state, a named tuple.

    ``reset`` gives an empty state, ``write`` takes one and gives the next, ``read`` takes one and a query. A memory
    object is frozen parts and nothing it was told: two states of it never meet, and the same state read twice gives
    the same. What is refused is refused before anything is written.
    """

    @abstractmethod
    def reset(self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> S:
        """A state with nothing in it, for ``batch`` rows that know nothing of each other."""

    @abstractmethod
    def cost(self, length: int) -> Cost:
        """What it takes, for one batch row, to write once and read once when ``length`` things were written before."""

    def nbytes(self, state: S) -> int:
        """How many bytes the tensors of ``state`` take."""
        return sum(x.numel() * x.element_size() for x in _tensors(state))

    def reorder(self, state: S, index: Tensor) -> S:
        """The state whose batch row b is row ``index[b]`` of this one: a beam search keeps, drops and doubles rows."""
        check_index(type(self).__name__, index, self.batch(state))
        found: S = _mapped(state, index)
        return found

    @staticmethod
    def batch(state: tuple[Any, ...]) -> int:
        """How many rows ``state`` is for."""
        first = state[0]
        return (first if isinstance(first, Tensor) else next(_tensors(state))).shape[0]


class PairMemory(Memory[S]):
    """A memory of pairs in their order: a value is written under a key, a query is matched with keys.

    Keys are (B, G, L, D), values (B, G, L, E), queries (B, H, L, D), H a multiple of G. ``valid`` (B, L), True where
    there is something, says which of a chunk's pairs are there at all, so that rows of a batch have lengths of their
    own: what is not valid is not written, takes no place, and what it asks reads 0.
    """

    heads: int
    width: int
    value_width: int

    @abstractmethod
    def write(self, state: S, k: Tensor, v: Tensor, *, valid: Tensor | None = None) -> S:
        """The state after the pairs were written in their order."""

    @abstractmethod
    def read(self, state: S, q: Tensor) -> Reading:
        """What each query reads of all that was written: (B, H, L, E)."""

    def step(self, state: S, q: Tensor, k: Tensor, v: Tensor, *, valid: Tensor | None = None) -> tuple[Reading, S]:
        """Writes L pairs and reads L queries, query i after pair i and before pair i + 1.

        This is what it means, one pair after the other; a memory that knows a faster way to the same goes it.
        """
        self.check(state, q, k, v, valid)
        found = []
        for t in range(k.shape[-2]):
            here = slice(t, t + 1)
            there = None if valid is None else valid[:, here]
            state = self.write(state, k[..., here, :], v[..., here, :], valid=there)
            found.append(where_valid(self.read(state, q[..., here, :]), there))
        return joined(found), state

    def check(self, state: S, q: Tensor | None, k: Tensor, v: Tensor, valid: Tensor | None) -> None:
        """Raises, naming the argument, when a chunk does not fit this memory and this state."""
        who, batch = type(self).__name__, self.batch(state)
        check_pairs(who, k, v, (batch, self.heads), (self.width, self.value_width), valid)
        if q is not None:
            check_queries(who, q, batch, self.heads, self.width, k.shape[-2])


def _tensors(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, tuple):
        for part in state:
            yield from _tensors(part)


def _mapped(state: Any, index: Tensor) -> Any:
    if isinstance(state, Tensor):
        return state.index_select(0, index)
    if isinstance(state, tuple):
        parts = [_mapped(part, index) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state
