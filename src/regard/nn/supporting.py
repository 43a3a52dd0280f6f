"""The memory network that is told which facts support an answer (Weston, Chopra & Bordes 2014)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.memory.episodic import Match, SupportMemory, Told


class Answered(NamedTuple):
    """What the network says, and by which facts."""

    word: Tensor
    """The answer, (B,)."""
    support: Tensor
    """The facts it was led by, in the order found: (B, hops), counted from the first sentence; −1 without sentences."""


class MemoryNetwork(nn.Module):
    """I: sentences as bags of words; G: kept in the next place; O: ``hops`` supports by argmax; R: the best word.

    r = argmax_w s_R([q, m_o1, …, m_oK], w), s(x, y) = Φ_x(x)ᵀ Uᵀ U Φ_y(y), with U_O for facts
    (:class:`~regard.memory.episodic.SupportMemory`, which knows the time of writing) and U_R for words.

    Args:
        words: V; 0 is no word.
        width: d, rows of U.
        hops: K.
        margin: γ of the ranking loss.

    >>> net = MemoryNetwork(words=7, width=4)
    >>> sentences = torch.tensor([[[1, 2, 0], [3, 2, 4]]])
    >>> net(sentences, torch.tensor([[5, 1]])).support.shape
    torch.Size([1, 2])
    """

    def __init__(self, words: int, width: int = 50, *, hops: int = 2, margin: float = 0.1) -> None:
        super().__init__()
        if words < 1 or width < 1 or not margin > 0:
            raise RegardError(
                f"MemoryNetwork: words, width, margin are {words}, {width}, {margin}, wanted ≥ 1, ≥ 1, > 0"
            )
        self.words, self.hops, self.margin = words, hops, margin
        self.output = nn.Parameter(torch.empty(width, 3 * words + 3).normal_(0.0, 0.1))
        self.response = nn.Parameter(torch.empty(width, 3 * words).normal_(0.0, 0.1))

    def memory(self) -> SupportMemory:
        """The memory that is read, scored by U_O as it is now."""
        question, support, candidate, time = self.output.split([self.words, self.words, self.words, 3], 1)
        return SupportMemory(self.words, Match(question, support, candidate, time), self.hops)

    def forward(self, sentences: Tensor, question: Tensor) -> Answered:
        """The answers to questions (B, Q) about sentences (B, S, J), words by number, 0 for none."""
        memory = self.memory()
        state, asked = self._told(memory, sentences), self._bag(question)
        support = memory.chain(state, asked)
        return Answered(self._responses(state, asked, support).argmax(-1), support)

    def loss(self, sentences: Tensor, question: Tensor, support: Tensor, answer: Tensor) -> Tensor:
        """Σ_kf max(0, γ − s(x, m_ok, f)) + max(0, γ + s(x, f, m_ok)) + Σ_w max(0, γ − s_R(x, r) + s_R(x, w)).

        A mean over B. ``support`` (B, hops) are the right facts in their order, ``answer`` (B,) the right words r; f
        and w are all others.
        """
        memory = self.memory()
        state, asked = self._told(memory, sentences), self._bag(question)
        for_right, for_other, others = memory.preferences(state, asked, support)
        facts = ((self.margin - for_right).relu() + (self.margin + for_other).relu()) * others
        scores = self._responses(state, asked, support)
        right = scores.gather(1, answer.unsqueeze(1))
        words = (self.margin - right + scores).relu().scatter(1, answer.unsqueeze(1), 0.0)
        found: Tensor = (facts.sum((1, 2)) + words.sum(1)).mean()
        return found

    def _responses(self, state: Told, asked: Tensor, support: Tensor) -> Tensor:
        """s_R([q, m_o1, …], w) for every word: (B, V)."""
        question, told, word = self.response.split(self.words, 1)
        x = asked @ question.mT
        if S := state.features.shape[1]:
            at = (support + (S - state.lengths).unsqueeze(1)).clamp(min=0, max=S - 1).unsqueeze(-1)
            facts = state.features.gather(1, at.expand(-1, -1, self.words)) * (support >= 0).unsqueeze(-1)
            x = x + facts.sum(1) @ told.mT
        found: Tensor = x @ word
        return found

    def _told(self, memory: SupportMemory, sentences: Tensor) -> Told:
        if sentences.dim() != 3:
            raise RegardError(f"MemoryNetwork: sentences are {tuple(sentences.shape)}, wanted (B, S, J)")
        state = memory.reset(len(sentences), dtype=self.output.dtype, device=sentences.device)
        return memory.write(state, self._bag(sentences), valid=(sentences != 0).any(-1))

    def _bag(self, words: Tensor) -> Tensor:
        """How often each word occurs: (…, J) → (…, V)."""
        if words.is_floating_point() or (words.numel() and not 0 <= int(words.min()) <= int(words.max()) < self.words):
            raise RegardError(
                f"MemoryNetwork: words are of {words.dtype}, wanted integers 0 to {self.words - 1}, 0 for none"
            )
        bag = torch.zeros(*words.shape[:-1], self.words, dtype=self.output.dtype, device=words.device)
        found: Tensor = bag.scatter_add(-1, words, (words != 0).to(bag.dtype))
        return found
