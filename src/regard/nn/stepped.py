"""One layer of an LSTM that goes a whole sequence or one step at a time, without peepholes or with them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["PeepholeLSTM", "SteppedLSTM", "walked"]

State = tuple[Tensor, Tensor]


class SteppedLSTM(nn.LSTM):
    """:class:`torch.nn.LSTM` of one layer, batch first, that can also take a single step."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__(inputs, hidden, batch_first=True)

    def step(self, x: Tensor, state: State) -> State:
        """x (B, inputs) and (h, c), each (B, hidden) → the next (h, c)."""
        h, c = torch.lstm_cell(x, state, *self.all_weights[0])
        return h, c

    def whole(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """x (B, L, inputs) → every h (B, L, hidden), and the last (h, c)."""
        if not x.shape[1]:
            return x.new_zeros(*x.shape[:2], self.hidden_size), state
        found, (h, c) = self(x, (state[0].unsqueeze(0).contiguous(), state[1].unsqueeze(0).contiguous()))
        return found, (h[0], c[0])


class PeepholeLSTM(nn.Module):
    """An LSTM whose gates also see the cell, each unit its own (Gers et al. 2002), as Graves 2013 has it:

    i = σ(W x + U h + p_i c + b), f = σ(… + p_f c), c' = f c + i tanh(W x + U h + b), o = σ(… + p_o c'), h' = o tanh c'.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = inputs, hidden
        self.of_input, self.of_hidden = nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.peepholes = nn.Parameter(torch.empty(3, hidden).uniform_(-1, 1) / math.sqrt(hidden))

    def step(self, x: Tensor, state: State) -> State:
        """x (B, inputs) and (h, c), each (B, hidden) → the next (h, c)."""
        return self._after(self.of_input(x), state)

    def whole(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """x (B, L, inputs) → every h (B, L, hidden), and the last (h, c)."""
        found = []
        for given in self.of_input(x).unbind(1):
            state = self._after(given, state)
            found.append(state[0])
        return torch.stack(found, 1) if found else x.new_zeros(*x.shape[:2], self.hidden_size), state

    def _after(self, given: Tensor, state: State) -> State:
        h, c = state
        i, f, g, o = (given + self.of_hidden(h)).chunk(4, -1)
        seen_i, seen_f, seen_o = self.peepholes
        c = (f + seen_f * c).sigmoid() * c + (i + seen_i * c).sigmoid() * g.tanh()
        return (o + seen_o * c).sigmoid() * c.tanh(), c


def walked(layer: SteppedLSTM | PeepholeLSTM, x: Tensor, state: State, valid: Tensor | None) -> tuple[Tensor, State]:
    """A whole sequence, where a row takes no step wherever ``valid`` (B, L) is False: its state stays."""
    if valid is None:
        return layer.whole(x, state)
    found = []
    for t, given in enumerate(x.unbind(1)):
        h, c = layer.step(given, state)
        at = valid[:, t, None]
        state = torch.where(at, h, state[0]), torch.where(at, c, state[1])
        found.append(state[0])
    return torch.stack(found, 1) if found else layer.whole(x, state)[0], state
