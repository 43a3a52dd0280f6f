"""The Mamba block: a short convolution, a selective state space, a gate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError
from regard.memory.space import Discretization, Euler, SpaceState, StateSpaceMemory
from regard.numerics import wide


class BlockState(NamedTuple):
    """All a block knows of what went before: as much after a million steps as after one."""

    tail: Tensor
    """What the convolution still sees, (B, K − 1, E)."""
    memory: SpaceState
    """The state space's."""


class StateSpaceBlock(nn.Module, ABC):
    """o = W_o (y ∘ SiLU(z)), y_t = C_t h_t + D x̂_t, x̂ = SiLU(conv(x)), [x; z] = W_i u.

    What Δ, B and C are is for a kind of block to say (``selected``). Parameters have the names of Mamba's published
    code, so that its weights load.
    """

    def __init__(self, width: int, states: int, expand: int, kernel: int, discretization: Discretization) -> None:
        super().__init__()
        for name, value in (("width", width), ("states", states), ("expand", expand), ("kernel", kernel)):
            if value < 1:
                raise RegardError(f"{type(self).__name__}: {name} is {value}, wanted at least 1")
        self.width, self.states, self.inner, self.kernel = width, states, expand * width, kernel
        self.discretization = discretization
        self.in_proj = nn.Linear(width, 2 * self.inner, bias=False)
        self.conv1d = nn.Conv1d(self.inner, self.inner, kernel, groups=self.inner)
        self.A_log = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(self.inner, 1))
        self.D = nn.Parameter(torch.ones(self.inner))
        self.out_proj = nn.Linear(self.inner, width, bias=False)

    @abstractmethod
    def selected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Δ (B, L, E), B and C (B, L, N) for the convolved x (B, L, E)."""

    @property
    def memory(self) -> StateSpaceMemory:
        """The state space as it is now: one head, A = −exp(A_log)."""
        A = -torch.exp(wide(self.A_log)).unsqueeze(0)
        return StateSpaceMemory(1, self.states, self.inner, A, self.discretization)

    def reset(self, batch: int = 1) -> BlockState:
        """What is known before the first step."""
        tail = self.in_proj.weight.new_zeros(batch, self.kernel - 1, self.inner)
        return BlockState(tail, self.memory.reset(batch, dtype=tail.dtype, device=tail.device))

    def forward(self, x: Tensor, *, valid: Tensor | None = None) -> Tensor:
        """x (B, L, width) → (B, L, width), from the beginning."""
        return self.step(self.reset(x.shape[0]), x, valid=valid)[0]

    def step(self, state: BlockState, x: Tensor, *, valid: Tensor | None = None) -> tuple[Tensor, BlockState]:
        """The same for a chunk of any length that goes on from ``state``; what follows goes on from the new one.

        Steps where ``valid`` (B, L) is False take no place: they are not in the convolution, nor in the state space,
        and give 0.
        """
        self._check(state, x, valid)
        if valid is not None:
            x = x.masked_fill(~valid.unsqueeze(-1), 0)
        x, z = self.in_proj(x).chunk(2, -1)
        x, tail = self._convolved(state.tail, x, valid)
        x = F.silu(x)
        delta, k, q = self.selected(x)
        reading, memory = self.memory.step(
            state.memory, q.unsqueeze(1), k.unsqueeze(1), x.unsqueeze(1), delta=delta.unsqueeze(1), valid=valid
        )
        y = self.out_proj((reading.output.squeeze(1) + self.D * x).to(z.dtype) * F.silu(z))
        if valid is not None:
            y = y.masked_fill(~valid.unsqueeze(-1), 0)
        return y, BlockState(tail, memory)

    def _convolved(self, tail: Tensor, x: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """c_t = b + Σ_j w_j x_{t−K+1+j} of each channel, and the last K − 1 of x."""
        x = torch.cat([tail.to(x.dtype), x], 1)
        L, before = x.shape[1] - self.kernel + 1, self.kernel - 1
        place = None
        if valid is not None:  # what is not there goes to the front, where no step that is there sees it
            there = F.pad(valid, (before, 0), value=True)
            order = there.long().argsort(dim=1, stable=True)
            place = (order.argsort(1)[:, before:] - before).clamp(min=0)
            x = _taken(x, order)
        w, bias = self.conv1d.weight.squeeze(1), self.conv1d.bias
        assert bias is not None
        found = bias + w[:, 0] * x[:, :L]
        for j in range(1, self.kernel):
            found = found + w[:, j] * x[:, j : j + L]
        return found if place is None else _taken(found, place), x[:, L:]

    def _check(self, state: BlockState, x: Tensor, valid: Tensor | None) -> None:
        who = type(self).__name__
        if x.dim() != 3 or x.shape[-1] != self.width:
            raise RegardError(f"{who}: x is {tuple(x.shape)}, wanted (B, L, {self.width})")
        wanted = (x.shape[0], self.kernel - 1, self.inner)
        if tuple(state.tail.shape) != wanted:
            raise RegardError(
                f"{who}: the state's tail is {tuple(state.tail.shape)}, wanted {wanted}: one that this block's reset "
                "gave, for as many rows as x has"
            )
        if valid is not None and (valid.dtype != torch.bool or valid.shape != x.shape[:2]):
            raise RegardError(
                f"{who}: valid is {tuple(valid.shape)} of {valid.dtype}, wanted booleans {tuple(x.shape[:2])}, True "
                "where there is a step"
            )

    def extra_repr(self) -> str:
        return f"width={self.width}, states={self.states}, discretization={self.discretization}"


class Mamba(StateSpaceBlock):
    """A state space that selects: Δ_t = softplus(W_Δ W_r x̂_t + b), B_t = W_B x̂_t, C_t = W_C x̂_t.

    o = W_o (y ∘ SiLU(z)), y_t = C_t h_t + D x̂_t, h_t = exp(Δ_t A) h_{t−1} + B̄_t x̂_t, x̂ = SiLU(conv(x)), [x; z] = W_i u:
    E = expand · width channels of N states; Δ is each channel's own, B and C are shared by all. How long a step lasts,
    what it writes and what is read depend on what comes, so that it can pass over a step (Δ near 0) or start anew (Δ
    large).

    Args:
        width: of u and o.
        states: N.
        expand: E / width.
        kernel: K, steps the convolution of each channel sees, the present one the last.
        rank: of Δ's projection; ⌈width / 16⌉ when left out.
        discretization: ``Euler()`` (the default, as the published code has it) or ``ZeroOrderHold()`` of
            :mod:`regard.memory.space`.

    At first A is −1 … −N (S4D-real) and Δ's bias such that softplus(b) is log-uniform in [0.001, 0.1]; parameters have
    the names of the published code, so that its weights load. ``forward`` is the whole sequence; ``step`` goes on from
    a state of constant size, one step or many at a time, and gives the same. An empty row gives 0. A is kept below 0
    as −exp(A_log); ``A_log`` and ``D`` want no weight decay.

    Source: Gu & Dao 2023, figure 3 and sections 3.4 to 3.6.

    >>> import torch
    >>> layer = Mamba(8, states=4)
    >>> u = torch.randn(2, 5, 8)
    >>> state, found = layer.reset(2), []
    >>> for t in range(5):
    ...     o, state = layer.step(state, u[:, t : t + 1])
    ...     found.append(o)
    >>> torch.allclose(torch.cat(found, 1), layer(u), atol=1e-6)
    True
    """

    def __init__(
        self,
        width: int,
        *,
        states: int = 16,
        expand: int = 2,
        kernel: int = 4,
        rank: int | None = None,
        discretization: Discretization | None = None,
    ) -> None:
        super().__init__(width, states, expand, kernel, Euler() if discretization is None else discretization)
        self.rank = math.ceil(width / 16) if rank is None else rank
        if self.rank < 1:
            raise RegardError(f"Mamba: rank is {rank}, wanted at least 1")
        self.x_proj = nn.Linear(self.inner, self.rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(self.rank, self.inner)
        nn.init.uniform_(self.dt_proj.weight, -(self.rank**-0.5), self.rank**-0.5)
        with torch.no_grad():
            self.dt_proj.bias.copy_(first_steps(self.inner))

    def selected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        low, k, q = self.x_proj(x).split([self.rank, self.states, self.states], -1)
        # softplus in float32: in half precision a Δ of 0.001 would be a step of its rounding
        delta = F.softplus(wide(F.linear(low, self.dt_proj.weight)) + wide(self.dt_proj.bias))
        return delta, k, q


def first_steps(channels: int) -> Tensor:
    """b with softplus(b) log-uniform in [0.001, 0.1], (channels,)."""
    delta = torch.empty(channels).uniform_(math.log(1e-3), math.log(1e-1)).exp()
    return delta + torch.log(-torch.expm1(-delta))


def _taken(x: Tensor, at: Tensor) -> Tensor:
    """x (B, ·, E) at the places (B, L) of each row."""
    return x.gather(1, at.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
