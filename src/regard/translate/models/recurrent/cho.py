"""The encoder-decoder that puts a source into one vector (Cho et al. 2014, arXiv:1406.1078, appendix A)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.translate.models.recurrent.config import Cho
from regard.translate.models.recurrent.encoders import OneWay
from regard.translate.models.recurrent.gated import Gated
from regard.translate.models.recurrent.parts import initialise
from regard.translate.models.recurrent.readers import Handed
from regard.translate.models.recurrent.units import gru, gru_step

__all__ = ["Model"]


class Model(Gated[Handed]):
    """One vector c for all of the source, in every gate, at every step and in the readout. It never looks back.

    ::

        h_j  = GRU over E_x x                                               (B, n)
        c    = tanh(V h_S),  s_0 = tanh(V' c)                               (B, n)
        s_i  = z ∘ s_{i-1} + (1 - z) ∘ tanh(W E_y y_{i-1} + r ∘ (U s_{i-1} + C c)),   r and z with C_r c and C_z c
        t~_i = O_h s_i + O_y E_y y_{i-1} + O_c c + b                        (B, 2l)

    and the rest is :class:`Gated`'s. The state after the step is read out, where Bahdanau's reads the one before it.

    Departures: gates have biases. The decoder's unit is the article's, whose reset gate comes after the products, as
    PyTorch's does; the encoder's in the article comes before, U (r ∘ h), and here it is an ``nn.GRU``. Embeddings and
    output matrix are not factored. The article scored phrases of a phrase table with it; here it writes.
    """

    config: Cho

    def __init__(self, config: Cho) -> None:
        super().__init__(config)
        m, n = config.embedding, config.hidden
        self.encoder = OneWay(m, n)
        self.summary = nn.Linear(n, n, bias=False)  # V
        self.first = nn.Linear(n, n, bias=False)  # V'
        self.write_with(context=n)
        initialise(self, config.hidden)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Handed, Tensor]:
        """Reads ``source`` (B, S) up to ``lengths`` (B,): c (B, 1, n), and s_0 (B, 1, n). Padding is never read."""
        last = self.encoder.last(source, lengths, self.embed_source)
        c = torch.tanh(self.summary(last)).to(last.dtype)
        first = torch.tanh(self.first(c)).to(last.dtype)
        return Handed(self.drop(c, 0).unsqueeze(1)), first.unsqueeze(1)

    def context(self, state: Tensor, memory: Handed) -> Tensor:
        """c, for every beginning alike: (B, 1, n)."""
        return memory.context

    def advance(self, projected: Tensor, context: Tensor, state: Tensor) -> Tensor:
        """s_i: the context stands beside the old state, under the reset gate."""
        return gru_step(projected, self.cell_state(state) + self.cell_context(context), state)

    def asked(self, before: Tensor, after: Tensor) -> Tensor:
        """s_i is read out."""
        return after

    def hidden(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """t (B, T, l) of a given target. Nothing is looked up between steps, so that all states are one call."""
        memory, first = self.encode(source, lengths)
        embedded = self.embed_target(previous)  # (B, T, m)
        x = self.cell_previous(embedded).transpose(0, 1).unsqueeze(0)  # (1, T, B, 3n)
        offset = self.cell_context(memory.context).transpose(0, 1) + self.cell_state.bias  # (1, B, 3n)
        states = gru(x, self.cell_state.weight.unsqueeze(0), offset, first.transpose(0, 1))
        return self.read_out(states[0].transpose(0, 1), embedded, memory.context)

    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """(B, 0, 0, T, S): nothing is looked at."""
        return self.output.weight.new_zeros(source.shape[0], 0, 0, previous.shape[1], source.shape[1])
