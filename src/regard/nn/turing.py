"""The Neural Turing Machine: a recurrent controller that moves the heads of a memory (Graves et al. 2014)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError
from regard.memory.turing import Address, TuringMemory, TuringState

__all__ = ["MachineState", "NeuralTuringMachine"]


class MachineState(NamedTuple):
    """What a machine carries from one step to the next."""

    memory: TuringState
    hidden: Tensor
    """(B, hidden)"""
    cell: Tensor
    """(B, hidden)"""
    read: Tensor
    """What was read last, (B, R · D)."""


class NeuralTuringMachine(nn.Module):
    """h_t = LSTM([x_t, r_{t−1}], h_{t−1}); the heads are told by a linear map of h_t; y_t = W [h_t, r_t] + b.

    Every head gets a key (tanh), a strength β (softplus), a gate g (sigmoid), moves s (softmax) and a sharpness γ
    (1 + softplus), a writing head what it erases (sigmoid) and adds (tanh). The memory is used in the order of
    :meth:`TuringMemory.step`. It starts as :meth:`TuringMemory.reset` has it, constant; the controller and what was
    "read" before the first step start at numbers that are learnt.

    >>> import torch
    >>> machine = NeuralTuringMachine(inputs=3, outputs=2, hidden=7, memory=TuringMemory(slots=11, width=5))
    >>> y, state = machine(torch.zeros(4, 6, 3))
    >>> y.shape, state.memory.matrix.shape
    (torch.Size([4, 6, 2]), torch.Size([4, 11, 5]))
    """

    def __init__(self, inputs: int, outputs: int, hidden: int, memory: TuringMemory) -> None:
        super().__init__()
        for name, value in (("inputs", inputs), ("outputs", outputs), ("hidden", hidden)):
            if type(value) is not int or value < 1:
                raise RegardError(f"NeuralTuringMachine: {name} is {value!r}, wanted a whole number of at least 1")
        self.memory = memory
        read = memory.reads * memory.width
        self._of_head = memory.width + 3 + 2 * memory.reach + 1
        self.controller = nn.LSTMCell(inputs + read, hidden)
        self.tell = nn.Linear(hidden, memory.heads * self._of_head + 2 * memory.writes * memory.width)
        self.answer = nn.Linear(hidden + read, outputs)
        self.first = nn.Parameter(torch.zeros(2 * hidden + read))

    def reset(self, batch: int = 1) -> MachineState:
        """The state before the first step."""
        first = self.first
        memory = self.memory.reset(batch, dtype=first.dtype, device=first.device)
        n = self.controller.hidden_size
        hidden, cell, read = first.expand(batch, -1).split([n, n, first.numel() - 2 * n], -1)
        return MachineState(memory, hidden.tanh(), cell, read.tanh())

    def step(self, x: Tensor, state: MachineState) -> tuple[Tensor, MachineState]:
        """One step: x (B, inputs) → [h_t, r_t] (B, hidden + R · D), of which ``answer`` makes the output."""
        memory = self.memory
        hidden, cell = self.controller(torch.cat([x, state.read], -1), (state.hidden, state.cell))
        to, erase, add = self.orders(hidden)
        kept = memory.write(memory.move(state.memory, to), erase, add)
        read = (kept.reading @ kept.matrix).flatten(1).to(hidden.dtype)
        return torch.cat([hidden, read], -1), MachineState(kept, hidden, cell, read)

    def orders(self, hidden: Tensor) -> tuple[Address, Tensor, Tensor]:
        """What the heads are told by h (B, hidden): where to go, and what the writing ones erase and add."""
        B, H, D, W = hidden.shape[0], self.memory.heads, self.memory.width, self.memory.writes
        heads, erase, add = self.tell(hidden).split([H * self._of_head, W * D, W * D], -1)
        key, gate, pair, moves = heads.view(B, H, -1).split([D, 1, 2, 2 * self.memory.reach + 1], -1)
        pair = F.softplus(pair)
        to = Address(key.tanh(), pair[..., 0], gate.sigmoid().squeeze(-1), moves.softmax(-1), 1 + pair[..., 1])
        return to, erase.sigmoid().view(B, W, D), add.tanh().view(B, W, D)

    def forward(
        self, inputs: Tensor, state: MachineState | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, MachineState]:
        """All steps of ``inputs`` (B, L, inputs): outputs (B, L, outputs), and the state after the last.

        Where ``valid`` (B, L) is False a row takes no step: its state stays, its output is 0.
        """
        self._check(inputs, state, valid)
        state = self.reset(inputs.shape[0]) if state is None else state
        if valid is not None:  # what stands at no step must not come into gradients either
            inputs = inputs.masked_fill(~valid.unsqueeze(-1), 0)
        found = []
        for t, x in enumerate(inputs.unbind(1)):
            made, after = self.step(x, state)
            state = after if valid is None else _where(valid[:, t], after, state)
            found.append(made)
        outputs: Tensor = (
            self.answer(torch.stack(found, 1))
            if found
            else inputs.new_zeros(*inputs.shape[:2], self.answer.out_features)
        )
        return outputs if valid is None else outputs.masked_fill(~valid.unsqueeze(-1), 0), state

    def _check(self, inputs: Tensor, state: MachineState | None, valid: Tensor | None) -> None:
        wanted = self.controller.input_size - self.memory.reads * self.memory.width
        if inputs.dim() != 3 or inputs.shape[-1] != wanted:
            raise RegardError(f"NeuralTuringMachine: inputs are {tuple(inputs.shape)}, wanted (B, L, {wanted})")
        if state is not None and state.hidden.shape[0] != inputs.shape[0]:
            raise RegardError(
                f"NeuralTuringMachine: state is for {state.hidden.shape[0]} rows, inputs are for {inputs.shape[0]}; "
                "give the state of these rows, or none"
            )
        if valid is not None and (valid.shape != inputs.shape[:2] or valid.dtype != torch.bool):
            raise RegardError(
                f"NeuralTuringMachine: valid is {tuple(valid.shape)} of {valid.dtype}, wanted booleans "
                f"{tuple(inputs.shape[:2])}, True where there is a step"
            )


def _where(valid: Tensor, after: MachineState, before: MachineState) -> MachineState:
    """The rows that took a step from ``after``, the others as they were."""

    def rows(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(valid.view(-1, *[1] * (a.dim() - 1)), a, b)

    memory = TuringState(*(rows(a, b) for a, b in zip(after.memory, before.memory, strict=True)))
    return MachineState(memory, *(rows(a, b) for a, b in zip(after[1:], before[1:], strict=True)))
