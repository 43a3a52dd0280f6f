"""Where a training run is: nothing but numbers, so that it can be saved and gone on from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Outcome", "Position"]

#: What was measured at the end of an epoch: numbers by name.
Line = dict[str, Any]


@dataclass
class Position:
    """Epochs done, batches done in the epoch under way, updates in all; ``stale`` counts epochs since the best."""

    epoch: int = 0
    batch: int = 0
    updates: int = 0
    summed: float = 0.0  # loss of the epoch under way, summed over target pieces
    pieces: int = 0  # target pieces of the epoch under way
    learning: float = 0.0  # seconds of its updates
    best: float | None = None
    stale: int = 0
    seconds: float = 0.0
    finished: bool = False
    history: list[Line] = field(default_factory=list)

    @property
    def loss(self) -> float:
        """Mean loss over the target pieces of the epoch under way."""
        return self.summed / max(self.pieces, 1)

    def turn(self) -> None:
        """An epoch is done, the next begins."""
        self.epoch += 1
        self.batch, self.summed, self.pieces, self.learning = 0, 0.0, 0, 0.0


@dataclass(frozen=True)
class Outcome:
    """How a run stands: ``finished``, or stopped by a signal or its time limit with everything saved."""

    finished: bool
    updates: int
    best: float | None
    history: list[Line]
