"""Stacks that look after their step, at all of the source or near a place (Luong, Pham & Manning 2015,
arXiv:1508.04025)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.translate.models.recurrent.config import Luong
from regard.translate.models.recurrent.parts import initialise
from regard.translate.models.recurrent.readers import Memory, Place, Reader, full, scored
from regard.translate.models.recurrent.stacked import Stacked

__all__ = ["Model"]

State = tuple[Tensor, Tensor, Tensor, Tensor]  # h and c (B, L, N, n), h~ (B, L, n), and the step t (B, L)


class Model(Stacked[Memory, State]):
    """The state *at* the step looks: p(y_t | y_<t, x) ∝ exp(W_s h~_t).

    ::

        h_t  = top of the LSTM stack over [E_y y_{t-1}; h~_{t-1}]           h~_0 = 0; without feeding over E_y y_{t-1}
        a_t  = normalise(score(h_t, h_s)), and where ``look`` is local as :class:`Reader` says          (B, S)
        c_t  = Σ_s a_t(s) h_s                                               (B, n)
        h~_t = tanh(W_c [c_t; h_t])                                         (B, n)

        score: h_tᵀ h_s (dot), h_tᵀ W_a h_s (general), v_aᵀ tanh(W_a [h_t; h_s]) (concat)

    Bahdanau's state before the step looks, and what is found moves the state; here what is found is read out, and
    moves the next state only through feeding. Without feeding nothing in the recurrence waits for a look: the stack
    runs over the whole target, and all its looks are one.

    The article's concat is published without its width; W_a is (n, 2n) here. What is fed is h~ before its dropout.
    """

    config: Luong

    def __init__(self, config: Luong) -> None:
        super().__init__(config, fed=config.hidden if config.feeding else 0)
        n = config.hidden
        self.score = scored(config.score, n, n, n)
        self.place = Place(n) if config.look == "local-p" else None
        reach = None if config.look == "global" else config.reach
        self.reader = Reader(self.score, config.normalize, reach, self.place)
        self.joint = nn.Linear(2 * n, n, bias=False)  # W_c
        initialise(self, config.hidden)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, State]:
        """Reads ``source`` (B, S) up to ``lengths`` (B,): its memory, and the state before the first step, L = 1."""
        tops, h, c = self.read(source, lengths)
        step = torch.zeros(source.shape[0], 1, dtype=torch.long, device=source.device)
        return self.reader.remember(tops, lengths), (h, c, torch.zeros_like(h[:, :, 0]), step)

    def step(self, state: State, previous: Tensor, memory: Memory) -> tuple[Tensor, State]:
        """One target position for L beginnings of each sentence: log-probabilities (B, L, V), and the state after."""
        logits, after, _ = self._step(state, previous, memory)
        return logits, after

    def step_looking(self, state: State, previous: Tensor, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """:meth:`step`, and a_t (B, 1, 1, L, S)."""
        logits, after, top = self._step(state, previous, memory)
        return logits, after, self.reader.weights(top, memory, state[-1])[:, None, None]

    def _step(self, state: State, previous: Tensor, memory: Memory) -> tuple[Tensor, State, Tensor]:
        h, c, fed, t = state
        given, joined = self.decoder.inputs(self.embed(previous)), self.decoder.joined(self.config.embedding)
        top, h, c = self.decoder.once(given, fed if self.config.feeding else None, h, c, joined)
        joint = self._join(top, memory, t)
        return self.vocabulary(self.drop(joint)), (h, c, joint, t + 1), top

    def hidden(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """h~ (B, T, n) of a given target."""
        memory, state = self.encode(source, lengths)
        return self.drop(self._walk(memory, state, previous)[1])

    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        """a (B, 1, 1, T, S): where the decoder looks for each piece of a given target. Rows of local-p sum to less
        than 1, and those of local-m whose window lies behind the source to 0."""
        memory, state = self.encode(source, lengths)
        tops, _ = self._walk(memory, state, previous)
        return self.reader.weights(tops, memory, _steps(previous))[:, None, None]

    def _walk(self, memory: Memory, state: State, previous: Tensor) -> tuple[Tensor, Tensor]:
        """h and h~ (B, T, n) of a given target."""
        h, c, fed, _ = state
        embedded, steps = self.embed(previous), _steps(previous)
        if not self.config.feeding:
            tops = full(self.decoder.go_on(embedded, h[:, 0], c[:, 0]))
            return tops, self._join(tops, memory, steps)
        joined = self.decoder.joined(self.config.embedding)
        found, joints = [], []
        for t, given in enumerate(self.decoder.inputs(embedded).split(1, 1)):
            top, h, c = self.decoder.once(given, fed, h, c, joined)
            fed = self._join(top, memory, steps[:, t : t + 1])
            found.append(top)
            joints.append(fed)
        return torch.cat(found, 1), torch.cat(joints, 1)

    def _join(self, top: Tensor, memory: Memory, steps: Tensor) -> Tensor:
        """h~ (B, L, n) of top states (B, L, n) at ``steps`` (B, L)."""
        found = self.reader.read(top, memory, steps)
        return full(torch.tanh(self.joint(torch.cat([found, top], -1))))


def _steps(previous: Tensor) -> Tensor:
    """t of each piece of a target (B, T), from 0."""
    return torch.arange(previous.shape[1], device=previous.device).expand_as(previous)
