"""The memory of the first memory network: facts are kept as they come, and found one after the other by argmax."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.base import Cost, Memory
from regard.memory.episodic.rows import appended, cropped, standing
from regard.memory.given import lengths
from regard.memory.readings import by_weights
from regard.reading import Reading


class Told(NamedTuple):
    """The facts as features, the newest at the right end of every row."""

    features: Tensor
    """φ(m_i), (B, S, F)."""
    lengths: Tensor
    """How many facts a row has, integers (B,)."""


@dataclass(frozen=True, eq=False)
class Match:
    """U of s(x, y) = (U Φ_x(x))ᵀ (U Φ_y(y)), its columns by what they are for.

    A word counts apart in each of the three roles (the paper's D = 3|W| features), so ``question``, ``support`` and
    ``candidate`` are (d, F) each; ``time`` is (d, 3): "x is older than y", "x is older than y′", "y is older than y′",
    the last one −1 where y is the newer: of two facts in the same words nothing else could prefer the newer.
    """

    question: Tensor
    support: Tensor
    candidate: Tensor
    time: Tensor

    def asked(self, question: Tensor, supports: Tensor) -> Tensor:
        """U Φ_x of a question (B, F) and the supports found so far (B, k, F): (B, d)."""
        return question @ self.question.mT + supports.sum(1) @ self.support.mT


@dataclass(frozen=True, eq=False)
class SupportMemory(Memory[Told]):
    """o_1 = argmax_i s([x], m_i), o_2 = argmax_i s([x, m_o1], m_i), …: each fact found is part of the next question.

    Args:
        width: F, the features of a fact and of a question.
        match: how candidates are scored, a :class:`Match`.
        hops: how many supporting facts are looked for.

    The time of writing is compared by pairs: s(x, y, y′) = (U Φ_x)ᵀ U (Φ_y(y) − Φ_y(y′) + Φ_t(x, y, y′)) prefers y to
    y′ where it is above 0, and argmax is a walk from the oldest fact to the newest that keeps the winner. Φ_t compares
    places in time; the last fact of x gives its time, and a question is asked after everything.

    The read is hard, so what it returns learns nothing from where it looked: the scores are trained by
    :meth:`preferences` on facts that are known to support the answer. Source: Weston, Chopra & Bordes 2014, sections
    3.1 and 3.4.
    """

    width: int
    match: Match
    hops: int = 2

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise RegardError(f"SupportMemory: hops is {self.hops}, wanted at least 1")
        d = self.match.question.shape[0]
        for name, columns in (
            ("question", self.width),
            ("support", self.width),
            ("candidate", self.width),
            ("time", 3),
        ):
            found = tuple(getattr(self.match, name).shape)
            if found != (d, columns):
                raise RegardError(f"SupportMemory: match.{name} is {found}, wanted ({d}, {columns})")

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Told:
        """No facts."""
        none = torch.empty(batch, 0, self.width, dtype=dtype, device=device)
        return Told(none, torch.zeros(batch, dtype=torch.long, device=device))

    def write(self, state: Told, features: Tensor, *, valid: Tensor | None = None) -> Told:
        """The state with L more facts (B, L, F) in its next places; none where ``valid`` (B, L) is False."""
        B = self.batch(state)
        if features.dim() != 3 or features.shape[0] != B or features.shape[2] != self.width:
            raise RegardError(f"SupportMemory: features are {tuple(features.shape)}, wanted ({B}, L, {self.width})")
        if valid is not None and (valid.dtype != torch.bool or valid.shape != features.shape[:2]):
            found, wanted = tuple(valid.shape), tuple(features.shape[:2])
            raise RegardError(f"SupportMemory: valid is {found} of {valid.dtype}, wanted booleans {wanted}")
        return Told(*appended(state.features, features, state.lengths, valid))

    def crop(self, state: Told, length: int | Tensor) -> Told:
        """The state with the first ``length`` facts of each row, as if no more had been written; (B,) for its own."""
        kept = lengths("SupportMemory", tuple(state.lengths.tolist()), length)
        now = torch.tensor(kept, dtype=torch.long, device=state.lengths.device)
        return Told(cropped(state.features, state.lengths, now), now)

    def chain(self, state: Told, question: Tensor) -> Tensor:
        """The facts that support the answer to questions (B, F), in the order found: (B, hops).

        They are counted from a row's first; −1 where a row has no facts.
        """
        self._check(state, question)
        B, S = state.features.shape[:2]
        if not S:
            return state.lengths.new_full((B, self.hops), -1)
        before = S - state.lengths
        found: list[Tensor] = []
        candidates = state.features @ self.match.candidate.mT
        x_place = torch.full((B,), S, device=question.device)
        for _ in range(self.hops):
            x = self.match.asked(question, self._at(state, found))
            best = before.clamp(max=S - 1)
            for i in range(S):
                y = torch.full_like(best, i)
                rather = self._preferred(x, candidates, x_place, y, best) > 0
                best = torch.where(rather & (y > before), y, best)
            found.append(best)
            x_place = best
        places = torch.stack([at - before for at in found], 1)
        return torch.where(state.lengths.unsqueeze(1) > 0, places, -1)

    def preferences(self, state: Told, question: Tensor, support: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """s(x, m_o, y′) and s(x, y′, m_o) for each hop's right fact m_o and every fact y′: (B, hops, S) each.

        ``support`` (B, hops) are the right facts, counted as in :meth:`chain`; x at hop k has the right facts of the
        hops before. The third is True where y′ is another fact than m_o.
        """
        self._check(state, question)
        B, S = state.features.shape[:2]
        if support.shape != (B, self.hops) or bool(((support < 0) | (support >= state.lengths.unsqueeze(1))).any()):
            raise RegardError(
                f"SupportMemory: support is {tuple(support.shape)}, wanted ({B}, {self.hops}), each a fact of its row, "
                "counted from 0"
            )
        right = support + (S - state.lengths).unsqueeze(1)
        candidates = state.features @ self.match.candidate.mT
        every = torch.arange(S, device=question.device).expand(B, S)
        for_right, for_other = [], []
        x_place = torch.full((B, 1), S, device=question.device)
        for k in range(self.hops):
            x = self.match.asked(question, self._at(state, list(right[:, :k].unbind(1))))
            here = right[:, k : k + 1].expand(B, S)
            for_right.append(self._preferred(x, candidates, x_place, here, every))
            for_other.append(self._preferred(x, candidates, x_place, every, here))
            x_place = right[:, k : k + 1]
        others = standing(S, state.lengths).unsqueeze(1) & (every.unsqueeze(1) != right.unsqueeze(-1))
        return torch.stack(for_right, 1), torch.stack(for_other, 1), others

    def read(self, state: Told, query: Tensor) -> Reading:
        """The last supporting fact of questions (B, F): φ(m_o), output (B, 1, 1, F), all the weight on it."""
        last = self.chain(state, query)[:, -1:]
        features = state.features if state.features.shape[1] else state.features.new_zeros(len(last), 1, self.width)
        S = features.shape[1]
        at = last + (S - state.lengths).unsqueeze(1)
        weights = (torch.arange(S, device=at.device) == at) & (last >= 0)
        why = "the winner was found by walking through pairs"
        found = by_weights(weights.to(features.dtype)[:, None, None], features.unsqueeze(1), why, "argmax")
        places = torch.where(last >= 0, at, -1).unsqueeze(1)
        return replace(found, seen=state.lengths.view(-1, 1, 1), peak_at=places)

    def cost(self, length: int) -> Cost:
        """A fact kept as it is, ``hops`` walks over ``length`` facts, turned once; single precision."""
        d = self.match.candidate.shape[0]
        return Cost(2.0 * length * d * (self.width + self.hops), 4.0 * length * self.width)

    def _preferred(self, x: Tensor, candidates: Tensor, x_place: Tensor, y: Tensor, other: Tensor) -> Tensor:
        """s(x, y, y′) for x (B, d) and places (B,), or (B, n) each: how much y is preferred to y′."""
        match = (candidates @ x.unsqueeze(-1)).squeeze(-1)
        when = x @ self.match.time
        one = y.dim() == 1
        if one:
            x_place, y, other = x_place.unsqueeze(1), y.unsqueeze(1), other.unsqueeze(1)
        places = [x_place < y, x_place < other, (y < other).long() - (y > other).long()]
        older = torch.stack([place.to(x.dtype) for place in places], -1)
        found = match.gather(1, y) - match.gather(1, other) + (older @ when.unsqueeze(-1)).squeeze(-1)
        return found.squeeze(1) if one else found

    def _at(self, state: Told, places: list[Tensor]) -> Tensor:
        """φ of the facts at these places (B,) each: (B, k, F)."""
        if not places:
            return state.features[:, :0]
        at = torch.stack(places, 1).unsqueeze(-1)
        return state.features.gather(1, at.expand(-1, -1, self.width))

    def _check(self, state: Told, question: Tensor) -> None:
        B = self.batch(state)
        if tuple(question.shape) != (B, self.width):
            raise RegardError(f"SupportMemory: question is {tuple(question.shape)}, wanted ({B}, {self.width})")
