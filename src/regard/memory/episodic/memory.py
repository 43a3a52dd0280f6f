"""A memory of facts that is asked several times, each answer becoming part of the next question (MemN2N)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import mask as masks
from regard import normalize as normalizers
from regard import operator
from regard.errors import RegardError
from regard.memory.base import Cost, Memory
from regard.memory.episodic.encoding import TimeTable
from regard.memory.episodic.rows import appended, cropped, standing
from regard.memory.given import check_pairs, lengths
from regard.normalize import Normalizer
from regard.reading import Reading

Telemetry = bool | str | tuple[str, ...]
LOOKED = ("entropy", "peak")
"""What a recall measures of each look, when nothing else is asked for."""


class Facts(NamedTuple):
    """What was written, the newest at the right end of every row."""

    keys: Tensor
    """(B, K, S, D), a set for every hop."""
    values: Tensor
    """(B, K, S, D)."""
    lengths: Tensor
    """How many facts a row has, integers (B,); what lies left of them holds nothing."""


class Recall(NamedTuple):
    """What K hops found."""

    query: Tensor
    """u after the last hop, (B, L, D)."""
    hops: tuple[Reading, ...]
    """The reading of every hop, of one head: output o (B, 1, L, D)."""


@dataclass(frozen=True, eq=False)
class EpisodicMemory(Memory[Facts]):
    """K hops over facts: p = softmax_i(uᵀ m_i), o = Σ_i p_i c_i, u ← u + o, every hop with its own m and c.

    Args:
        width: D, of questions, keys and values.
        hops: K.
        slots: how many facts are kept, the newest ones; all when left out.
        times: what a fact's age adds to its key and its value, a :class:`TimeTable`; without one, facts have no order.
        normalize: an object of :mod:`regard.normalize` or its name; :class:`Linear` for a linear start.
        engine: which of regard's engines reads; over a few facts ``"reference"`` is done before ``"auto"`` has chosen.
        carry: H of u ← H u + o, what becomes of a question from hop to hop; it stays when left out.

    A fact's age is how many facts were written after it, and known only when it is asked for, so time is added at the
    read. A row without facts reads 0, and its question comes back as it was. The order in which facts are
    kept does not count, their ages do.

    Facts in half precision are kept as they are given, and read as :func:`regard.attend` reads them.

    Source: Sukhbaatar et al. 2015, sections 2 and 4.1.

    >>> lamp, anna, hall = torch.eye(3)
    >>> nothing = torch.zeros(3)
    >>> keys = torch.stack([torch.stack([lamp, nothing]), torch.stack([nothing, anna])])  # a set for each hop
    >>> values = torch.stack([anna, hall]).expand(2, -1, -1)
    >>> memory = EpisodicMemory(width=3, hops=2)
    >>> state = memory.write(memory.reset(), 9 * keys[None], values[None])
    >>> found = memory.recall(state, lamp.view(1, 1, 3))
    >>> [int(hop.peak_at) for hop in found.hops], found.query.round(decimals=2)
    ([0, 1], tensor([[[1., 1., 1.]]]))
    """

    width: int
    hops: int = 3
    slots: int | None = None
    times: TimeTable | None = None
    normalize: Normalizer | str = "softmax"
    engine: str = "auto"
    carry: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        for name, value in (("width", self.width), ("hops", self.hops), ("slots", self.slots)):
            if value is not None and value < 1:
                raise RegardError(f"EpisodicMemory: {name} is {value}, wanted at least 1")
        normalizers.named(self.normalize)
        if self.times is not None:
            K, N, D = self.times.keys.shape
            if (self.hops, self.width) != (K, D) or (self.slots or 0) > N:
                raise RegardError(
                    f"EpisodicMemory: times are for {K} hops, {N} ages and width {D}, wanted {self.hops} hops, width "
                    f"{self.width}, and as many ages as slots ({self.slots})"
                )

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Facts:
        """No facts."""
        none = torch.empty(batch, self.hops, 0, self.width, dtype=dtype, device=device)
        return Facts(none, none, torch.zeros(batch, dtype=torch.long, device=device))

    def write(self, state: Facts, k: Tensor, v: Tensor, *, valid: Tensor | None = None) -> Facts:
        """The state after L facts, keys and values (B, K, L, D), in their order; the newest ``slots`` stay.

        ``valid`` (B, L) is False where a row has no fact: none is written there, and it takes no place in time.
        """
        B = self.batch(state)
        check_pairs("EpisodicMemory", k, v, (B, self.hops), (self.width, self.width), valid)
        held, new = torch.cat([state.keys, state.values], -1), torch.cat([k, v], -1)
        both, count = appended(held, new, state.lengths, valid)
        keys, values = both.split(self.width, -1)
        if self.slots is not None:
            keys, values = keys[:, :, -self.slots :], values[:, :, -self.slots :]
            count = count.clamp(max=self.slots)
        return Facts(keys, values, count)

    def crop(self, state: Facts, length: int | Tensor) -> Facts:
        """The state with the first ``length`` facts of each row, as if no more had been written; (B,) for its own.

        Refused where a row is full: what it let go for its newest facts would be missing.
        """
        held = tuple(state.lengths.tolist())
        kept = lengths("EpisodicMemory", held, length)
        for b, (before, after) in enumerate(zip(held, kept, strict=True)):
            if after < before == self.slots:
                raise RegardError(
                    f"EpisodicMemory: crop of row {b} to {after} may need facts that were let go: it holds {before}, "
                    f"as many as there are slots; crop before it is full, or keep the state of before"
                )
        now = torch.tensor(kept, dtype=torch.long, device=state.lengths.device)
        return Facts(cropped(state.keys, state.lengths, now), cropped(state.values, state.lengths, now), now)

    def ages(self, state: Facts) -> Tensor:
        """How many facts were written after each, (S,): S − 1 for the oldest place, 0 for the newest."""
        return torch.arange(state.keys.shape[2] - 1, -1, -1, device=state.keys.device)

    def recall(
        self,
        state: Facts,
        u: Tensor,
        *,
        ages: Tensor | None = None,
        telemetry: Telemetry = LOOKED,
        groups: Mapping[str, Tensor] | None = None,
    ) -> Recall:
        """K hops from questions u (B, L, D): the question at their end, and the reading of each.

        ``ages`` (S,) or (B, S) are the facts' own when left out; in training they come from :func:`with_empty`.
        ``telemetry`` and ``groups``, booleans over the places (B, S), are those of :func:`regard.read`.
        """
        B, _, S, D = state.keys.shape
        if u.dim() != 3 or u.shape[0] != B or u.shape[2] != D or not u.is_floating_point():
            raise RegardError(f"EpisodicMemory: u is {tuple(u.shape)} of {u.dtype}, wanted numbers ({B}, L, {D})")
        keys, values = state.keys, state.values
        ages = self.ages(state) if ages is None else ages
        if tuple(ages.shape) not in ((S,), (B, S)) or ages.dtype != torch.int64:
            raise RegardError(
                f"EpisodicMemory: ages are {tuple(ages.shape)} of {ages.dtype}, wanted int64 ({S},) or ({B}, {S})"
            )
        if self.times is not None:
            key_times, value_times = self.times.at(ages)
            keys, values = keys + key_times, values + value_times
        mask = masks.dense(standing(S, state.lengths)[:, None, None])
        parts: dict[str, Any] = {"score": "dot", "normalize": self.normalize, "engine": self.engine}
        look = partial(operator.read, mask=mask, telemetry=telemetry, groups=groups, **parts)
        readings = []
        for k, v in zip(keys.split(1, 1), values.split(1, 1), strict=True):
            reading: Reading = look(q=u.unsqueeze(1), k=k, v=v)
            readings.append(reading)
            u = (u if self.carry is None else self.carry(u)) + reading.output.squeeze(1)
        return Recall(u, tuple(readings))

    def read(self, state: Facts, query: Tensor) -> Reading:
        """The reading of the last hop, for questions (B, L, D)."""
        return self.recall(state, query).hops[-1]

    def cost(self, length: int) -> Cost:
        """A fact written, and K hops over ``length`` facts (no more than ``slots``); single precision."""
        n = length if self.slots is None else min(length, self.slots)
        touched = 2 * self.hops * self.width
        return Cost(2.0 * n * touched, 4.0 * (n + 1) * touched)
