"""Encoders: how a source is read, word by word, into states and into what a decoder begins with."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.translate.models.dropout import dropout
from regard.translate.models.recurrent.units import gru, lstm_step

__all__ = ["BothWays", "OneWay", "Stack", "turned"]

Embed = Callable[[Tensor], Tensor]  # ids (…, B) to vectors (…, B, m)


class OneWay(nn.GRU):
    """A gated unit that reads from the first word to the last: an ``nn.GRU`` whose weights anyone can load."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__(inputs, hidden, batch_first=True)

    def last(self, source: Tensor, lengths: Tensor, embed: Embed) -> Tensor:
        """h after the last piece (B, n) of ``source`` (B, S) up to ``lengths`` (B,)."""
        x = F.linear(embed(source.t()), self.weight_ih_l0, self.bias_ih_l0).unsqueeze(0)  # (1, S, B, 3n)
        states = gru(x, self.weight_hh_l0.unsqueeze(0), self.bias_hh_l0.unsqueeze(0))[0]  # (S, B, n)
        return _at(states, lengths - 1)


class BothWays(nn.GRU):
    """Two gated units, one from each end: h_j = [forward; backward] tells of word j and what stands around it."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__(inputs, hidden, batch_first=True, bidirectional=True)

    def states(self, source: Tensor, lengths: Tensor, embed: Embed) -> tuple[Tensor, Tensor]:
        """h (B, S, 2n) of ``source`` (B, S) up to ``lengths`` (B,), and the backward state (B, n) at the start."""
        # The backward direction reads the sentence reversed in place, so that padding comes last in both.
        order = turned(lengths, source.shape[1])  # (S, B); twice is where it was
        read = source.t()  # (S, B)
        x = self._inputs(embed(torch.stack([read, read.gather(0, order)])))  # (2, S, B, 3n)
        states = gru(x, self._both("weight_hh_l0"), self._both("bias_hh_l0"))  # (2, S, B, n)
        spread = order.unsqueeze(-1).expand_as(states[1])
        h = torch.cat([states[0], states[1].gather(0, spread)], -1).transpose(0, 1)  # (B, S, 2n)
        return h.contiguous(), _at(states[1], lengths - 1)  # the backward direction ends at the first place

    def _inputs(self, embedded: Tensor) -> Tensor:
        """What the inputs give to both directions: (2, S, B, m) to (2, S, B, 3n)."""
        weight = self._both("weight_ih_l0").transpose(1, 2)  # (2, m, 3n)
        found = torch.bmm(embedded.flatten(1, 2), weight) + self._both("bias_ih_l0").unsqueeze(1)  # (2, S·B, 3n)
        return found.view(*embedded.shape[:3], -1)

    def _both(self, name: str) -> Tensor:
        """A parameter of the forward and of the backward direction."""
        forward: Tensor = getattr(self, name)
        backward: Tensor = getattr(self, f"{name}_reverse")
        return torch.stack([forward, backward])


class Stack(nn.LSTM):
    """Long short-term memories on each other, an ``nn.LSTM``: read whole where nothing waits, else step by step.

    Dropout falls on what goes up from layer to layer, never along time (Zaremba et al. 2014, arXiv:1409.2329).
    """

    weight_ih_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def __init__(self, inputs: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__(inputs, hidden, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)

    def read(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The top layer's states (B, S, n) over x (B, S, m), and every layer's last h and c (B, N, n) of each row."""
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, (h, c) = self(packed)
        tops, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        return tops, h.transpose(0, 1), c.transpose(0, 1)

    def go_on(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        """The top layer's states (B, T, n) over x (B, T, m), from h and c (B, N, n)."""
        tops: Tensor = self(x, (h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous()))[0]
        return tops

    def inputs(self, x: Tensor) -> Tensor:
        """What x (…, m) gives to the first layer with its biases, (…, 4n): its first m inputs, if it has more."""
        return F.linear(x, self.weight_ih_l0[:, : x.shape[-1]], self.bias_ih_l0 + self.bias_hh_l0)

    def joined(self, known: int) -> list[tuple[Tensor, Tensor | None]]:
        """Each layer's weights for [from below; h] as one matrix, with its biases; ``known`` inputs are dealt with."""
        layers = []
        for n in range(self.num_layers):
            inputs, states = getattr(self, f"weight_ih_l{n}"), getattr(self, f"weight_hh_l{n}")
            bias = getattr(self, f"bias_ih_l{n}") + getattr(self, f"bias_hh_l{n}") if n else None
            layers.append((torch.cat([inputs if n else inputs[:, known:], states], 1), bias))
        return layers

    def once(
        self, given: Tensor, fed: Tensor | None, h: Tensor, c: Tensor, joined: list[tuple[Tensor, Tensor | None]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step: the top h (…, n), and every layer's h and c (…, N, n).

        ``given`` (…, 4n) is :meth:`inputs` of part of the input, ``fed`` the rest of it.
        """
        below, hs, cs = fed, [], []
        for n, (weight, bias) in enumerate(joined):
            own = h[..., n, :]
            gates = F.linear(own if below is None else torch.cat([below, own], -1), weight, bias)
            state, cell = lstm_step(gates if n else gates + given, c[..., n, :])
            hs.append(state)
            cs.append(cell)
            below = dropout(state, self.dropout, self.training)
        return hs[-1], torch.stack(hs, -2), torch.stack(cs, -2)


def turned(lengths: Tensor, longest: int) -> Tensor:
    """Where the word to be read at each step stands, if each row is read from its end: (S, B). The rest stays behind.

    >>> turned(torch.tensor([3, 1]), 4).t().tolist()
    [[2, 1, 0, 3], [0, 1, 2, 3]]
    """
    place = torch.arange(longest, device=lengths.device).unsqueeze(1)  # (S, 1)
    return torch.where(place < lengths, lengths - 1 - place, place)


def _at(states: Tensor, places: Tensor) -> Tensor:
    """The state (B, n) of each row at its place, of states (S, B, n)."""
    return states.gather(0, places.view(1, -1, 1).expand(1, -1, states.shape[-1]))[0]
