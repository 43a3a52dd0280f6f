"""What writes with a gated unit that is given a context at every step: one vector of the source, or a look's find."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from regard.translate.models.encoder_decoder import EncoderDecoder, Memory
from regard.translate.models.recurrent.config import Bahdanau, Cho
from regard.translate.models.recurrent.parts import drop, embedding

__all__ = ["Gated"]


class Gated(EncoderDecoder[Memory, Tensor]):
    """p(y_i | y_<i, x) ∝ exp(W_o t_i), t_i read out of a state s, the piece before and a context c_i.

    ::

        s_i  = GRU cell(E_y y_{i-1}, c_i, s_{i-1})
        t~_i = U_o s + V_o E_y y_{i-1} + C_o c_i + b                        (B, 2l)
        t_i  = max over pairs of t~_i (maxout)                              (B, l)

    Which s is read out, what c_i is and where it enters the cell is each model's. In training everything that does not
    wait for the state (the input products of the cell, the readout, the vocabulary) is one product outside the loop
    over the target.

    Dropout (none in the articles) falls on both embeddings, on what the encoder hands on and on t, one mask for a whole
    sentence. Recurrent matrices start orthogonal, the others by Glorot's rule, not the articles' N(0, 0.01²), which was
    tuned for Adadelta.

    A source is never empty: it holds at least its end mark.
    """

    config: Bahdanau | Cho

    def __init__(self, config: Bahdanau | Cho) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = embedding(config.source_vocabulary, config.embedding)
        self.target_embedding = embedding(config.target_vocabulary, config.embedding)

    def write_with(self, context: int) -> None:
        """Makes the cell, the readout and the output, for a context of that width."""
        m, n, o = self.config.embedding, self.config.hidden, self.config.readout
        self.cell_previous = nn.Linear(m, 3 * n)  # the columns of nn.GRUCell's weight_ih that meet E_y y_{i-1}
        self.cell_context = nn.Linear(context, 3 * n, bias=False)  # those that meet c_i
        self.cell_state = nn.Linear(n, 3 * n)  # its weight_hh
        self.readout_state = nn.Linear(n, 2 * o)  # U_o, and the readout's one bias
        self.readout_previous = nn.Linear(m, 2 * o, bias=False)  # V_o
        self.readout_context = nn.Linear(context, 2 * o, bias=False)  # C_o
        self.output = nn.Linear(o, self.config.target_vocabulary, bias=False)  # W_o

    @abstractmethod
    def context(self, state: Tensor, memory: Memory) -> Tensor:
        """c_i, for the state s_{i-1} (B, L, n) before the step: (B, L, E)."""

    @abstractmethod
    def advance(self, projected: Tensor, context: Tensor, state: Tensor) -> Tensor:
        """s_i (B, L, n) from ``projected`` (B, L, 3n), ``cell_previous`` of E_y y_{i-1}, c_i and s_{i-1}."""

    def asked(self, before: Tensor, after: Tensor) -> Tensor:
        """The one of s_{i-1} and s_i that y_i is read out of."""
        return before

    def step(self, state: Tensor, previous: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """One target position for L hypotheses of each sentence.

        Args:
            state: s_{i-1} (B, L, n).
            previous: y_{i-1} (B, L).

        Returns:
            Unnormalised log-probabilities of y_i (B, L, V), and s_i (B, L, n).
        """
        embedded = self.embed_target(previous)
        context = self.context(state, memory)
        after = self.advance(self.cell_previous(embedded), context, state)
        logits = self.output(self.read_out(self.asked(state, after), embedded, context))
        return logits, after

    def vocabulary(self, hidden: Tensor) -> Tensor:
        """W_o t: (..., l) to (..., V)."""
        scores: Tensor = self.output(hidden)
        return scores

    def embed_source(self, ids: Tensor) -> Tensor:
        """E_x x of pieces (…, B): (…, B, m)."""
        return self.drop(self.source_embedding(ids), -2)

    def embed_target(self, ids: Tensor) -> Tensor:
        """E_y y of pieces (B, …): (B, …, m)."""
        return self.drop(self.target_embedding(ids), 0)

    def read_out(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """t (..., l) of a state, E_y y_{i-1} and c_i."""
        t = self.readout_state(state) + self.readout_previous(embedded) + self.readout_context(context)
        pairs = t.unflatten(-1, (self.config.readout, 2))  # (..., l, 2)
        return self.drop(torch.maximum(*pairs.unbind(-1)), 0)

    def drop(self, x: Tensor, batch: int) -> Tensor:
        """Dropout in training; the axis ``batch`` of ``x`` (…, F) counts sentences."""
        return drop(x, batch, self.config.dropout if self.training else 0.0)
