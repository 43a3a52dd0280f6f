"""How each kind of memory is told pairs and asked for them, as well as anyone could: addressed by who knows the keys.

Keys are unit vectors (B, G, n, D), values (B, G, n, E), questions keys that were told. A driver turns them into what
its memory takes. What is best for a memory and not to be known beforehand, how sharply to ask or how fast to forget, is
a number of ``settings``, and whoever measures takes the one that serves best.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.memory import Memory, PairMemory

State = Any


class Driver(ABC):
    """A memory with somebody who addresses it."""

    memory: Memory[Any]
    settings: tuple[float, ...] = (1.0,)

    def start(self, batch: int) -> State:
        return self.memory.reset(batch)

    def nbytes(self, state: State) -> int:
        """What it takes in memory, spare room included."""
        reserved: Callable[[State], int] = getattr(self.memory, "reserved", self.memory.nbytes)
        return reserved(state)

    @abstractmethod
    def tell(self, state: State, k: Tensor, v: Tensor, setting: float) -> State:
        """The state after n pairs in their order."""

    @abstractmethod
    def ask(self, state: State, q: Tensor, setting: float) -> Tensor:
        """What is read for m questions, (B, G, m, E); the state stays."""

    @abstractmethod
    def decode(self, state: State, q: Tensor, k: Tensor, v: Tensor) -> State:
        """One token as a decoder takes it: one pair written, one question read."""


@dataclass(frozen=True)
class Pairs(Driver):
    """A memory of pairs. Keys and questions are ``sharp(setting)`` long, and ``told`` says what else a write takes."""

    memory: PairMemory[Any]
    settings: tuple[float, ...] = (1.0,)
    sharp: Callable[[float], tuple[float, float]] = lambda setting: (setting, setting)
    told: Callable[[Tensor, float], dict[str, Tensor]] = lambda v, setting: {}
    chunk: int = 4096

    def tell(self, state: State, k: Tensor, v: Tensor, setting: float) -> State:
        length, _ = self.sharp(setting)
        for at in range(0, k.shape[2], self.chunk):
            there = slice(at, at + self.chunk)
            here = v[:, :, there]
            state = self.memory.write(state, k[:, :, there] * length, here, **self.told(here, setting))
        return state

    def ask(self, state: State, q: Tensor, setting: float) -> Tensor:
        return self.memory.read(state, q * self.sharp(setting)[1]).output

    def decode(self, state: State, q: Tensor, k: Tensor, v: Tensor) -> State:
        return self.memory.step(state, q, k, v, **self.told(v, self.settings[0]))[1]


@dataclass(frozen=True)
class Turing(Driver):
    """A Turing memory whose rows are pairs: written slot by slot, the oldest over again, read by content.

    To write, the head moves on by one slot and erases all it finds; to read, heads go where the key is, and the row's
    second half is the value.
    """

    memory: Any  # TuringMemory
    strength: float = 200.0

    def tell(self, state: State, k: Tensor, v: Tensor, setting: float) -> State:
        rows = _rows(k, v)
        for t in range(rows.shape[1]):
            state = self._written(state, rows[:, t : t + 1])
        return state

    def _written(self, state: State, row: Tensor) -> State:
        """``row`` (B, 1, W) at the writing head's slot; then the head moves on, and those that read stay."""
        return self.memory.write(self._moved(self.memory, state, torch.zeros_like(row), 0.0), torch.ones_like(row), row)

    def _moved(self, memory: Any, state: State, keys: Tensor, gate: float) -> State:
        """Heads that read go to ``keys`` (B, R, W) where ``gate`` is 1, and stay where it is 0; who writes moves on."""
        from regard.memory.turing import Address

        B, R, W = keys.shape
        gates = torch.tensor([gate] * R + [0.0]).expand(B, -1)
        stay, on = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
        to = Address(
            torch.cat([keys, keys.new_zeros(B, 1, W)], 1),
            torch.full((B, R + 1), self.strength),
            gates,
            torch.tensor([stay] * R + [on]).expand(B, -1, -1),
            torch.ones(B, R + 1),
        )
        return memory.move(state, to)

    def ask(self, state: State, q: Tensor, setting: float) -> Tensor:
        asked = _rows(q, torch.zeros_like(q))
        m = asked.shape[1]
        many = replace(self.memory, reads=m)
        state = state._replace(reading=state.reading[:, :1].expand(-1, m, -1))
        return _values(many.read(self._moved(many, state, asked, 1.0)).output, q)

    def decode(self, state: State, q: Tensor, k: Tensor, v: Tensor) -> State:
        row, asked = _rows(k, v), _rows(q, torch.zeros_like(q))
        state = self.memory.write(self._moved(self.memory, state, asked, 1.0), torch.ones_like(row), row)
        self.memory.read(state)
        return state


@dataclass(frozen=True)
class Computer(Driver):
    """A differentiable computer whose rows are pairs: written where it is free, read by content.

    Once every place is taken, its reading head looks for the oldest pair by its key, and frees it for the next.
    """

    memory: Any  # DifferentiableComputer
    strength: float = 200.0

    def tell(self, state: State, k: Tensor, v: Tensor, setting: float) -> State:
        rows, N = _rows(k, v), self.memory.slots
        keys = _rows(k, torch.zeros_like(v))
        for t in range(rows.shape[1]):
            writing = self._writing(rows[:, t], free=float(t >= N))
            if t < N - 1:
                state = self.memory.write(state, writing)
            else:
                state = self.memory.step(state, writing, self._asking(keys[:, t + 1 - N : t + 2 - N]))[1]
        return state

    def _writing(self, row: Tensor, free: float) -> Any:
        from regard.memory.differentiable import Writing

        B, W = row.shape
        one = torch.ones(B)
        return Writing(row, one, torch.ones(B, W), row, torch.full((B, self.memory.reads), free), one, one)

    def _asking(self, keys: Tensor) -> Any:
        from regard.memory.differentiable import Asking

        B, R, _ = keys.shape
        by_content = torch.tensor([0.0, 1.0, 0.0]).expand(B, R, 3)
        return Asking(keys, torch.full((B, R), self.strength), by_content)

    def ask(self, state: State, q: Tensor, setting: float) -> Tensor:
        asked = _rows(q, torch.zeros_like(q))
        many = replace(self.memory, reads=asked.shape[1])
        state = state._replace(looking=state.looking[:, :1].expand(-1, asked.shape[1], -1))
        return _values(many.read(state, self._asking(asked)).output, q)

    def decode(self, state: State, q: Tensor, k: Tensor, v: Tensor) -> State:
        asked = _rows(q, torch.zeros_like(q))
        return self.memory.step(state, self._writing(_rows(k, v)[:, 0], free=1.0), self._asking(asked))[1]


def _rows(k: Tensor, v: Tensor) -> Tensor:
    """Pairs of all heads as rows, (B, n, G (D + E))."""
    return torch.cat([k, v], -1).transpose(1, 2).flatten(2)


def _values(rows: Tensor, q: Tensor) -> Tensor:
    """The values in rows (B, …, m, G (D + E)), as (B, G, m, E)."""
    B, G, m, D = q.shape
    return rows.reshape(B, m, G, -1).transpose(1, 2)[..., D:]
