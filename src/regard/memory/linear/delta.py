"""The delta rule: a matrix that is told, under each key, what it had wrong (Schlag et al. 2021, Yang et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import RegardError, unknown_name
from regard.memory.base import Cost, PairMemory
from regard.memory.given import check_queries
from regard.memory.linear.segments import over
from regard.memory.linear.sums import check_sizes, cleared
from regard.memory.readings import unweighted, where_valid
from regard.numerics import as_written, wide
from regard.reading import Reading

CHUNK, STRETCH = 64, 512
WHY = "the delta rule takes back what a key held before, so that its read is no weighted average of the values"


class DeltaState(NamedTuple):
    """S, which maps a key to its value."""

    matrix: Tensor
    """(B, G, D, E)."""
    seen: Tensor
    """How many pairs were written, (B,)."""


@dataclass(frozen=True, eq=False)
class DeltaMemory(PairMemory[DeltaState]):
    """S ← S + β k (v − Sᵀk)ᵀ, o = Sᵀq: what is written under a key replaces, by β, what was read under it.

    With ‖k‖ = 1 and β = 1 a read of k gives exactly v. ``keys`` says what a key is: ``"unit"`` divides keys and queries
    by their length, as Yang et al. (2024) do, a zero key writing and reading nothing; ``"given"`` takes them as they
    are, for Schlag et al. (2021) with keys and queries φ(x) / Σφ(x). There β ‖k‖² must stay within 2, or what is kept
    grows. ``step`` runs in chunks by the WY form of Yang et al., with O(L) memory, backward too.

    β (B, G, L), in [0, 2], is given with the pairs; 1 when left out. A read is no weighted average (lse is NaN, no
    merge); an empty memory reads 0. Kept in float32, or in float64 where that was given.

    >>> import torch
    >>> memory, k = DeltaMemory(heads=1, width=3), torch.tensor([[[[1.0, 2.0, 2.0]]]])
    >>> state = memory.reset()
    >>> for value in (5.0, 7.0):
    ...     state = memory.write(state, k, torch.full((1, 1, 1, 3), value))
    >>> torch.allclose(memory.read(state, k).output, torch.tensor(7.0))
    True
    """

    heads: int
    width: int
    value_width: int = None  # type: ignore[assignment]  # as wide as a key when left out; an integer once it is built
    keys: Literal["unit", "given"] = field(default="unit", kw_only=True)

    def __post_init__(self) -> None:
        if self.value_width is None:
            object.__setattr__(self, "value_width", self.width)
        check_sizes("DeltaMemory", self.heads, self.width, self.value_width)
        if self.keys not in ("unit", "given"):
            raise unknown_name("DeltaMemory: keys", self.keys, ("unit", "given"))

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> DeltaState:
        kind = torch.float64 if dtype == torch.float64 else torch.float32
        matrix = torch.zeros(batch, self.heads, self.width, self.value_width, dtype=kind, device=device)
        return DeltaState(matrix, torch.zeros(batch, dtype=torch.int64, device=device))

    def write(
        self, state: DeltaState, k: Tensor, v: Tensor, *, beta: Tensor | None = None, valid: Tensor | None = None
    ) -> DeltaState:
        """The state after the pairs were written in their order, pair t by ``beta[..., t]``."""
        self.check(state, None, k, v, valid)
        return self._run(state, None, k, v, beta, valid)[1]

    def read(self, state: DeltaState, q: Tensor) -> Reading:
        """o = Sᵀq (B, H, L, E)."""
        check_queries("DeltaMemory", q, self.batch(state), self.heads, self.width)
        B, H, L, _ = q.shape
        with as_written(q.device):
            kind = torch.promote_types(state.matrix.dtype, wide(q).dtype)
            asked = self._turned(q.to(kind)).reshape(B, self.heads, -1, self.width)
            output = (asked @ state.matrix.to(kind)).reshape(B, H, L, self.value_width)
        return unweighted(output.to(q.dtype), state.seen[:, None, None].expand(B, H, L), WHY, "delta")

    def step(
        self,
        state: DeltaState,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        beta: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> tuple[Reading, DeltaState]:
        """Pair by pair in effect, in chunks in fact."""
        self.check(state, q, k, v, valid)
        output, after = self._run(state, q, k, v, beta, valid)
        B, H, L, _ = q.shape
        count = torch.arange(1, L + 1, device=q.device) if valid is None else valid.long().cumsum(-1)
        seen = (state.seen[:, None] + count).unsqueeze(1).expand(B, H, L)
        reading = unweighted(output, seen, WHY, "delta")
        return where_valid(reading, valid), after

    def cost(self, length: int) -> Cost:
        """A pair written and a query read for each of G heads; the state is moved three times, at any length."""
        D, E = self.width, self.value_width
        return Cost(self.heads * (6.0 * D * E + 6.0 * D), 12.0 * self.heads * D * E)

    def _run(
        self, state: DeltaState, q: Tensor | None, k: Tensor, v: Tensor, beta: Tensor | None, valid: Tensor | None
    ) -> tuple[Tensor, DeltaState]:
        """What the queries read (nothing without queries), and the next state."""
        self._check_beta(beta, k)
        B, G, L, _ = k.shape
        if not L:
            return v.new_empty(B, G if q is None else q.shape[1], 0, self.value_width), state
        kind = state.matrix.dtype
        for x in (k, v) if q is None else (q, k, v):
            kind = torch.promote_types(kind, wide(x).dtype)
        q = k[:, :, :, :0] if q is None else q
        reads = q.shape[-1] > 0
        here = None if valid is None else valid.unsqueeze(1)
        if beta is None:
            beta = torch.ones(B, G, L, dtype=kind, device=k.device)

        def body(state: Any, given: Any) -> Any:
            q, k, v, beta, here = given
            there = None if here is None else here[:, 0]
            k, v = self._turned(cleared(k.to(kind), there)), cleared(v.to(kind), there)
            asked = self._turned(cleared(q.to(kind), there)) if reads else None
            by = cleared(beta.to(kind).unsqueeze(-1), there)
            return one(state[0], asked, k, v, by) if L == 1 else chunked(state[0], asked, k, v, by, CHUNK)

        with as_written(k.device):
            edges = [*range(0, L, STRETCH), L]
            (output,), (matrix,) = over(body, (state.matrix.to(kind),), (q, k, v, beta, here), edges)
        seen = state.seen + (L if valid is None else valid.sum(-1))
        return output.to(q.dtype), DeltaState(matrix, seen)

    def _turned(self, x: Tensor) -> Tensor:
        return unit(x) if self.keys == "unit" else x

    def _check_beta(self, beta: Tensor | None, k: Tensor) -> None:
        if beta is None:
            return
        if tuple(beta.shape) != tuple(k.shape[:3]) or not beta.is_floating_point():
            raise RegardError(
                f"DeltaMemory: beta is {tuple(beta.shape)} of {beta.dtype}, wanted a floating tensor "
                f"{tuple(k.shape[:3])}, a number for each pair of each head"
            )
        if not bool(((beta >= 0) & (beta <= 2)).all()):
            raise RegardError(
                f"DeltaMemory: beta has numbers from {float(beta.min()):.3g} to {float(beta.max()):.3g}, wanted them "
                "in [0, 2], where what is kept does not grow; a sigmoid keeps them in [0, 1]"
            )


def unit(x: Tensor) -> Tensor:
    """x / ‖x‖ along the last axis, by way of its largest number, so that no square is lost; 0 for 0."""
    most = x.detach().abs().amax(-1, keepdim=True)
    x = x / torch.where(most > 0, most, 1.0)
    square = (x * x).sum(-1, keepdim=True)
    return x * torch.where(square > 0, square, 1.0).rsqrt()


def one(matrix: Tensor, q: Tensor | None, k: Tensor, v: Tensor, beta: Tensor) -> tuple[tuple[Tensor], tuple[Tensor]]:
    """The same as :func:`chunked` for one pair: S ← S + k (β (v − Sᵀk))ᵀ, and o = Sᵀq."""
    matrix = matrix + k.mT @ (beta * (v - k @ matrix))
    if q is None:
        return (v[..., :0],), (matrix,)
    B, H = q.shape[:2]
    return ((q.reshape(B, k.shape[1], -1, q.shape[-1]) @ matrix).reshape(B, H, 1, -1),), (matrix,)


def chunked(
    matrix: Tensor, q: Tensor | None, k: Tensor, v: Tensor, beta: Tensor, size: int
) -> tuple[tuple[Tensor], tuple[Tensor]]:
    """Reads (B, H, T, E) of q (B, H, T, D), each after its own pair, and the matrix after all pairs.

    The errors Δ = v − Sᵀk that a chunk writes depend on each other: (I + tril(β k kᵀ, −1)) Δ = β (v − S₀ᵀk). Solved for
    v and for k apart (Δ = U − W S₀), that is done for all chunks at once, and only S₀ goes from one to the next.
    """
    B, G, T, D = k.shape
    size = min(size, T)
    whole = T - T % size
    if whole < T:
        first, rest = slice(whole), slice(whole, None)
        (one,), (matrix,) = chunked(matrix, _at(q, first), k[:, :, first], v[:, :, first], beta[:, :, first], size)
        (two,), (matrix,) = chunked(matrix, _at(q, rest), k[:, :, rest], v[:, :, rest], beta[:, :, rest], size)
        return (torch.cat([one, two], 2),), (matrix,)
    n = T // size
    k, v, beta = (x.reshape(B, G, n, size, x.shape[-1]) for x in (k, v, beta))
    scaled = beta * k
    among = (scaled @ k.mT).tril(-1)
    solved = inverse(among) @ torch.cat([beta * v, scaled], -1)
    u, w = solved.split([v.shape[-1], D], -1)
    before, errors = [], []
    for c in range(n):
        before.append(matrix)
        errors.append(u[:, :, c] - w[:, :, c] @ matrix)
        matrix = matrix + k[:, :, c].mT @ errors[-1]
    if q is None:
        return (v.new_empty(B, G, T, 0),), (matrix,)
    H = q.shape[1]
    q = q.reshape(B, G, H // G, n, size, D).transpose(2, 3).reshape(B, G, n, -1, D)
    pairs = q @ k.mT
    pairs = pairs.view(B, G, n, -1, size, size).tril().view_as(pairs)
    output = q @ torch.stack(before, 2) + pairs @ torch.stack(errors, 2)
    return (output.view(B, G, n, H // G, size, -1).transpose(2, 3).reshape(B, H, T, -1),), (matrix,)


def inverse(below: Tensor) -> Tensor:
    """(I + N)⁻¹ of strictly lower triangular N (…, C, C): that of blocks of one row, of two, of four … on the diagonal.

    [[A, 0], [N, B]]⁻¹ = [[A⁻¹, 0], [−B⁻¹ N A⁻¹, B⁻¹]]: a few products of many small matrices. PyTorch's triangular
    solver takes a hundred times as long on two threads as on one.
    """
    C = below.shape[-1]
    room = 1 << (C - 1).bit_length()
    below = nn.functional.pad(below, (0, room - C, 0, room - C))
    found, size = below.new_ones(*below.shape[:-2], room, 1, 1), 1
    while size < room:
        two = 2 * size
        on = below.unflatten(-1, (-1, two)).unflatten(-3, (-1, two)).diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
        first, second = found.unflatten(-3, (-1, 2)).unbind(-3)
        corner = -second @ on[..., size:, :size] @ first
        upper = torch.cat([first, torch.zeros_like(first)], -1)
        found, size = torch.cat([upper, torch.cat([corner, second], -1)], -2), two
    return found.squeeze(-3)[..., :C, :C]


def _at(q: Tensor | None, here: slice) -> Tensor | None:
    return None if q is None else q[:, :, here]
