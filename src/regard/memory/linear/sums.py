"""A memory that is read by features: two sums over what was written, of one size however much it was."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.base import Cost, PairMemory
from regard.memory.given import check_queries
from regard.memory.linear.features import FeatureMap
from regard.memory.linear.segments import over, wanted
from regard.memory.linear.walking import can_walk, in_kernel, walked
from regard.memory.linear.within import added, asked, averaged, causal, log_features, refused
from regard.numerics import as_written, wide
from regard.reading import Reading

CHUNK, STRETCH = 64, 512


class LinearState(NamedTuple):
    """What is kept of all pairs: Σ φ(kⱼ) vⱼᵀ = ``sums`` · e^top and Σ φ(kⱼ) = ``total`` · e^top."""

    sums: Tensor
    """(B, G, F, E)."""
    total: Tensor
    """(B, G, F)."""
    top: Tensor
    """The largest log φ(kⱼ) so far, (B, G, F); −∞ before the first."""
    seen: Tensor
    """How many pairs were written, (B,)."""
    mark: int
    """Of the feature map that wrote it."""


class FeatureMemory(PairMemory[LinearState]):
    """w_ij ∝ φ(qᵢ)·φ(kⱼ), whatever φ is. Sums are in float32, or in float64 where that was given."""

    @property
    @abstractmethod
    def map(self) -> FeatureMap:
        """φ."""

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> LinearState:
        kind = torch.float64 if dtype == torch.float64 else torch.float32
        G, F, E = self.heads, self.map.size(self.width), self.value_width
        return LinearState(
            torch.zeros(batch, G, F, E, dtype=kind, device=device),
            torch.zeros(batch, G, F, dtype=kind, device=device),
            torch.full((batch, G, F), -math.inf, dtype=kind, device=device),
            torch.zeros(batch, dtype=torch.int64, device=device),
            self.map.mark,
        )

    def write(self, state: LinearState, k: Tensor, v: Tensor, *, valid: Tensor | None = None) -> LinearState:
        """S ← S + Σ φ(k) vᵀ, z ← z + Σ φ(k): keys (B, G, L, D), values (B, G, L, E)."""
        self.check(state, None, k, v, valid)
        if not k.shape[2]:
            return state
        kind = _kind(state, k, v)
        with as_written(k.device):
            a = log_features(self.map, cleared(k.to(kind), valid), valid)
            sums = (state.sums.to(kind), state.total.to(kind), state.top.to(kind))
            return self._next(state, added(sums, a, cleared(v.to(kind), valid)), valid, k.shape[2])

    def read(self, state: LinearState, q: Tensor) -> Reading:
        """o = φ(q)ᵀ S / φ(q)ᵀ z, lse = log φ(q)ᵀ z; of an empty memory 0 and −∞."""
        self._check_mark(state)
        check_queries(type(self).__name__, q, self.batch(state), self.heads, self.width)
        B, H, L, _ = q.shape
        with as_written(q.device):
            kind = _kind(state, q)
            b = self.map.log(q.to(kind)).reshape(B, self.heads, -1, self.map.size(self.width))
            num, den, c = asked((state.sums.to(kind), state.total.to(kind), state.top.to(kind)), b)
            there = (state.seen > 0)[:, None, None].expand_as(den)
            output, lse = averaged(type(self).__name__, num, den, c, there)
        seen = state.seen[:, None, None].expand(B, H, L)
        return self._reading(output.reshape(B, H, L, self.value_width), lse.reshape(B, H, L), seen, q.dtype)

    def step(
        self, state: LinearState, q: Tensor, k: Tensor, v: Tensor, *, valid: Tensor | None = None
    ) -> tuple[Reading, LinearState]:
        """Pair by pair in effect, in chunks in fact: L · (F E + C F) work and O(L) memory, backward too."""
        self.check(state, q, k, v, valid)
        if not k.shape[2]:
            return self.read(state, q), state
        if k.shape[2] == 1:
            return super().step(state, q, k, v, valid=valid) if valid is not None else self._one(state, q, k, v)
        B, H, L, _ = q.shape
        who, kind, there = type(self).__name__, _kind(state, q, k, v), None if valid is None else valid.unsqueeze(1)

        def ready(given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
            *pairs, here = given
            flat = None if here is None else here[:, 0]
            q, k, v = (cleared(x.to(kind), flat) for x in pairs)
            return q, k, v, flat

        def body(sums: Any, given: Any) -> Any:
            q, k, v, flat = ready(given)
            found, after = causal(sums, (self.map.log(q), log_features(self.map, k, flat), v, given[3]), CHUNK)
            return averaged(who, *found, None if flat is None else given[3].expand(found[1].shape)), after

        def plain(sums: Any, given: Any) -> Any:
            if not can_walk(given[0]):
                return body(sums, given)
            q, k, v, flat = ready(given)
            found = walked(self.map, sums, q, k, v, flat)
            if found is None:
                return over(body, sums, given, [*range(0, q.shape[2], STRETCH), q.shape[2]])
            if not self.map.positive:
                nothing = found[0][1] == -math.inf
                refused(who, nothing if flat is None else nothing & given[3])
            return found

        edges = [*range(0, L, STRETCH), L]
        with as_written(q.device):
            sums = (state.sums.to(kind), state.total.to(kind), state.top.to(kind))
            given = (q, k, v, there)
            if can_walk(q) and not wanted(*sums, *given):
                # Features made before the kernel are kept small; going to and fro between it and PyTorch has its price.
                edges = [0, L] if in_kernel(self.map) else [*range(0, L, 4 * STRETCH), L]
            (output, lse), after = over(body, sums, given, edges, plain)
        count = torch.arange(1, L + 1, device=k.device) if valid is None else valid.long().cumsum(-1)
        seen = (state.seen[:, None] + count).unsqueeze(1).expand(B, H, L)
        seen = seen if there is None else torch.where(there, seen, 0)
        return self._reading(output, lse, seen, q.dtype), self._next(state, (after[0], after[1], after[2]), valid, L)

    def _one(self, state: LinearState, q: Tensor, k: Tensor, v: Tensor) -> tuple[Reading, LinearState]:
        """A step of one pair in every row, checked already: what is read is never empty."""
        B, H = q.shape[:2]
        kind = _kind(state, q, k, v)
        with as_written(k.device):
            before = state.sums.to(kind), state.total.to(kind), state.top.to(kind)
            sums = added(before, self.map.log(k.to(kind)), v.to(kind))
            num, den, c = asked(sums, self.map.log(q.to(kind)).reshape(B, self.heads, H // self.heads, -1))
            output, lse = averaged(type(self).__name__, num, den, c, None)
        after = self._next(state, sums, None, 1)
        seen = after.seen[:, None, None].expand(B, H, 1)
        return self._reading(output.reshape(B, H, 1, self.value_width), lse.reshape(B, H, 1), seen, q.dtype), after

    def cost(self, length: int) -> Cost:
        """A pair written and a query read for each of G heads; the state is moved three times, at any length."""
        F, E = self.map.size(self.width), self.value_width
        flops = 2 * self.map.flops(self.width) + 4.0 * F * (E + 1)
        return Cost(self.heads * flops, 12.0 * self.heads * F * (E + 2))

    def check(self, state: LinearState, q: Tensor | None, k: Tensor, v: Tensor, valid: Tensor | None) -> None:
        self._check_mark(state)
        super().check(state, q, k, v, valid)

    def _check_mark(self, state: LinearState) -> None:
        if state.mark != self.map.mark:
            raise RegardError(
                f"{type(self).__name__}: the state was written by another feature map (or another draw of it), wanted "
                f"that of {self.map!r}; reset() after redraw() and write again"
            )

    def _next(
        self, state: LinearState, sums: tuple[Tensor, Tensor, Tensor], valid: Tensor | None, L: int
    ) -> LinearState:
        return LinearState(
            sums[0], sums[1], sums[2].detach(), state.seen + (L if valid is None else valid.sum(-1)), state.mark
        )

    def _reading(self, output: Tensor, lse: Tensor, seen: Tensor, dtype: torch.dtype) -> Reading:
        return Reading(output=output.to(dtype), lse=lse, seen=seen, engine="linear")


def _kind(state: LinearState, *given: Tensor) -> torch.dtype:
    """What is computed in: float32, or float64 if the state or anything given is."""
    kind = state.sums.dtype
    for x in given:
        kind = torch.promote_types(kind, wide(x).dtype)
    return kind


def cleared(x: Tensor, valid: Tensor | None) -> Tensor:
    """x (B, G, L, ·) with 0 where ``valid`` (B, L) is False: what is not there may hold anything, NaN too."""
    return x if valid is None else torch.where(valid[:, None, :, None], x, 0.0)


def check_sizes(who: str, heads: int, width: int, value_width: int) -> None:
    """Raises where a memory is built with no heads or no width."""
    for name, value in (("heads", heads), ("width", width), ("value_width", value_width)):
        if not isinstance(value, int) or value < 1:
            raise RegardError(f"{who}: {name} is {value!r}, wanted an integer of at least 1")
