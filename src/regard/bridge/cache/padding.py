"""Rows with padding in front: which of a chunk's slots hold a token, and rows set flush with the slots' end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RegardError

__all__ = ["Padding", "flush"]


@dataclass(frozen=True, eq=False)
class Padding:
    """How many slots of padding stand before each row's tokens, (B,)."""

    front: Tensor

    @classmethod
    def of(cls, mask: Tensor) -> Padding:
        """That of a mask (B, S) of 1 for a token and 0 for padding.

        >>> Padding.of(torch.tensor([[1, 1, 1], [0, 0, 1]])).front.tolist()
        [0, 2]
        """
        if not isinstance(mask, Tensor) or mask.dim() != 2:
            found = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
            raise RegardError(f"attention_mask: found {found}, wanted (B, S), 1 for a token and 0 for padding")
        real = mask.bool()
        if bool((real[:, :-1] & ~real[:, 1:]).any()):
            row = int((real[:, :-1] & ~real[:, 1:]).any(1).nonzero()[0])
            raise RegardError(
                f"attention_mask: row {row} has padding behind a token, wanted it in front; tokenize with "
                'padding_side="left"'
            )
        return cls((~real).sum(1).cpu())

    def rows(self, batch: int) -> Padding:
        """That of ``batch`` rows, each of these as often as beams or samples repeat it."""
        repeats, rest = divmod(batch, max(1, len(self.front)))
        if rest:
            raise RegardError(
                f"attention_mask: found {len(self.front)} rows, the model reads {batch}; wanted the mask that goes "
                "with the prompts"
            )
        return self if repeats == 1 else Padding(self.front.repeat_interleave(repeats))

    def select(self, index: Tensor) -> Padding:
        return Padding(self.front[index.cpu()])

    def valid(self, start: int, length: int) -> Tensor | None:
        """Which slots from ``start`` on hold tokens, (B, length); None where all do."""
        if int(self.front.max()) <= start:
            return None
        return torch.arange(start, start + length) >= self.front[:, None]


def flush(x: Tensor, kept: int, sinks: int) -> Tensor:
    """The first ``sinks`` things of (B, G, S, D) and the last others, ``kept`` in all, flush with the end.

    Where there are fewer, zeros stand in front, which the model's mask hides.

    >>> flush(torch.arange(1.0, 6.0).view(1, 1, 5, 1), 3, 1).flatten().tolist()
    [1.0, 4.0, 5.0]
    >>> flush(torch.arange(1.0, 3.0).view(1, 1, 2, 1), 3, 1).flatten().tolist()
    [0.0, 1.0, 2.0]
    """
    S = x.shape[2]
    if kept >= S:
        return x if kept == S else F.pad(x, (0, 0, kept - S, 0))
    first = min(sinks, kept)
    last = x[:, :, S - (kept - first) :]
    return torch.cat([x[:, :, :first], last], 2) if first else last
