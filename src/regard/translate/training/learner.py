"""What an update changes: the model, its average and its optimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch

from regard.errors import RegardError
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.batches import Batch
from regard.translate.training.loss import loss
from regard.translate.training.settings import Settings

__all__ = ["Learner", "Step"]


@dataclass(frozen=True)
class Step:
    """What an update found: the loss summed over ``pieces`` target pieces, the gradient's norm, the learning rate."""

    summed: float
    pieces: int
    norm: float
    rate: float


class Learner:
    """A model, the running average of its weights, and the optimiser that moves it."""

    def __init__(self, model: EncoderDecoder[Any, Any], settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.average = deepcopy(model).eval().requires_grad_(False)
        self.optimiser = torch.optim.Adam(model.parameters(), lr=settings.rate, fused=True)

    def update(self, batches: Sequence[Batch], number: int, epochs: float) -> Step:
        """Update ``number``, counted from 1, by the mean loss over all target pieces of ``batches``.

        Args:
            epochs: epochs done, the part of the one under way included.

        Raises:
            RegardError: the gradient is not finite; the weights are as they were.
        """
        settings = self.settings
        rate = settings.rate * _rate(number - 1, settings.warmup, epochs / settings.epochs)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        counts = [int(batch.target_lengths.sum()) for batch in batches]
        pieces, summed = sum(counts), 0.0
        for batch, count in zip(batches, counts, strict=True):
            with torch.autocast("cpu", torch.bfloat16, enabled=settings.precision == "bfloat16"):
                value = loss(self.model, batch, settings.smoothing)
            (value * (count / pieces)).backward()
            summed += float(value.detach()) * count
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip))
        if not math.isfinite(norm):
            raise RegardError(
                f"rate: the gradient is {norm} at update {number}; "
                f"lower it (found {settings.rate}), and begin again in another --out"
            )
        self.optimiser.step()
        keep = min(settings.ema, (1 + number) / (10 + number)) if settings.ema else 0.0
        torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1.0 - keep)
        return Step(summed, pieces, norm, rate)

    def state(self) -> dict[str, Any]:
        """All of it, and the state of the random numbers, for :meth:`restore`."""
        return {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "random": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to where :meth:`state` was taken."""
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["random"])


def _rate(updates: int, warmup: int, done: float) -> float:
    """The share of the full learning rate: a straight climb, times half a cosine over the share ``done`` of the run."""
    climb = min(1.0, (updates + 1) / warmup) if warmup else 1.0
    return climb * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))
