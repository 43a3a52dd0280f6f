"""The encoder-decoder that learnt to align (Bahdanau, Cho & Bengio 2014, arXiv:1409.0473, appendix A)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.mask import padding
from regard.operator import attend, weights
from regard.score import Additive
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.models.recurrent.config import Bahdanau
from regard.translate.models.recurrent.units import gru, gru_step
from regard.translate.text.vocabulary import PAD

__all__ = ["Memory", "Model"]


@dataclass(frozen=True)
class Memory:
    """A read source sentence: ``states`` h (B, 1, S, 2n), ``keys`` U h (B, 1, S, A), ``lengths`` (B,)."""

    states: Tensor
    keys: Tensor
    lengths: Tensor


class Model(EncoderDecoder[Memory, Tensor]):
    """p(y_i | y_<i, x) ∝ exp(W_o t_i), with t_i read out of what a soft look at the source found.

    ::

        h_j  = [GRU forward; GRU backward] over E_x x                       (B, S, 2n)
        s_0  = tanh(W_s · backward h_1)                                     (B, n)
        c_i  = attend(s_{i-1}, h, h)   scored by vᵀ tanh(W_a s_{i-1} + U_a h_j)
        s_i  = GRU cell([E_y y_{i-1}; c_i], s_{i-1})
        t~_i = U_o s_{i-1} + V_o E_y y_{i-1} + C_o c_i + b                  (B, 2l)
        t_i  = max over pairs of t~_i (maxout)                              (B, l)

    The state *before* the step asks, and the same state is read out. The keys ``U_a h`` are projected once a
    sentence, the values are the raw states. v = 0 at the start, so an untrained model looks everywhere alike.
    In training everything that does not wait for the state (the input products of the cell, the readout, the
    vocabulary) is one product outside the loop over the target.

    The one departure: the recurrent units are PyTorch's. ``nn.GRU`` and ``nn.GRUCell`` apply the reset gate after the
    recurrent product, r ∘ (U s + b), where the article has U (r ∘ s), and their z keeps the old state where the
    article's z lets the new one in. They learn as well, gates need one product a step instead of two, and the encoder
    is an ``nn.GRU`` whose weights anyone can load. :mod:`regard.translate.models.recurrent.units` runs it, with the
    same numbers.

    Dropout (none in the article) falls on both embeddings, on h and on t, one mask for a whole sentence
    (Gal & Ghahramani 2016). Recurrent matrices start orthogonal; the
    others by Glorot's rule, not the article's N(0, 0.01²), which was tuned for Adadelta.

    A source is never empty: it holds at least its end mark.
    """

    def __init__(self, config: Bahdanau) -> None:
        super().__init__()
        self.config = config
        m, n, o = config.embedding, config.hidden, config.readout
        self.source_embedding = nn.Embedding(config.source_vocabulary, m, padding_idx=PAD)
        self.target_embedding = nn.Embedding(config.target_vocabulary, m, padding_idx=PAD)
        self.encoder = nn.GRU(m, n, batch_first=True, bidirectional=True)
        self.first = nn.Linear(n, n, bias=False)  # W_s
        self.score = Additive(n, 2 * n, config.alignment)  # W_a, U_a, v
        self.cell_previous = nn.Linear(m, 3 * n)  # the columns of nn.GRUCell's weight_ih that meet E_y y_{i-1}
        self.cell_context = nn.Linear(2 * n, 3 * n, bias=False)  # those that meet c_i
        self.cell_state = nn.Linear(n, 3 * n)  # its weight_hh
        self.readout_state = nn.Linear(n, 2 * o)  # U_o, and the readout's one bias
        self.readout_previous = nn.Linear(m, 2 * o, bias=False)  # V_o
        self.readout_context = nn.Linear(2 * n, 2 * o, bias=False)  # C_o
        self.output = nn.Linear(o, config.target_vocabulary, bias=False)  # W_o
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        n = self.config.hidden
        for name, parameter in self.named_parameters():
            if name.startswith("score."):
                continue  # as its own class starts it: small, and v = 0
            if parameter.ndim == 1:
                parameter.zero_()
            elif "weight_hh" in name or name == "cell_state.weight":
                for gate in range(3):
                    nn.init.orthogonal_(parameter[gate * n : (gate + 1) * n])
            elif "embedding" in name:
                nn.init.normal_(parameter, std=self.config.embedding**-0.5)
                parameter[PAD].zero_()
            else:
                nn.init.xavier_uniform_(parameter)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, Tensor]:
        """Reads ``source`` (B, S) up to ``lengths`` (B,): its memory, and s_0 (B, 1, n). Padding is never read."""
        # The backward direction reads the sentence reversed in place, so that padding comes last in both.
        place = torch.arange(source.shape[1]).unsqueeze(1)  # (S, 1)
        turned = torch.where(place < lengths, lengths - 1 - place, place)  # (S, B); twice is where it was
        read = source.t()  # (S, B)
        ids = torch.stack([read, read.gather(0, turned)])  # (2, S, B)
        embedded = self._drop(self.source_embedding(ids), 2)  # (2, S, B, m)
        x = self._encoder_inputs(embedded)  # (2, S, B, 3n)
        states = gru(x, self._both("weight_hh_l0"), self._both("bias_hh_l0"))  # (2, S, B, n)
        spread = turned.unsqueeze(-1).expand_as(states[1])
        h = torch.cat([states[0], states[1].gather(0, spread)], -1).transpose(0, 1)  # (B, S, 2n)
        h = self._drop(h.contiguous(), 0).unsqueeze(1)  # (B, 1, S, 2n)
        last = states[1].gather(0, (lengths - 1).view(1, -1, 1).expand(1, -1, states.shape[-1]))
        first = torch.tanh(self.first(last[0])).to(h.dtype).unsqueeze(1)  # the backward direction ends at position 1
        return Memory(h, self.score.keys(h).to(h.dtype), lengths), first

    def _encoder_inputs(self, embedded: Tensor) -> Tensor:
        """What the inputs give to both directions: (2, S, B, m) to (2, S, B, 3n)."""
        weight = self._both("weight_ih_l0").transpose(1, 2)  # (2, m, 3n)
        found = torch.bmm(embedded.flatten(1, 2), weight) + self._both("bias_ih_l0").unsqueeze(1)  # (2, S·B, 3n)
        return found.view(*embedded.shape[:3], -1)

    def _both(self, name: str) -> Tensor:
        """A parameter of the encoder's forward and of its backward direction."""
        forward: Tensor = getattr(self.encoder, name)
        backward: Tensor = getattr(self.encoder, f"{name}_reverse")
        return torch.stack([forward, backward])

    def look(self, state: Tensor, memory: Memory) -> Tensor:
        """c = Σ_j α_j h_j (B, L, 2n), asked by ``state`` (B, L, n)."""
        with torch.autocast("cpu", enabled=False):  # in full precision: it is little work, and rounding blurs a look
            q, mask = state.unsqueeze(1), padding(memory.lengths)
            return attend(q, memory.keys, memory.states, score=self.score.keyed, mask=mask).squeeze(1)

    def look_weights(self, state: Tensor, memory: Memory) -> Tensor:
        """α (B, L, S), asked by ``state`` (B, L, n); exactly 0 on padding."""
        with torch.autocast("cpu", enabled=False):
            q, mask = state.unsqueeze(1), padding(memory.lengths)
            return weights(q, memory.keys, score=self.score.keyed, mask=mask).squeeze(1)

    def step(self, state: Tensor, previous: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """One target position for L hypotheses of each sentence.

        Args:
            state: s_{i-1} (B, L, n).
            previous: y_{i-1} (B, L).

        Returns:
            Unnormalised log-probabilities of y_i (B, L, V), and s_i (B, L, n).
        """
        embedded = self._drop(self.target_embedding(previous), 0)
        context = self.look(state, memory)
        logits = self.output(self._read_out(state, embedded, context))
        return logits, self._advance(self.cell_previous(embedded), context, state)

    def step_looking(self, state: Tensor, previous: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """:meth:`step`, and α (B, 1, 1, L, S)."""
        return *self.step(state, previous, memory), self.look_weights(state, memory)[:, None, None]

    def hidden(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """t (B, T, l) of a given target: :meth:`forward` before its last product, so that padding can skip it."""
        memory, state = self.encode(source, lengths)
        embedded = self._drop(self.target_embedding(previous), 0)  # (B, T, m)
        projected = self.cell_previous(embedded).unbind(1)  # T × (B, 3n)
        states, contexts = [], []
        for i in range(previous.shape[1]):
            context = self.look(state, memory)
            states.append(state)
            contexts.append(context)
            state = self._advance(projected[i].unsqueeze(1), context, state)
        return self._read_out(torch.cat(states, 1), embedded, torch.cat(contexts, 1))

    def vocabulary(self, hidden: Tensor) -> Tensor:
        """W_o t: (..., l) to (..., V)."""
        scores: Tensor = self.output(hidden)
        return scores

    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """α (B, 1, 1, T, S): where the decoder looks before each piece of a given target, right-shifted."""
        memory, state = self.encode(source, lengths)
        projected = self.cell_previous(self.target_embedding(previous)).unbind(1)
        found = []
        for i in range(previous.shape[1]):
            found.append(self.look_weights(state, memory))
            state = self._advance(projected[i].unsqueeze(1), self.look(state, memory), state)
        return torch.cat(found, 1)[:, None, None]

    def _advance(self, projected: Tensor, context: Tensor, state: Tensor) -> Tensor:
        """s_i = z s_{i-1} + (1 - z) tanh(x + r ∘ (U s_{i-1} + b)): nn.GRUCell with part of its input done.

        ``projected`` (B, L, 3n) is ``cell_previous`` of E_y y_{i-1}; the gates stand in PyTorch's order r, z, new.
        """
        return gru_step(projected + self.cell_context(context), self.cell_state(state), state)

    def _read_out(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        t = self.readout_state(state) + self.readout_previous(embedded) + self.readout_context(context)
        pairs = t.unflatten(-1, (self.config.readout, 2))  # (..., l, 2)
        out: Tensor = self._drop(torch.maximum(*pairs.unbind(-1)), 0)
        return out

    def _drop(self, x: Tensor, batch: int) -> Tensor:
        """In training, sets features of ``x`` to 0, the same ones all along a sentence.

        ``x`` is (..., F); its axis ``batch`` counts sentences.
        """
        if not self.training or self.config.dropout == 0.0:
            return x
        shape = [1] * x.dim()
        shape[batch], shape[-1] = x.shape[batch], x.shape[-1]
        keep = torch.empty(shape, dtype=x.dtype).bernoulli_(1.0 - self.config.dropout)
        return x * keep.div_(1.0 - self.config.dropout)
