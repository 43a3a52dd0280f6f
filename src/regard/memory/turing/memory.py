"""The memory of a Neural Turing Machine: a matrix, and heads that were somewhere (Graves, Wayne & Danihelka 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.base import Cost, Memory
from regard.memory.readings import by_weights
from regard.memory.turing.addressing import Address, address
from regard.reading import Reading

__all__ = ["TuringMemory", "TuringState"]


class TuringState(NamedTuple):
    """What is written, and where the heads are."""

    matrix: Tensor
    """M (B, S, D)."""
    reading: Tensor
    """Weights of the reading heads (B, R, S)."""
    writing: Tensor
    """Weights of the writing heads (B, W, S)."""


@dataclass(frozen=True)
class TuringMemory(Memory[TuringState]):
    """``slots`` rows of ``width`` numbers; heads read and write all of them, each by its weight.

    A step has three parts, and :meth:`step` takes them in this order, so that a read sees what was just written:

    1. :meth:`move`: w_t = address(M_{t−1}, w_{t−1}, to), all heads at once, by the memory as it was;
    2. :meth:`write`: M_t = M_{t−1} ∘ Π_h (1 − w_h e_hᵀ) + Σ_h w_h a_hᵀ, all that is erased before all that is added;
    3. :meth:`read`: r_h = Σ_i w_h(i) M_t(i).

    Who wants to read first calls them in another order. ``reads`` and ``writes`` are how many heads, ``reach`` is how
    far a head can move in a step. An empty memory is 1e-6 everywhere, its heads are at slot 0.

    A state is kept in float32 where half precision is asked for: weights are sums of many small steps. What is given is
    taken into the state's type, and what is read comes in it.

    >>> memory = TuringMemory(slots=5, width=2)
    >>> move_on = Address(torch.zeros(1, 2, 2), torch.ones(1, 2), torch.zeros(1, 2),
    ...                   torch.tensor([0.0, 0.0, 1.0]).expand(1, 2, 3), torch.ones(1, 2))
    >>> state = memory.write(memory.reset(), torch.ones(1, 1, 2), torch.tensor([[[3.0, 4.0]]]))
    >>> memory.read(state).output.tolist()
    [[[3.0, 4.0]]]
    >>> memory.read(memory.move(state, move_on)).peak_at.tolist()
    [[1]]
    """

    slots: int
    width: int
    reads: int = 1
    writes: int = 1
    reach: int = 1

    def __post_init__(self) -> None:
        for name, least in (("slots", 1), ("width", 1), ("reads", 1), ("writes", 1), ("reach", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise RegardError(f"TuringMemory: {name} is {value!r}, wanted a whole number of at least {least}")
        if self.slots < 2 * self.reach + 1:
            raise RegardError(
                f"TuringMemory: reach is {self.reach} in {self.slots} slots, so that two moves come to one slot; "
                f"wanted at least {2 * self.reach + 1} slots"
            )

    @property
    def heads(self) -> int:
        """How many heads there are, those that read before those that write."""
        return self.reads + self.writes

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> TuringState:
        """M = 1e-6, every head at slot 0."""
        kept = torch.promote_types(dtype or torch.get_default_dtype(), torch.float32)
        at = torch.zeros(batch, self.heads, self.slots, dtype=kept, device=device)
        at[..., 0] = 1.0
        matrix = torch.full((batch, self.slots, self.width), 1e-6, dtype=kept, device=device)
        return TuringState(matrix, at[:, : self.reads], at[:, self.reads :])

    def move(self, state: TuringState, to: Address) -> TuringState:
        """All heads moved, R that read and then W that write: ``to`` has tensors (B, R + W, …)."""
        B = self._batch(state)
        wanted = ((B, self.heads, self.width), (B, self.heads), (B, self.heads))
        shapes = (*wanted, (B, self.heads, 2 * self.reach + 1), (B, self.heads))
        for name, x, shape in zip(Address._fields, to, shapes, strict=True):
            _check(f"to.{name}", x, shape)
        dtype = state.matrix.dtype
        weights = address(
            state.matrix, torch.cat([state.reading, state.writing], 1), Address(*(x.to(dtype) for x in to))
        )
        return TuringState(state.matrix, weights[:, : self.reads], weights[:, self.reads :])

    def write(self, state: TuringState, erase: Tensor, add: Tensor) -> TuringState:
        """What is erased (e in [0, 1]) and added by the writing heads where they are: (B, W, D) each."""
        B = self._batch(state)
        _check("erase", erase, (B, self.writes, self.width))
        _check("add", add, (B, self.writes, self.width))
        matrix, weights = state.matrix, state.writing
        erase, add = erase.to(matrix.dtype), add.to(matrix.dtype)
        kept = 1 - weights[:, :1].mT * erase[:, :1]  # (B, S, D)
        for h in range(1, self.writes):
            kept = kept * (1 - weights[:, h : h + 1].mT * erase[:, h : h + 1])
        return state._replace(matrix=torch.baddbmm(matrix * kept, weights.mT, add))

    def read(self, state: TuringState) -> Reading:
        """What the reading heads read where they are: output (B, R, D)."""
        self._batch(state)
        return by_weights(state.reading, state.matrix, engine="turing")

    def step(self, state: TuringState, to: Address, erase: Tensor, add: Tensor) -> tuple[Reading, TuringState]:
        """Heads move, write, then read what is written now."""
        state = self.write(self.move(state, to), erase, add)
        return self.read(state), state

    def cost(self, length: int) -> Cost:
        """The same at every step, however much was written: every head looks at every slot."""
        S, D = self.slots, self.width
        moved = self.heads * S * (2 * D + 4 * self.reach + 10)
        flops = 2 * S * D + moved + S * D * (5 * self.writes) + 2 * self.reads * S * D
        return Cost(float(flops), 4.0 * (3 * S * D + 2 * self.heads * S))

    def _batch(self, state: TuringState) -> int:
        B = state.matrix.shape[0]
        _check("state.matrix", state.matrix, (B, self.slots, self.width))
        _check("state.reading", state.reading, (B, self.reads, self.slots))
        _check("state.writing", state.writing, (B, self.writes, self.slots))
        return B


def _check(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    if x.shape != shape or not x.is_floating_point():
        raise RegardError(f"TuringMemory: {name} is {tuple(x.shape)} of {x.dtype}, wanted floating numbers {shape}")
