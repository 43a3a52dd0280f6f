"""Slots with an address: hard, where an address is an index, and soft, where it is a distribution over the slots.

They are one memory where a distribution is one-hot. What differs is what an address can learn: a hard one has gradient
zero wherever it has one, a soft one the gradient of an average.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import mask as masks
from regard import normalize as normalizers
from regard import operator
from regard.errors import RegardError
from regard.grid import Grid
from regard.memory.base import Cost, Memory
from regard.memory.readings import by_weights
from regard.normalize import Normalizer
from regard.reading import Reading
from regard.score import Score

_SUM = 1e-3  # how far a distribution may be from summing to 1 by rounding, half precision included


class Slots(NamedTuple):
    """What N slots hold."""

    values: Tensor
    """(B, N, E)."""


@dataclass(frozen=True)
class HardMemory(Memory[Slots]):
    """N slots that are written and read by index: a value in, the same value out.

    ``write`` puts values (B, L, E) at ``index`` (B, L), one after the other: of two at one slot the later stays.
    ``read`` takes ``index`` (B, L) and returns a reading of one head, output (B, 1, L, E). A slot that nobody has
    written holds 0.

    The gradient to the value that is read is the identity. There is none to what chose the index: argmax s does not
    move when s does a little, so its derivative is 0 wherever it has one, and s learns nothing from what was read.

    >>> memory = HardMemory(slots=3, width=2)
    >>> state = memory.write(memory.reset(), torch.tensor([[2]]), torch.tensor([[[5.0, 7.0]]]))
    >>> memory.read(state, torch.tensor([[2, 0]])).output
    tensor([[[[5., 7.],
              [0., 0.]]]])
    >>> scores = torch.tensor([[[0.1, 0.3, 0.9]]], requires_grad=True)
    >>> values = state.values.requires_grad_()
    >>> out = memory.read(Slots(values), scores.argmax(-1)).output.sum()
    >>> torch.autograd.grad(out, [scores, values], allow_unused=True, materialize_grads=True)
    (tensor([[[0., 0., 0.]]]), tensor([[[0., 0.],
         [0., 0.],
         [1., 1.]]]))
    """

    slots: int
    width: int

    def __post_init__(self) -> None:
        _check_sizes("HardMemory", self.slots, self.width)

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Slots:
        """Slots that all hold 0."""
        return Slots(torch.zeros(batch, self.slots, self.width, dtype=dtype, device=device))

    def write(self, state: Slots, index: Tensor, values: Tensor) -> Slots:
        """The state with values (B, L, E) at ``index`` (B, L), the later over the earlier."""
        _check_values("HardMemory", state, values)
        self._check_index(state, index)
        if index.shape[1] != values.shape[1]:
            raise RegardError(
                f"HardMemory: index has {index.shape[1]} places for {values.shape[1]} values, wanted one each"
            )
        # scatter leaves it open which of two values at one slot stays, so whoever writes last is looked up first
        L = index.shape[1]
        last = torch.full(state.values.shape[:2], -1, device=index.device)
        last = last.scatter_reduce(1, index.long(), torch.arange(L, device=index.device).expand_as(index), "amax")
        new = values.gather(1, last.clamp(min=0).unsqueeze(-1).expand(-1, -1, self.width)) if L else state.values
        return Slots(torch.where((last >= 0).unsqueeze(-1), new.to(state.values.dtype), state.values))

    def read(self, state: Slots, index: Tensor) -> Reading:
        """What stands at ``index`` (B, L): a reading of one head, all its weight on one slot."""
        self._check_index(state, index)
        at = index.long()
        output = state.values.gather(1, at.unsqueeze(-1).expand(-1, -1, self.width)).unsqueeze(1)
        one = output.new_ones(output.shape[:-1])
        return Reading(
            output=output,
            lse=torch.full_like(one, torch.nan),
            seen=torch.full_like(at, self.slots).unsqueeze(1),
            entropy=torch.zeros_like(one),
            bound=one,
            peak=one,
            peak_at=at.unsqueeze(1),
            no_merge="an index says nothing of how well other slots match",
            engine="index",
        )

    def cost(self, length: int) -> Cost:
        """One slot written and one read, however many there are; single precision."""
        return Cost(0.0, 4.0 * 4 * self.width)

    def _check_index(self, state: Slots, index: Tensor) -> None:
        B = state.values.shape[0]
        if index.dim() != 2 or index.shape[0] != B or index.dtype not in (torch.int32, torch.int64):
            raise RegardError(
                f"HardMemory: index is {tuple(index.shape)} of {index.dtype}, wanted integers ({B}, L); a distribution "
                "or scores are for SoftMemory"
            )
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < self.slots:
            raise RegardError(
                f"HardMemory: index names slots {int(index.min())} to {int(index.max())}, wanted 0 to {self.slots - 1}"
            )


@dataclass(frozen=True)
class SoftMemory(Memory[Slots]):
    """N slots that are written and read by distributions over them: o = Σ_i w_i m_i, m_i ← (1 − w_i) m_i + w_i v.

    ``read`` takes weights (B, L, N), or, as ``read_scored``, scores that ``normalize`` makes weights of; gradient flows
    to values and to the address. Where every distribution is one-hot, this is :class:`HardMemory`.

    Weights are ≥ 0 and sum to at most 1: what is missing reads 0 and keeps what it was.

    >>> memory = SoftMemory(slots=2, width=1)
    >>> state = memory.write(memory.reset(), torch.eye(2)[None], torch.tensor([[[4.0], [8.0]]]))
    >>> weights = torch.tensor([[[0.25, 0.75]]], requires_grad=True)
    >>> out = memory.read(state, weights).output
    >>> out.item(), torch.autograd.grad(out, weights)[0]
    (7.0, tensor([[[4., 8.]]]))
    """

    slots: int
    width: int
    normalize: Normalizer | str = field(default="softmax", compare=False)

    def __post_init__(self) -> None:
        _check_sizes("SoftMemory", self.slots, self.width)
        normalizers.named(self.normalize)

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Slots:
        """Slots that all hold 0."""
        return Slots(torch.zeros(batch, self.slots, self.width, dtype=dtype, device=device))

    def write(self, state: Slots, weights: Tensor, values: Tensor) -> Slots:
        """The state after values (B, L, E) were written by weights (B, L, N), one after the other."""
        _check_values("SoftMemory", state, values)
        self._check_weights(state, weights)
        if weights.shape[1] != values.shape[1]:
            raise RegardError(
                f"SoftMemory: there are {weights.shape[1]} weights for {values.shape[1]} values, wanted one each"
            )
        held = state.values
        for w, v in zip(weights.unbind(1), values.unbind(1), strict=True):
            held = held + w.unsqueeze(-1) * (v.unsqueeze(1) - held)
        return Slots(held)

    def read(self, state: Slots, weights: Tensor) -> Reading:
        """The average of the slots by weights (B, L, N): a reading of one head, output (B, 1, L, E)."""
        self._check_weights(state, weights)
        return by_weights(weights.unsqueeze(1), state.values.unsqueeze(1), engine="weights")

    def read_scored(self, state: Slots, scores: Tensor) -> Reading:
        """The same by scores (B, L, N), −∞ where a slot may not be seen: a read as every other, with its lse."""
        B, N = state.values.shape[:2]
        if scores.dim() != 3 or scores.shape[0] != B or scores.shape[2] != N or not scores.is_floating_point():
            raise RegardError(
                f"SoftMemory: scores are {tuple(scores.shape)} of {scores.dtype}, wanted numbers ({B}, L, {N})"
            )
        seen = (scores != -torch.inf).unsqueeze(1)
        q, m = torch.where(seen, scores.unsqueeze(1), 0.0), state.values.unsqueeze(1)
        # Every query brings its row of scores along; there is nothing to compare, so the dense engine is the fast one.
        parts: dict[str, Any] = {"score": _AsGiven(), "normalize": self.normalize, "engine": "reference"}
        return operator.read(q, m, m, mask=masks.dense(seen), **parts)

    def cost(self, length: int) -> Cost:
        """All slots written and all read, however many were written before; single precision."""
        n = self.slots * self.width
        return Cost(5.0 * n, 4.0 * 3 * n)

    def _check_weights(self, state: Slots, weights: Tensor) -> None:
        B = state.values.shape[0]
        if (
            weights.dim() != 3
            or weights.shape[0] != B
            or weights.shape[2] != self.slots
            or not weights.is_floating_point()
        ):
            raise RegardError(
                f"SoftMemory: weights are {tuple(weights.shape)} of {weights.dtype}, wanted numbers "
                f"({B}, L, {self.slots}); an index is for HardMemory"
            )
        if not weights.numel():
            return
        least, most = float(weights.detach().min()), float(weights.detach().sum(-1).max())
        if not (least >= 0 and most <= 1 + _SUM):
            raise RegardError(
                f"SoftMemory: weights are at least {least:.4g} and sum to at most {most:.4g}, wanted none below 0 "
                "and no sum above 1; scores are for read_scored"
            )


class _AsGiven(Score):
    """s_ij = q_ij: the query is its row of scores."""

    no_dot_form = "the scores are given"

    def check_widths(self, query_width: int, key_width: int) -> None:
        """A query is as wide as there are slots."""

    def compare(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor:
        return q


def _check_sizes(who: str, slots: int, width: int) -> None:
    for name, value in (("slots", slots), ("width", width)):
        if value < 1:
            raise RegardError(f"{who}: {name} is {value}, wanted at least 1")


def _check_values(who: str, state: Slots, values: Tensor) -> None:
    B, _, E = state.values.shape
    if values.dim() != 3 or values.shape[0] != B or values.shape[2] != E or not values.is_floating_point():
        raise RegardError(f"{who}: values are {tuple(values.shape)} of {values.dtype}, wanted numbers ({B}, L, {E})")
