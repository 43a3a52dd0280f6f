"""The encoder-decoder that learnt to align (Bahdanau, Cho & Bengio 2014, arXiv:1409.0473, appendix A)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.score import Additive
from regard.translate.models.recurrent.config import Bahdanau
from regard.translate.models.recurrent.encoders import BothWays
from regard.translate.models.recurrent.gated import Gated
from regard.translate.models.recurrent.parts import initialise, opened
from regard.translate.models.recurrent.readers import Memory, Reader, scored
from regard.translate.models.recurrent.units import gru_step

__all__ = ["Model"]


class Model(Gated[Memory]):
    """The state before the step looks, and the same state is read out.

    ::

        h_j  = [GRU forward; GRU backward] over E_x x                       (B, S, 2n)
        s_0  = tanh(W_s · backward h_1)                                     (B, n)
        c_i  = attend(s_{i-1}, h, h)   scored by vᵀ tanh(W_a s_{i-1} + U_a h_j)
        s_i  = GRU cell([E_y y_{i-1}; c_i], s_{i-1})
        t~_i = U_o s_{i-1} + V_o E_y y_{i-1} + C_o c_i + b                  (B, 2l)

    and the rest is :class:`Gated`'s. The keys ``U_a h`` are projected once a sentence, the values are the raw states.
    ``score`` "general" has s_{i-1}ᵀ W h_j instead (Luong et al. 2015), and ``normalize`` another way to weigh. W_a, U_a
    and v start as other matrices do (:func:`opened`), where the article starts v at 0.

    The one departure in what it computes: units are PyTorch's. ``nn.GRU`` and ``nn.GRUCell`` apply the reset gate after
    the recurrent product, r ∘ (U s + b), where the article has U (r ∘ s), and their z keeps the old state where the
    article's z lets the new one in. They learn as well, gates need one product a step instead of two, and the encoder
    is an ``nn.GRU`` whose weights anyone can load. :mod:`regard.translate.models.recurrent.units` runs it, with the
    same numbers.
    """

    config: Bahdanau

    def __init__(self, config: Bahdanau) -> None:
        super().__init__(config)
        m, n = config.embedding, config.hidden
        self.encoder = BothWays(m, n)
        self.first = nn.Linear(n, n, bias=False)  # W_s
        self.score = scored(config.score, n, 2 * n, config.alignment)  # W_a, U_a, v
        self.reader = Reader(self.score, config.normalize)
        self.write_with(context=2 * n)
        initialise(self, config.hidden, quiet=True)
        if isinstance(self.score, Additive):
            opened(self.score)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, Tensor]:
        """Reads ``source`` (B, S) up to ``lengths`` (B,): its memory, and s_0 (B, 1, n). Padding is never read."""
        h, back = self.encoder.states(source, lengths, self.embed_source)
        h = self.drop(h, 0)
        first = torch.tanh(self.first(back)).to(h.dtype).unsqueeze(1)
        return self.reader.remember(h, lengths), first

    def context(self, state: Tensor, memory: Memory) -> Tensor:
        """c = Σ_j α_j h_j (B, L, 2n), asked by ``state`` (B, L, n)."""
        return self.reader.read(state, memory)

    def advance(self, projected: Tensor, context: Tensor, state: Tensor) -> Tensor:
        """s_i = z s_{i-1} + (1 - z) tanh(x + r ∘ (U s_{i-1} + b)): nn.GRUCell with part of its input done."""
        return gru_step(projected + self.cell_context(context), self.cell_state(state), state)

    def step_looking(self, state: Tensor, previous: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """:meth:`step`, and α (B, 1, 1, L, S)."""
        return *self.step(state, previous, memory), self.reader.weights(state, memory)[:, None, None]

    def hidden(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """t (B, T, l) of a given target: :meth:`forward` before its last product, so that padding can skip it."""
        memory, first = self.encode(source, lengths)
        embedded = self.embed_target(previous)  # (B, T, m)
        states, contexts = self._walk(memory, first, embedded)
        return self.read_out(states, embedded, contexts)

    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """α (B, 1, 1, T, S): where the decoder looks before each piece of a given target, right-shifted."""
        memory, first = self.encode(source, lengths)
        states, _ = self._walk(memory, first, self.target_embedding(previous))
        looks = [self.reader.weights(state, memory) for state in states.split(1, 1)]
        return torch.cat(looks, 1)[:, None, None]

    def _walk(self, memory: Memory, state: Tensor, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """s_0 … s_{T-1} (B, T, n) and c_1 … c_T (B, T, 2n): who asked, and what was found."""
        states, contexts = [], []
        for projected in self.cell_previous(embedded).split(1, 1):  # (B, 1, 3n)
            context = self.context(state, memory)
            states.append(state)
            contexts.append(context)
            state = self.advance(projected, context, state)
        return torch.cat(states, 1), torch.cat(contexts, 1)
