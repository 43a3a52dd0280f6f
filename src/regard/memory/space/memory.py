"""A selective state space as a memory of pairs: written by B_t and x_t for a time Δ_t, read by C_t."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError, unknown_name
from regard.memory.base import Cost, PairMemory
from regard.memory.given import check_queries
from regard.memory.readings import unweighted, where_valid
from regard.memory.space import scan as scans
from regard.memory.space.discretization import Discretization, Euler, ZeroOrderHold
from regard.reading import Reading

_SCANS = ("auto", "kernel", "associative", "sequential")
_NO_WEIGHTS = (
    "what a state space gives each value, C_t (∏ Ā) B̄_s, may be negative and does not sum to 1, so there is no "
    "log-sum-exp"
)


class SpaceState(NamedTuple):
    """All that is kept, however much was written."""

    h: Tensor
    """(B, H, E, N), float32 or wider."""
    seen: Tensor
    """How many pairs each row was told, integers (B,)."""


@dataclass(frozen=True, eq=False)
class StateSpaceMemory(PairMemory[SpaceState]):
    """h_t = Ā_t h_{t−1} + B̄_t x_t, y_t = C_t h_t, per channel, with a state of N numbers (Mamba's S6).

    Keys are B_t (B, G, L, N), values x_t (B, G, L, E), queries C_t (B, H, L, N); ``delta`` is Δ_t (B, G, L, E), ≥ 0,
    each channel's own; left out, it is 1, and a step lasts as long as any other. The E channels of a head share B and
    C: Mamba is one head. H is a multiple of G, and query head h reads head h // (H // G).

    Args:
        heads: G.
        width: N, states a channel.
        value_width: E, channels a head; N when left out.
        A: the diagonal (G, E, N), real and negative, so that what was written decays; −1 … −N when left out (S4D-real).
        discretization: how Ā and B̄ come from Δ, A and B: :class:`Euler` (the default, as Mamba's code has it) or
            :class:`ZeroOrderHold` (as its text has it), or one of your own.
        scan: what runs a chunk. ``"kernel"``: a compiled loop over time, on the CPU, that keeps nothing of size
            (L, E, N), forward or backward. ``"associative"``: in parallel in plain PyTorch, on any device, and
            ``"sequential"``: step by step; both make all the states. ``"auto"``: the kernel where it can. What ran is
            in the reading's ``engine``. Any split into chunks gives the same.

    It is no attention: y = M x with M[t, s] = C_t (∏ Ā) B̄_s, which has negative entries and rows that do not sum to 1
    (:meth:`matrix`), so a reading has no log-sum-exp and cannot be merged. What is not ``valid`` leaves the state alone
    and reads 0; an empty state reads 0. Half precision is widened: all is computed, and the state kept, in float32, and
    what is read is rounded to the query's precision.

    Source: Gu & Dao 2023 (equations 2 and 4, algorithm 2).

    >>> memory = StateSpaceMemory(heads=1, width=1, value_width=1)
    >>> state = memory.write(memory.reset(), torch.ones(1, 1, 1, 1), torch.full((1, 1, 1, 1), 8.0))
    >>> state = memory.write(state, torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))  # a step passes: e^{−1} · 8
    >>> memory.read(state, torch.ones(1, 1, 1, 1)).output
    tensor([[[[2.9430]]]])
    """

    heads: int
    width: int
    value_width: int = None  # type: ignore[assignment]  # it is a number from __post_init__ on, as A is a tensor
    A: Tensor = None  # type: ignore[assignment]  # and a tensor from there on
    discretization: Discretization = field(default_factory=Euler)
    scan: str = "auto"

    def __post_init__(self) -> None:
        E = self.width if self.value_width is None else self.value_width
        object.__setattr__(self, "value_width", E)
        if self.heads < 1 or self.width < 1 or E < 1:
            raise RegardError(
                f"StateSpaceMemory: heads, width, value_width are {self.heads}, {self.width}, {E}, wanted each ≥ 1"
            )
        if self.A is None:
            object.__setattr__(self, "A", -torch.arange(1.0, self.width + 1).expand(self.heads, E, self.width))
        if self.scan not in _SCANS:
            raise unknown_name("scan", self.scan, _SCANS)
        wanted = (self.heads, E, self.width)
        if not isinstance(self.A, Tensor) or tuple(self.A.shape) != wanted or not self.A.is_floating_point():
            found = f"{tuple(self.A.shape)} of {self.A.dtype}" if isinstance(self.A, Tensor) else repr(self.A)
            raise RegardError(f"StateSpaceMemory: A is {found}, wanted a floating tensor {wanted}: heads, E and N")
        if not torch.compiler.is_compiling() and not bool(((self.A < 0) & self.A.isfinite()).all()):
            raise RegardError(
                "StateSpaceMemory: A has numbers that are not below 0, with which a state never decays; wanted all "
                "finite and negative, such as −exp(A_log)"
            )
        if not isinstance(self.discretization, Discretization):
            raise RegardError(
                f"StateSpaceMemory: discretization is {self.discretization!r}, wanted an object such as Euler() or "
                "ZeroOrderHold()"
            )

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> SpaceState:
        wide = torch.promote_types(dtype or self.A.dtype, torch.float32)
        device = self.A.device if device is None else device
        h = torch.zeros(batch, self.heads, self.value_width, self.width, dtype=wide, device=device)
        return SpaceState(h, torch.zeros(batch, dtype=torch.int64, device=device))

    def write(
        self, state: SpaceState, k: Tensor, v: Tensor, *, delta: Tensor | None = None, valid: Tensor | None = None
    ) -> SpaceState:
        return self._run(state, None, k, v, delta, valid)[2]

    def read(self, state: SpaceState, q: Tensor) -> Reading:
        check_queries("StateSpaceMemory", q, self.batch(state), self.heads, self.width)
        wide = torch.promote_types(state.h.dtype, q.dtype)
        apart = q.to(wide).unflatten(1, (self.heads, -1))
        y = torch.einsum("bgrln,bgen->bgrle", apart, state.h.to(wide)).flatten(1, 2)
        return unweighted(y.to(q.dtype), state.seen[:, None, None], _NO_WEIGHTS, "state space")

    def step(
        self,
        state: SpaceState,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        delta: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> tuple[Reading, SpaceState]:
        y, ran, after = self._run(state, q, k, v, delta, valid)
        there = torch.ones_like(state.seen[:, None].expand(-1, k.shape[2])) if valid is None else valid
        seen = state.seen[:, None] + there.cumsum(1)
        reading = unweighted(y.to(q.dtype), seen[:, None], _NO_WEIGHTS, f"state space, {ran} scan")
        return where_valid(reading, valid), after

    def matrix(self, q: Tensor, k: Tensor, delta: Tensor | None = None) -> Tensor:
        """M[t, s] = C_t (∏_{s<r≤t} Ā_r) B̄_s for every channel, (B, G, E, L, L): y = M x from an empty state.

        Queries and keys (B, G, L, N). Dense, to look at: M is lower triangular, its entries have either sign.

        >>> memory = StateSpaceMemory(heads=1, width=1)
        >>> ones = torch.ones(1, 1, 3, 1)
        >>> memory.matrix(ones, -ones)[0, 0, 0]
        tensor([[-1.0000,  0.0000,  0.0000],
                [-0.3679, -1.0000,  0.0000],
                [-0.1353, -0.3679, -1.0000]])
        """
        delta = self._delta(k.new_empty(*k.shape[:3], self.value_width), delta)
        decay, gain = self.discretization(delta.unsqueeze(-1), self.A.unsqueeze(1))  # (B, G, L, E, N)
        written = (gain * k.unsqueeze(-2)).movedim(2, -1)  # (B, G, E, N, S)
        rows = []
        left = torch.zeros_like(written)
        for t in range(k.shape[2]):
            here = torch.arange(k.shape[2], device=k.device) == t
            left = torch.where(here, written, left * decay[:, :, t].unsqueeze(-1))
            rows.append(torch.einsum("bgn,bgens->bges", q[:, :, t], left))
        return torch.stack(rows, -2)

    def cost(self, length: int) -> Cost:
        """The same at any length: 8 operations a state (its exponential counted as one), which is read and written."""
        E, N = self.value_width, self.width
        states, item = self.heads * E * N, 4.0
        return Cost(8.0 * states, item * (3 * states + self.heads * (3 * E + 2 * N)))

    def _run(
        self, state: SpaceState, q: Tensor | None, k: Tensor, v: Tensor, delta: Tensor | None, valid: Tensor | None
    ) -> tuple[Tensor, str, SpaceState]:
        self.check(state, q, k, v, valid)
        delta = self._delta(v, delta)
        ask = torch.zeros_like(k) if q is None else q
        told: int | Tensor = k.shape[2]
        if valid is not None:
            told = valid.sum(1)
            nothing = ~valid[:, None, :, None]  # a Δ of 0 leaves a state as it is; what stands in padding goes nowhere
            ask, k, v, delta = (x.masked_fill(nothing, 0) for x in (ask, k, v, delta))
        A, h = self.A, state.h
        wide = reduce(torch.promote_types, (x.dtype for x in (ask, k, v, delta, A, h)))
        ask, k, v, delta, A, h = (x.to(wide) for x in (ask, k, v, delta, A, h))
        R = ask.shape[1] // self.heads
        if R > 1:
            k, v, delta, h = (x.repeat_interleave(R, 1) for x in (k, v, delta, h))
            A = A.repeat_interleave(R, 0)
        ran = self._scan(k)
        if ran == "kernel":
            from regard.memory.space.ops import EVERY, selective_scan

            given = (ask, k, v, delta, A, h)
            learns = torch.is_grad_enabled() and any(x.requires_grad for x in given)
            y, h, _ = selective_scan(*given, EVERY if learns else 0, isinstance(self.discretization, ZeroOrderHold))
        else:
            run = scans.in_parallel if ran == "associative" else scans.one_by_one
            y, h = run(ask, k, v, delta, A, h, self.discretization)
        return y, ran, SpaceState(h[:, ::R], state.seen + told)

    def _scan(self, k: Tensor) -> str:
        """What runs a chunk; raises where the kernel was asked for by name and cannot."""
        if self.scan not in ("auto", "kernel"):
            return self.scan
        problem = ""
        if k.device.type != "cpu":
            problem = f"runs on the CPU, the keys are on {k.device}"
        elif type(self.discretization) not in (Euler, ZeroOrderHold):
            problem = f"knows Euler() and ZeroOrderHold(), found {self.discretization!r}"
        if problem and self.scan == "kernel":
            raise RegardError(f'StateSpaceMemory: scan="kernel" {problem}; take scan="associative"')
        return "associative" if problem else "kernel"

    def _delta(self, v: Tensor, delta: Tensor | None) -> Tensor:
        if delta is None:
            return torch.ones_like(v)
        if delta.shape != v.shape or not delta.is_floating_point():
            raise RegardError(
                f"StateSpaceMemory: delta is {tuple(delta.shape)} of {delta.dtype}, wanted a floating tensor "
                f"{tuple(v.shape)}: one Δ a channel and step"
            )
        if not torch.compiler.is_compiling() and delta.numel() and bool(delta.detach().amin() < 0):
            raise RegardError(
                f"StateSpaceMemory: delta has {float(delta.detach().amin()):.3g}, wanted all ≥ 0, such as "
                "softplus(…): time does not go backwards"
            )
        return delta

    def check(self, state: SpaceState, q: Tensor | None, k: Tensor, v: Tensor, valid: Tensor | None) -> None:
        wanted = (self.heads, self.value_width, self.width)
        if state.h.dim() != 4 or tuple(state.h.shape[1:]) != wanted:
            raise RegardError(
                f"StateSpaceMemory: the state is {tuple(state.h.shape)}, wanted (B, {wanted[0]}, {wanted[1]}, "
                f"{wanted[2]}): one that this memory's reset gave"
            )
        super().check(state, q, k, v, valid)
