"""The memory of the differentiable neural computer, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.base import Cost, Memory
from regard.memory.differentiable.given import check_asking, check_valid, check_writing
from regard.memory.differentiable.interface import Asking, Writing
from regard.memory.differentiable.links import backward, forward, linked, preceding
from regard.memory.differentiable.usage import allocation, retention, used
from regard.memory.differentiable.weighting import read_weighting, write_weighting, written
from regard.memory.readings import by_weights, where_valid
from regard.memory.turing.addressing import content
from regard.reading import Reading


class DifferentiableState(NamedTuple):
    """What the memory holds after a step."""

    rows: Tensor
    """M, (B, N, W)."""
    usage: Tensor
    """u, (B, N), in [0, 1]: as it was found at this step, before this step's write."""
    link: Tensor
    """L, (B, N, N): L[i, j] is how much i was written right after j."""
    precedence: Tensor
    """p, (B, N): how much each place was the last one written."""
    written: Tensor
    """w^w, (B, N): where this step wrote."""
    looking: Tensor
    """w^r, (B, R, N): where each head reads."""


@dataclass(frozen=True)
class DifferentiableComputer(Memory[DifferentiableState]):
    """M_t = M_{t−1} ∘ (1 − w^w eᵀ) + w^w vᵀ, r^i = M_tᵀ w^{r,i}: N rows of W numbers, R read heads, one write head.

    A write goes to what its key finds or to a place that is free; a read goes to what its key finds, or to what was
    written right after or right before the place it read last (Graves et al. 2016, Methods). A step is, in this order:
    usage, from the last step's reads and write; write weighting; erase and add; links; then reads of the new memory.

    Args:
        slots: N.
        width: W.
        reads: R.
        usage_gradient: whether gradients reach, through the usage, where was written before. They do in the paper's
            equations; the authors' code stops them there, which False does.

    A state is in float32 or float64; what a step is given is brought to the state's dtype, half precision with it.
    An empty memory reads 0, and so does a row that is not valid.

    >>> memory = DifferentiableComputer(slots=4, width=2, reads=1)
    >>> state = memory.reset(1)
    >>> one = torch.ones(1)
    >>> for item in ([5.0, 0.0], [0.0, 7.0], [1.0, 1.0]):  # each to a free place
    ...     add = torch.tensor([item])
    ...     state = memory.write(state, Writing(add, one, torch.ones(1, 2), add, torch.zeros(1, 1), one, one))
    >>> _, by_content, on = torch.eye(3).reshape(3, 1, 1, 3)
    >>> find = Asking(torch.tensor([[[5.0, 0.0]]]), torch.tensor([[100.0]]), by_content)
    >>> state = memory.move(state, find)
    >>> memory.read(state, find._replace(modes=on)).output.round()  # what was written after what the head had found
    tensor([[[[0., 7.]]]])
    """

    slots: int
    width: int
    reads: int = 1
    usage_gradient: bool = True

    def __post_init__(self) -> None:
        for name in ("slots", "width", "reads"):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise RegardError(f"DifferentiableComputer: {name} is {size!r}, wanted a whole number of at least 1")

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> DifferentiableState:
        """All zero: nothing written, nothing used, no links, heads that read nothing."""
        dtype = torch.get_default_dtype() if dtype is None else dtype
        dtype = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
        N, W, R = self.slots, self.width, self.reads
        shapes = ((N, W), (N,), (N, N), (N,), (N,), (R, N))
        return DifferentiableState(*(torch.zeros(batch, *shape, dtype=dtype, device=device) for shape in shapes))

    def write(
        self, state: DifferentiableState, writing: Writing, *, valid: Tensor | None = None
    ) -> DifferentiableState:
        """The state after what was read was freed or kept, and one write; rows where ``valid`` (B,) is False stay."""
        check_writing(writing, self.batch(state), self.width, self.reads)
        check_valid(valid, self.batch(state))
        given = Writing(*(part.to(state.rows.dtype) for part in writing))
        before = state.written if self.usage_gradient else state.written.detach()
        usage = used(state.usage, before, retention(given.free, state.looking))
        found = content(state.rows, given.key.unsqueeze(-2), given.strength.unsqueeze(-1)).squeeze(-2)
        to = write_weighting(found, allocation(usage), given.allocate, given.gate)
        after = DifferentiableState(
            rows=written(state.rows, to, given.erase, given.add),
            usage=usage,
            link=linked(state.link, to, state.precedence),
            precedence=preceding(state.precedence, to),
            written=to,
            looking=state.looking,
        )
        return _kept(state, after, valid)

    def move(self, state: DifferentiableState, asking: Asking, *, valid: Tensor | None = None) -> DifferentiableState:
        """The state with the heads where ``asking`` sends them; those of rows that are not valid stay."""
        check_asking(asking, self.batch(state), self.width, self.reads)
        check_valid(valid, self.batch(state))
        keys, strengths, modes = (part.to(state.rows.dtype) for part in asking)
        at = state.looking
        found = content(state.rows, keys, strengths)
        to = read_weighting(backward(state.link, at), found, forward(state.link, at), modes)
        return _kept(state, state._replace(looking=to), valid)

    def read(self, state: DifferentiableState, query: Asking | None = None) -> Reading:
        """What the heads read where they are, or where ``query`` would send them: (B, R, 1, W).

        Weights may sum to less than 1. The state stays as it is; :meth:`move` is what sends the heads.
        """
        if query is not None:
            state = self.move(state, query)
        return by_weights(state.looking.unsqueeze(-2), state.rows.unsqueeze(-3), engine="differentiable computer")

    def step(
        self, state: DifferentiableState, writing: Writing, asking: Asking, *, valid: Tensor | None = None
    ) -> tuple[Reading, DifferentiableState]:
        """Writes, then reads the new memory; the next step finds the heads where this one left them.

        Rows where ``valid`` (B,) is False write nothing, read 0, and stay as they are.
        """
        check_asking(asking, self.batch(state), self.width, self.reads)
        state = self.move(self.write(state, writing, valid=valid), asking, valid=valid)
        return where_valid(self.read(state), None if valid is None else valid.unsqueeze(-1)), state

    def cost(self, length: int) -> Cost:
        """The same at any length: what the links take grows with N², the rest with N·W."""
        N, W, R = self.slots, self.width, self.reads
        return Cost(flops=(5 + 4 * R) * N * N + (12 + 4 * R) * N * W, bytes=4.0 * (4 * N * N + 4 * N * W))


def _kept(before: DifferentiableState, after: DifferentiableState, valid: Tensor | None) -> DifferentiableState:
    if valid is None:
        return after
    pairs = zip(after, before, strict=True)
    return DifferentiableState(*(torch.where(valid.view(-1, *[1] * (a.dim() - 1)), a, b) for a, b in pairs))
