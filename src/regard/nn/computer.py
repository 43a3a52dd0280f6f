"""A differentiable neural computer: an LSTM that writes and reads a memory beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.memory.differentiable import (
    Asking,
    DifferentiableComputer,
    DifferentiableState,
    Writing,
    interface,
    interface_width,
)
from regard.memory.readings import joined, where_valid
from regard.reading import Reading


class ComputerState(NamedTuple):
    """What a computer knows after a step."""

    hidden: Tensor
    """h, (B, layers, hidden)."""
    cell: Tensor
    """The LSTM's cells, (B, layers, hidden)."""
    found: Tensor
    """r, (B, R, W): what the heads read."""
    memory: DifferentiableState
    """The memory, links and all."""


class Computer(nn.Module):
    """y_t = W_y [h^1; …; h^n] + W_r [r^1; …; r^R], h = LSTM([x_t; r_{t−1}]), r read from a memory that h writes.

    The controller sees x and what was read in the step before; its layers together emit the interface vector of
    W·R + 3W + 5R + 3 numbers (Graves et al. 2016, Methods, "Controller network" and "Interface parameters").

    Args:
        inputs: width of x.
        outputs: width of y.
        memory: ``DifferentiableComputer(slots, width, reads)``.
        hidden: width of an LSTM layer.
        layers: how many there are; each sees x, the reads and the layer below.

    ``forward`` gives y (B, L, outputs) and the state after it, from which the next chunk goes on: any split of a
    sequence gives the same. Steps where ``valid`` (B, L) is False change nothing and give 0.

    >>> import torch
    >>> from regard.memory import DifferentiableComputer
    >>> layer = Computer(inputs=3, outputs=2, memory=DifferentiableComputer(slots=7, width=5, reads=2), hidden=11)
    >>> y, state = layer(torch.randn(4, 6, 3))
    >>> y.shape, state.memory.link.shape
    (torch.Size([4, 6, 2]), torch.Size([4, 7, 7]))
    >>> y, state = layer(torch.randn(4, 1, 3), state)  # one step more
    >>> layer.read(torch.randn(4, 6, 3)).peak_at.shape  # where each head read, (B, R, L)
    torch.Size([4, 2, 6])
    """

    def __init__(
        self, inputs: int, outputs: int, memory: DifferentiableComputer, *, hidden: int, layers: int = 1
    ) -> None:
        super().__init__()
        for name, size in (("inputs", inputs), ("outputs", outputs), ("hidden", hidden), ("layers", layers)):
            if size < 1:
                raise RegardError(f"Computer: {name} is {size}, wanted at least 1")
        self.inputs, self.outputs, self.memory = inputs, outputs, memory
        found = memory.reads * memory.width
        below = [inputs + found + (hidden if layer else 0) for layer in range(layers)]
        self.controller = nn.ModuleList([nn.LSTMCell(width, hidden) for width in below])
        self.interface = nn.Linear(layers * hidden, interface_width(memory.width, memory.reads))
        self.from_controller = nn.Linear(layers * hidden, outputs)
        self.from_memory = nn.Linear(found, outputs, bias=False)

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> ComputerState:
        """A computer that has seen nothing: all zero. Dtype and device are the parameters' when left out."""
        like = self.interface.weight
        dtype, device = like.dtype if dtype is None else dtype, like.device if device is None else device
        hidden = torch.zeros(
            batch, len(self.controller), like.shape[1] // len(self.controller), dtype=dtype, device=device
        )
        found = torch.zeros(batch, self.memory.reads, self.memory.width, dtype=dtype, device=device)
        return ComputerState(hidden, hidden, found, self.memory.reset(batch, dtype=dtype, device=device))

    def forward(
        self, x: Tensor, state: ComputerState | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, ComputerState]:
        """y (B, L, outputs) for x (B, L, inputs), and the state after it."""
        state = self._checked(x, state, valid)
        answers = []
        for t in range(x.shape[1]):
            answer, state = self.step(x[:, t], state, valid=None if valid is None else valid[:, t])
            answers.append(answer)
        return torch.stack(answers, 1) if answers else x.new_empty(x.shape[0], 0, self.outputs), state

    def read(self, x: Tensor, state: ComputerState | None = None, *, valid: Tensor | None = None) -> Reading:
        """What the heads read at every step, (B, R, L, W), and what their weights were like."""
        state = self._checked(x, state, valid)
        if not x.shape[1]:
            raise RegardError("Computer: x has no steps, so there is no reading; wanted at least one")
        readings = []
        for t in range(x.shape[1]):
            there = None if valid is None else valid[:, t]
            _, state = self.step(x[:, t], state, valid=there)
            reading = self.memory.read(state.memory)
            readings.append(where_valid(reading, None if there is None else there.unsqueeze(-1)))
        return joined(readings)

    def step(
        self,
        x: Tensor,
        state: ComputerState,
        *,
        valid: Tensor | None = None,
        asking: Callable[[Asking], Asking] | None = None,
    ) -> tuple[Tensor, ComputerState]:
        """One step: y (B, outputs) for x (B, inputs). ``asking`` may change what the heads are asked, as an ablation
        does; ``valid`` is (B,)."""
        hidden, cell = self.control(x, state)
        writing, asked = self.emit(hidden)
        memory = self.memory.write(state.memory, writing, valid=valid)
        memory = self.memory.move(memory, asked if asking is None else asking(asked), valid=valid)
        found = (memory.looking @ memory.rows).to(x.dtype)
        answer = self.from_controller(hidden.flatten(1)) + self.from_memory(found.flatten(1))
        if valid is not None:
            at = valid.view(-1, 1, 1)
            hidden, cell, found = (
                torch.where(at, new, old)
                for new, old in ((hidden, state.hidden), (cell, state.cell), (found, state.found))
            )
            answer = torch.where(valid.unsqueeze(-1), answer, 0)
        return answer, ComputerState(hidden, cell, found, memory)

    def reorder(self, state: ComputerState, index: Tensor) -> ComputerState:
        """The state whose batch row b is row ``index[b]`` of this one."""
        memory = self.memory.reorder(state.memory, index)
        hidden, cell, found = (x.index_select(0, index) for x in (state.hidden, state.cell, state.found))
        return ComputerState(hidden, cell, found, memory)

    def control(self, x: Tensor, state: ComputerState) -> tuple[Tensor, Tensor]:
        """The LSTM's h and cells, (B, layers, hidden), from x (B, inputs) and what was read in the step before."""
        seen = torch.cat([x, state.found.flatten(1)], -1)
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for n, layer in enumerate(self.controller):
            given = torch.cat([seen, hiddens[-1]], -1) if hiddens else seen
            h, c = layer(given, (state.hidden[:, n], state.cell[:, n]))
            hiddens.append(h)
            cells.append(c)
        return torch.stack(hiddens, 1), torch.stack(cells, 1)

    def emit(self, hidden: Tensor) -> tuple[Writing, Asking]:
        """What the controller tells its memory, of h (B, layers, hidden)."""
        return interface(self.interface(hidden.flatten(1)), self.memory.width, self.memory.reads)

    def _checked(self, x: Tensor, state: ComputerState | None, valid: Tensor | None) -> ComputerState:
        if x.dim() != 3 or x.shape[-1] != self.inputs or not x.is_floating_point():
            raise RegardError(f"Computer: x is {tuple(x.shape)} of {x.dtype}, wanted floats (B, L, {self.inputs})")
        if valid is not None and (valid.dtype != torch.bool or valid.shape != x.shape[:2]):
            raise RegardError(
                f"Computer: valid is {tuple(valid.shape)} of {valid.dtype}, wanted booleans {tuple(x.shape[:2])}, True "
                "where there is a step"
            )
        if state is not None and state.hidden.shape[0] != x.shape[0]:
            raise RegardError(
                f"Computer: x has {x.shape[0]} rows and the state {state.hidden.shape[0]}, wanted as many"
            )
        return self.reset(x.shape[0], dtype=x.dtype, device=x.device) if state is None else state
