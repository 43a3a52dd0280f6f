"""The end-to-end memory network: sentences and a question in, a word out, K hops over the sentences between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError
from regard.memory.episodic import EpisodicMemory, Facts, Recall, TimeTable, position_encoding, with_empty
from regard.memory.episodic.memory import LOOKED, Telemetry
from regard.normalize import Normalizer


@dataclass(frozen=True)
class Adjacent:
    """A^{k+1} = C^k, B = A^1, W^T = C^K: K + 1 tables, each a hop's values and the next one's keys."""

    def tables(self, hops: int) -> int:
        """How many word tables there are."""
        return hops + 1

    def timed(self, hops: int) -> int:
        """How many of them, the first, have a time table beside them: those that are some A or C."""
        return hops + 1

    def keys(self, hops: int) -> list[int]:
        """Which table is A^k, for each hop."""
        return list(range(hops))

    def values(self, hops: int) -> list[int]:
        """Which table is C^k, for each hop."""
        return list(range(1, hops + 1))

    def question(self, hops: int) -> int:
        """Which table is B."""
        return 0

    def answer(self, hops: int) -> int:
        """Which table is W^T."""
        return hops

    def carry(self, width: int) -> nn.Module | None:
        """H of u ← H u + o: none."""
        return None


@dataclass(frozen=True)
class LayerWise:
    """A^1 = … = A^K, C^1 = … = C^K, B and W their own, u ← H u + o: a recurrent network that reads at every step."""

    def tables(self, hops: int) -> int:
        """A, C, B, W."""
        return 4

    def timed(self, hops: int) -> int:
        """A and C."""
        return 2

    def keys(self, hops: int) -> list[int]:
        """A at every hop."""
        return [0] * hops

    def values(self, hops: int) -> list[int]:
        """C at every hop."""
        return [1] * hops

    def question(self, hops: int) -> int:
        """B."""
        return 2

    def answer(self, hops: int) -> int:
        """W."""
        return 3

    def carry(self, width: int) -> nn.Module | None:
        """H, as linear as it is published."""
        return nn.Linear(width, width, bias=False)


class EndToEndMemoryNetwork(nn.Module):
    """a = W u^{K+1}, u^{k+1} = u^k + Σ_i softmax_i(u^k·m_i^k) c_i^k, u^1 = Σ_j l_j ∘ B q_j: logits of a word.

    m_i^k = Σ_j l_j ∘ A^k x_ij + T_A^k(age of i), c_i^k the same of C^k (Sukhbaatar et al. 2015, sections 2 and 4.1).

    Args:
        words: V, how many words there are; 0 is no word and pads sentences on the right.
        width: D.
        hops: K.
        ages: how many ages the time tables have, and so how many sentences are kept, the newest; None for no time at
            all: then sentences have no order.
        tying: :class:`Adjacent` or :class:`LayerWise`.
        encode: l, from where words are: :func:`~regard.memory.episodic.position_encoding` or ``bag_of_words``.
        normalize: an object of :mod:`regard.normalize` or its name; a call may be given another (a linear start).

    All numbers start at N(0, 0.1²), as published. ``words`` is (V, tables, D), ``times`` (ages, timed tables, D).

    >>> net = EndToEndMemoryNetwork(words=7, width=4)
    >>> sentences = torch.tensor([[[1, 2, 0], [3, 2, 4]]])  # (B, S, J)
    >>> net(sentences, torch.tensor([[5, 1]])).shape
    torch.Size([1, 7])
    >>> found = net.recall(sentences, torch.tensor([[5, 1]]))  # what each hop looked at
    >>> [hop.peak.shape for hop in found.hops]
    [torch.Size([1, 1, 1]), torch.Size([1, 1, 1]), torch.Size([1, 1, 1])]
    """

    def __init__(
        self,
        words: int,
        width: int = 20,
        *,
        hops: int = 3,
        ages: int | None = 50,
        tying: Adjacent | LayerWise | None = None,
        encode: Callable[[Tensor, int], Tensor] = position_encoding,
        normalize: Normalizer | str = "softmax",
    ) -> None:
        super().__init__()
        for name, value in (("words", words), ("width", width), ("hops", hops), ("ages", ages)):
            if value is not None and value < 1:
                raise RegardError(f"EndToEndMemoryNetwork: {name} is {value}, wanted at least 1")
        self.width, self.hops, self.ages = width, hops, ages
        self.tying = Adjacent() if tying is None else tying
        self.encode, self.normalize = encode, normalize
        tables = self.tying.tables(hops)
        self.words = nn.Parameter(torch.empty(words, tables, width).normal_(0.0, 0.1))
        self.times: nn.Parameter | None = None
        if ages is not None:
            self.times = nn.Parameter(torch.empty(ages, self.tying.timed(hops), width).normal_(0.0, 0.1))
        self.carry = self.tying.carry(width)

    def forward(
        self, sentences: Tensor, question: Tensor, *, normalize: Normalizer | str | None = None, empty: float = 0.0
    ) -> Tensor:
        """Logits (B, V) of the answer to questions (B, Q) about sentences (B, S, J), words by number, 0 for none.

        ``normalize`` stands in for the network's own in this call. ``empty`` is the share of empty memories that are
        put between the sentences at random, 0.1 in training; an age past the tables' end is then their last.
        """
        found = self.recall(sentences, question, normalize=normalize, empty=empty, telemetry=False)
        return found.query[:, 0] @ self.words[:, self.tying.answer(self.hops)].mT

    def recall(
        self,
        sentences: Tensor,
        question: Tensor,
        *,
        normalize: Normalizer | str | None = None,
        empty: float = 0.0,
        telemetry: Telemetry = LOOKED,
        groups: Mapping[str, Tensor] | None = None,
    ) -> Recall:
        """The question after all hops, (B, 1, D), and the reading of each; the newest sentence is the last place."""
        memory = self.memory(normalize)
        state = self.facts(memory, sentences, question)
        ages = with_empty(memory.ages(state).expand(len(sentences), -1), empty) if empty else None
        if ages is not None and self.ages is not None:
            ages = ages.clamp(max=self.ages - 1)
        return memory.recall(state, self.asked(question), ages=ages, telemetry=telemetry, groups=groups)

    def memory(self, normalize: Normalizer | str | None = None) -> EpisodicMemory:
        """The memory that this network reads, with its time tables as they are now."""
        tying, times = self.tying, None
        if self.times is not None:
            by_table = self.times.transpose(0, 1)
            times = TimeTable(by_table[tying.keys(self.hops)], by_table[tying.values(self.hops)])
        chosen = self.normalize if normalize is None else normalize
        # A few dozen facts are read before another engine would be chosen.
        return EpisodicMemory(self.width, self.hops, self.ages, times, chosen, "reference", self.carry)

    def facts(self, memory: EpisodicMemory, sentences: Tensor, question: Tensor) -> Facts:
        """What is written of sentences (B, S, J); those without a word are none."""
        if sentences.dim() != 3 or question.dim() != 2 or len(sentences) != len(question):
            raise RegardError(
                f"EndToEndMemoryNetwork: sentences are {tuple(sentences.shape)} and question {tuple(question.shape)}, "
                "wanted (B, S, J) and (B, Q)"
            )
        encoded = self._encoded(sentences).movedim(-2, 1)  # (B, tables, S, D)
        k, v = encoded[:, self.tying.keys(self.hops)], encoded[:, self.tying.values(self.hops)]
        state = memory.reset(len(sentences), dtype=k.dtype, device=k.device)
        return memory.write(state, k, v, valid=(sentences != 0).any(-1))

    def asked(self, question: Tensor) -> Tensor:
        """u^1 = Σ_j l_j ∘ B q_j of questions (B, Q): (B, 1, D)."""
        return self._encoded(question.unsqueeze(1))[..., self.tying.question(self.hops), :]

    def _encoded(self, words: Tensor) -> Tensor:
        """Σ_j l_j ∘ A x_j by every table at once: words (…, J) → (…, tables, D)."""
        if words.is_floating_point() or (
            words.numel() and not 0 <= int(words.min()) <= int(words.max()) < len(self.words)
        ):
            raise RegardError(
                f"EndToEndMemoryNetwork: words are {words.dtype}, wanted integers 0 to {len(self.words) - 1}, 0 for no "
                "word"
            )
        l = self.encode(words != 0, self.width).to(self.words.dtype)
        looked_up = F.embedding(words, self.words.flatten(1)).unflatten(-1, self.words.shape[1:])
        found: Tensor = (looked_up * l.unsqueeze(-2)).sum(-3)
        return found

    def extra_repr(self) -> str:
        return f"words={len(self.words)}, width={self.width}, hops={self.hops}, ages={self.ages}, tying={self.tying}"
