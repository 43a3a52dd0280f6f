"""The soft window of handwriting synthesis: a text that is read from left to right, by place (Graves 2013, section 5).

It is the first memory that was addressed by a network and learnt by gradient, a year before attention by content. A
window is no mask: what :func:`regard.mask.window` and ``SlidingCache`` call so says which places may be seen at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.base import Cost, Memory
from regard.memory.readings import unweighted
from regard.reading import Reading

__all__ = ["Moved", "SoftWindow", "WindowState", "window"]

MOST = 30.0  # e^30 is 1e13: squares of such places times such a sharpness are still numbers of float32
WHY = "a window's weights sum to no 1, and how much of a sum is missing is not known; read the whole text at once"


class WindowState(NamedTuple):
    """A text, and where the windows are on it."""

    text: Tensor
    """c (B, U, E), from place 1 on; what lies right of a row's last character holds 0."""
    lengths: Tensor
    """How many characters a row has, integers (B,)."""
    places: Tensor
    """κ (B, K), in characters; 0 is before the first."""
    height: Tensor
    """α̂ = log α (B, K); −∞ before the first move, so that nothing is read yet."""
    sharpness: Tensor
    """β̂ = log β (B, K)."""


class Moved(NamedTuple):
    """What windows are told, each number by its logarithm, so that any real number will do: (B, K)."""

    height: Tensor
    """α̂: how much is read."""
    sharpness: Tensor
    """β̂: how narrow the window is; at β a character √(1/β) away counts 1/e."""
    step: Tensor
    """κ̂: how far the window goes on, in characters."""


def window(height: Tensor, sharpness: Tensor, places: Tensor, at: Tensor) -> Tensor:
    """log of each window's part of φ: α̂_k − exp(β̂_k) (κ_k − u)², numbers (…, K) and places u (U,) → (…, K, U).

    >>> window(torch.zeros(1), torch.zeros(1), torch.tensor([2.0]), torch.tensor([1.0, 2.0, 4.0])).tolist()
    [[-1.0, 0.0, -4.0]]
    """
    away = (places.unsqueeze(-1) - at).square()
    beta = sharpness.clamp(max=MOST).exp().unsqueeze(-1)
    return torch.addcmul(height.clamp(max=MOST).unsqueeze(-1), beta, away, value=-1)


@dataclass(frozen=True)
class SoftWindow(Memory[WindowState]):
    """w = Σ_u φ(u) c_u, φ(u) = Σ_k α_k exp(−β_k (κ_k − u)²), κ_k ← κ_k + exp(κ̂_k): K windows that only move on.

    ``write`` appends characters c (B, L, E) to the text; ``move`` tells the windows how high and how sharp they are and
    how far they go; ``read`` reads where they are: a reading of one query, output (B, 1, 1, E). Characters stand at
    places 1, 2, …, and windows start at 0, before them.

    The weights are **not** normalised: all of them over all whole numbers u sum to Σ_k α_k √(π/β_k), within a share
    2 exp(−π²/β) (0.06 % where β ≤ 1.2), and one may be above 1. So a read is no average, has no log-sum-exp and no
    entropy, and cannot be merged. A row without text reads 0.

    α, β and a step are exp of what is told, as in the paper, and never 0 nor below: κ grows at every step, as far as
    its floating type can tell. A logarithm above 30 counts as 30 (and has gradient 0), so that a window, however high
    or sharp, gives finite numbers and, in all types but float16, finite gradients.

    A state is kept in float32 where half precision is asked for: κ is a sum of many small steps. What is given is taken
    into the state's type, and what is read comes in it.

    Source: Graves 2013, "Generating Sequences With Recurrent Neural Networks", section 5.1.

    >>> memory = SoftWindow(width=3, windows=1)
    >>> state = memory.write(memory.reset(), torch.eye(3)[None])
    >>> on = Moved(torch.zeros(1, 1), torch.full((1, 1), 3.0), torch.zeros(1, 1))  # α = 1, sharp, one character on
    >>> for _ in range(3):
    ...     reading, state = memory.step(state, on)
    ...     print(reading.output.round().flatten().tolist(), memory.ended(state).item())
    [1.0, 0.0, 0.0] False
    [0.0, 1.0, 0.0] False
    [0.0, 0.0, 1.0] False
    >>> memory.ended(memory.move(state, on)).item()
    True
    """

    width: int
    windows: int = 10

    def __post_init__(self) -> None:
        for name, value in (("width", self.width), ("windows", self.windows)):
            if type(value) is not int or value < 1:
                raise RegardError(f"SoftWindow: {name} is {value!r}, wanted a whole number of at least 1")

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> WindowState:
        """No text, every window at 0 with no height."""
        kept = torch.promote_types(dtype or torch.get_default_dtype(), torch.float32)
        text = torch.zeros(batch, 0, self.width, dtype=kept, device=device)
        none = torch.zeros(batch, self.windows, dtype=kept, device=device)
        lengths = torch.zeros(batch, dtype=torch.long, device=device)
        return WindowState(text, lengths, none, torch.full_like(none, -torch.inf), none)

    def write(self, state: WindowState, text: Tensor, *, valid: Tensor | None = None) -> WindowState:
        """The state after L characters (B, L, E) were appended to the text; the windows stay where they are.

        ``valid`` (B, L) is False where a row has no character: none is written there, and it takes no place.
        """
        B = self._batch(state)
        if text.dim() != 3 or text.shape[0] != B or text.shape[2] != self.width or not text.is_floating_point():
            raise RegardError(
                f"SoftWindow: text is {tuple(text.shape)} of {text.dtype}, wanted floating numbers ({B}, L, "
                f"{self.width}); symbols become such by torch.nn.functional.one_hot(symbols, {self.width}).float()"
            )
        if valid is not None and (valid.shape != text.shape[:2] or valid.dtype != torch.bool):
            raise RegardError(
                f"SoftWindow: valid is {tuple(valid.shape)} of {valid.dtype}, wanted booleans {tuple(text.shape[:2])}, "
                "True where there is a character"
            )
        both = torch.cat([state.text, text.to(state.text.dtype)], 1)
        new = valid if valid is not None else torch.ones(text.shape[:2], dtype=torch.bool, device=text.device)
        there = torch.cat([_before(state.text.shape[1], state.lengths), new], 1)
        lengths = there.sum(1)
        longest = int(lengths.max()) if B else 0
        if not bool(there.all()):  # what is there moves to the left, in its order
            order = (~there).byte().argsort(dim=1, stable=True)[:, :longest]
            both = both.gather(1, order.unsqueeze(-1).expand(-1, -1, self.width))
            both = both.masked_fill(~_before(longest, lengths).unsqueeze(-1), 0)
        return state._replace(text=both, lengths=lengths)

    def move(self, state: WindowState, to: Moved) -> WindowState:
        """All K windows moved on by exp(κ̂), with the height and sharpness they are told: ``to`` has tensors (B, K)."""
        B = self._batch(state)
        for name, x in zip(Moved._fields, to, strict=True):
            if x.shape != (B, self.windows) or not x.is_floating_point():
                raise RegardError(
                    f"SoftWindow: to.{name} is {tuple(x.shape)} of {x.dtype}, wanted floating numbers "
                    f"({B}, {self.windows})"
                )
        height, sharpness, step = (x.to(state.places.dtype) for x in to)
        return state._replace(places=state.places + step.clamp(max=MOST).exp(), height=height, sharpness=sharpness)

    def read(self, state: WindowState) -> Reading:
        """What the windows read where they are: (B, 1, 1, E), with the largest weight and the place it is at.

        ``peak_at`` counts from 0, as readings do: the character at place u is ``text[:, u − 1]``.
        """
        self._batch(state)
        weights = self.weights(state)
        output = (weights.unsqueeze(1) @ state.text).unsqueeze(1)
        lengths = state.lengths.view(-1, 1, 1)
        reading = unweighted(output, lengths, WHY, engine="window")
        none = lengths == 0
        if state.text.shape[1] == 0:
            peak, at = output.new_zeros(lengths.shape), lengths - 1
        else:
            top, first = weights.max(-1)
            peak, at = top.view_as(lengths), torch.where(none, -1, first.view_as(lengths))
        return replace(reading, lse=reading.lse.masked_fill(none, -torch.inf), peak=peak, peak_at=at)

    def step(self, state: WindowState, to: Moved) -> tuple[Reading, WindowState]:
        """Windows move, then read."""
        state = self.move(state, to)
        return self.read(state), state

    def weights(self, state: WindowState) -> Tensor:
        """φ at every character of the text, 0 where a row has none: (B, U). They sum to no 1."""
        U = state.text.shape[1]
        at = torch.arange(1, U + 1, dtype=state.places.dtype, device=state.places.device)
        each = window(state.height, state.sharpness, state.places, at).exp()
        return each.sum(-2).masked_fill(~_before(U, state.lengths), 0)

    def ended(self, state: WindowState) -> Tensor:
        """The paper's rule to stop: whether φ(U + 1) > φ(u) for every u ≤ U, booleans (B,).

        Compared by logarithms: a sharp window far behind the end is past it, though every weight rounds to 0. A row
        without text has ended; one whose windows have not moved yet has not.
        """
        U = state.text.shape[1]
        at = torch.arange(1, U + 2, dtype=state.places.dtype, device=state.places.device)
        logs = window(state.height, state.sharpness, state.places, at).detach().logsumexp(-2)
        behind = logs.gather(1, state.lengths.unsqueeze(-1))
        return ((logs[:, :U] < behind) | ~_before(U, state.lengths)).all(-1)

    def cost(self, length: int) -> Cost:
        """One character written, windows moved and read over ``length`` of them; single precision."""
        K, E = self.windows, self.width
        return Cost(float(length * (6 * K + 2 * E) + 4 * K), 4.0 * ((length + 1) * E + 6 * K))

    def _batch(self, state: WindowState) -> int:
        B, U = state.text.shape[:2]
        wanted = ((B, U, self.width), (B,), *[(B, self.windows)] * 3)
        for (name, x), shape in zip(state._asdict().items(), wanted, strict=True):
            if x.shape != shape:
                raise RegardError(f"SoftWindow: state.{name} is {tuple(x.shape)}, wanted {shape}")
        return B


def _before(places: int, lengths: Tensor) -> Tensor:
    """Which of so many places a row has, booleans (B, places): the first ``lengths`` (B,) of them."""
    return torch.arange(places, device=lengths.device) < lengths.unsqueeze(-1)
