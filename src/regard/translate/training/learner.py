"""What an update changes: the model, its average and its optimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.batches import Batch
from regard.translate.training.broken import NotFinite, bad_parameter, find
from regard.translate.training.device import moved
from regard.translate.training.loss import loss
from regard.translate.training.optimisers import optimiser
from regard.translate.training.ranks import Alone, Ranks
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

    def __init__(
        self,
        model: EncoderDecoder[Any, Any],
        settings: Settings,
        device: torch.device | str = "cpu",
        ranks: Alone | Ranks | None = None,
    ) -> None:
        self.settings, self.device, self.ranks = settings, torch.device(device), ranks or Alone()
        self.model: EncoderDecoder[Any, Any] = model.to(self.device)
        self.average = deepcopy(self.model).eval().requires_grad_(False)
        rule, numbers = optimiser(settings.optimiser, settings.optimiser_numbers)
        self.optimiser = rule.make(self.model.parameters(), settings.peak, numbers)
        self.course = settings.course

    def update(self, batches: Sequence[Batch], number: int, epochs: float) -> Step:
        """Update ``number``, counted from 1, by the mean loss over all target pieces of ``batches``, those of the other
        processes included, where there are any.

        Args:
            epochs: epochs done, the part of the one under way included.

        Raises:
            NotFinite: the loss or the gradient is not; weights and random numbers are as they were.
        """
        settings = self.settings
        rate = settings.peak * self.course(number, epochs, settings.epochs)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        self.ranks.seed(settings.seed, number)
        before = self._random()
        counts = [int(batch.target_lengths.sum()) for batch in batches]
        pieces, summed = int(self.ranks.total(sum(counts))), 0.0
        for batch, count in zip(batches, counts, strict=True):
            value = self._loss(batch)
            (value * (count / pieces)).backward()
            summed += float(value.detach()) * count
        self.ranks.add(self.model.parameters())
        summed = self.ranks.total(summed)
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip or math.inf))
        if not (math.isfinite(norm) and math.isfinite(summed)):
            self._set_random(before)
            broken = find(self.model, [partial(self._loss, batch) for batch in batches]) if batches else None
            self._set_random(before)
            raise self.ranks.foremost(broken)
        self.optimiser.step()
        keep = min(settings.ema, (1 + number) / (10 + number)) if settings.ema else 0.0
        torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1.0 - keep)
        return Step(summed, pieces, norm, rate)

    def check(self) -> None:
        """Raises where a weight is not finite: what is saved must be fit to go on from."""
        found = bad_parameter(self.model) or bad_parameter(self.average)
        if found is not None:
            raise NotFinite(found, None)

    def state(self) -> dict[str, Any]:
        """All of it, and the state of the random numbers, for :meth:`restore`."""
        found: dict[str, Any] = moved(
            {
                "model": dict(self.model.state_dict()),
                "average": dict(self.average.state_dict()),
                "optimiser": self.optimiser.state_dict(),
                "random": self._random(),
            },
            "cpu",
        )
        return found

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to where :meth:`state` was taken."""
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self._set_random(state["random"])

    def _loss(self, batch: Batch) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            return loss(self.model, moved(batch, self.device), self.settings.smoothing)

    def _random(self) -> dict[str, Tensor]:
        """The state of the random numbers, of the processor and of the GPU where there is one."""
        found = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            found["cuda"] = torch.cuda.get_rng_state(self.device)
        return found

    def _set_random(self, state: dict[str, Tensor]) -> None:
        torch.set_rng_state(state["cpu"])
        if self.device.type == "cuda" and "cuda" in state:
            torch.cuda.set_rng_state(state["cuda"], self.device)
