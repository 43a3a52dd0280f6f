"""How large a change is, against the noise of the model itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

#: A change is real from this many times the noise on. Rounding alone stays below some ten times it, in a model with
#: saturated rows below 80; a leak starts at thousands.
REAL = 200.0


@dataclass(frozen=True)
class Noise:
    """What the outputs move by though nothing has changed: ``floor``, beside their ``spread`` (standard deviation)."""

    floor: float
    spread: float
    when: str = ""  # what made them move as far as the floor

    @property
    def drowns(self) -> bool:
        """Whether the model is so restless that no change could be told from it."""
        return not self.floor * REAL < 0.1 * self.spread


@dataclass(frozen=True)
class Effect:
    """The largest change of what should have stood still (or moved), and where it was."""

    change: float
    noise: Noise
    row: int = 0
    place: int = 0

    @property
    def times(self) -> float:
        return self.change / self.noise.floor if self.noise.floor else math.inf

    @property
    def real(self) -> bool:
        return self.change != 0 and not self.times < REAL  # a NaN is a change

    def said(self) -> str:
        """ "by 0.31, 40,000 times the noise" """
        times = f"{self.times:,.0f}" if self.times < 1e6 else f"{self.times:.0e}"
        return f"by {self.change:.2g}, {times} times the noise"

    def evidence(self) -> dict[str, float | int]:
        return {
            "change": self.change,
            "noise": self.noise.floor,
            "times_noise": self.times,
            "share_of_spread": self.change / self.noise.spread if self.noise.spread else math.inf,
            "row": self.row,
            "position": self.place,
        }


def effect(one: Tensor, other: Tensor, noise: Noise, at: Tensor | None = None) -> Effect:
    """The largest |one − other| over the places ``at`` (B, L); both are (B, L, F) or, without places, (B, F)."""
    moved = difference(one, other).amax(-1)
    if at is not None and moved.dim() == 2:
        moved = torch.where(at.to(moved.device), moved, 0.0)
    if moved.numel() == 0:
        return Effect(0.0, noise)
    worst = int(moved.argmax())
    row, place = divmod(worst, moved.shape[1]) if moved.dim() == 2 else (worst, 0)
    return Effect(float(moved.flatten()[worst]), noise, row, place)


def difference(one: Tensor, other: Tensor) -> Tensor:
    """|one − other|, 0 where both are the same infinity or both NaN, and inf where only one of them is finite."""
    one, other = one.double(), other.double()
    same = (one == other) | (one.isnan() & other.isnan())
    # What is left of NaN is a difference that only one run has: it becomes the largest change, so nothing is hidden.
    return torch.where(same, 0.0, (one - other).abs()).nan_to_num(nan=math.inf, posinf=math.inf)
