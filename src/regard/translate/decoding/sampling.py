"""Translations drawn by chance, the same for a sentence whatever batch it is in."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.translate.decoding.hypothesis import Hypothesis, best_of, said
from regard.translate.decoding.penalty import Penalty
from regard.translate.decoding.task import Task
from regard.translate.decoding.walk import Walk
from regard.translate.text.vocabulary import EOS, PAD

__all__ = ["Sampling", "kept"]


@dataclass(frozen=True)
class Sampling:
    """``best`` targets drawn piece by piece from p^(1/temperature), of the likeliest pieces only.

    ``top_k`` keeps the k likeliest pieces (Fan et al. 2018; 0: all), ``top_p`` the fewest likeliest that hold at least
    that share of the probability (Holtzman et al. 2020; 1: all), after the temperature. What is drawn is a function of
    ``seed``, the sentence's number, the number of the draw, and the model: of nothing else in the batch. A score is the
    model's own, untempered; draws are listed best first, and may be equal.
    """

    best: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    penalty: Penalty = field(default_factory=Penalty)
    unknown: bool = False
    longest: int | None = None

    def __post_init__(self) -> None:
        for name, holds, wanted in (
            ("best", self.best >= 1, "a whole number of at least 1"),
            ("temperature", 0 < self.temperature < float("inf"), "a number above 0; --beam 1 takes the likeliest"),
            ("top_k", self.top_k >= 0, "a whole number of at least 0, which keeps all"),
            ("top_p", 0 < self.top_p <= 1, "a number in (0, 1], of which 1 keeps all"),
            ("longest", self.longest is None or self.longest >= 1, "a whole number of pieces of at least 1"),
        ):
            if not holds:
                raise RegardError(f"{name}: found {getattr(self, name)}, wanted {wanted}")

    @property
    def width(self) -> int:
        """Beginnings of each sentence."""
        return self.best

    @property
    def looking(self) -> bool:
        """Whether scores need to know where the decoder looked."""
        return self.penalty.coverage > 0

    def run(self, walk: Walk, task: Task) -> list[list[Hypothesis]]:
        """The draws of each sentence of a walk of this width, best first."""
        found: list[list[Hypothesis]] = [[] for _ in task.sources]
        limit = task.limits(self.longest)
        chance = [[random.Random(f"{self.seed}/{n}/{k}") for k in range(self.best)] for n in task.numbers]
        total = torch.zeros(walk.batch, self.best, device=walk.device)
        over = torch.zeros(walk.batch, self.best, dtype=torch.bool, device=walk.device)
        step = 0
        while any(n >= 0 for n in walk.numbers):
            step += 1
            log_p = walk.step(self.unknown, task.must(walk.numbers, step))
            drawn = [[each.random() for each in chance[n]] if n >= 0 else [0.0] * self.best for n in walk.numbers]
            piece = self._draw(log_p, torch.tensor(drawn, dtype=torch.float64, device=walk.device))
            total += log_p.gather(-1, piece.unsqueeze(-1)).squeeze(-1).masked_fill(over, 0.0)
            walk.follow(None, piece.masked_fill(over, PAD))
            cut = torch.tensor([n < 0 or step >= limit[n] for n in walk.numbers], device=walk.device)
            now = ~over & ((piece == EOS) | cut.unsqueeze(-1))
            for b, k in now.nonzero().tolist():
                n = walk.numbers[b]
                if n >= 0:
                    one = said(walk, b, k, float(total[b, k]), task.sources[n], self.penalty, step)
                    found[n] = best_of([*found[n], one], self.best)
            over |= now
            staying = [b for b, n in enumerate(walk.numbers) if n >= 0 and not bool(over[b].all())]
            for b in set(range(walk.batch)) - set(staying):
                walk.numbers[b] = -1
            left = walk.leave(staying)
            if left is not None:
                total, over = total[left], over[left]
        return found

    def _draw(self, log_p: Tensor, chance: Tensor) -> Tensor:
        """Pieces (B, K) at the places ``chance`` (B, K) in [0, 1) of the distributions that log_p (B, K, V) become."""
        p, order = kept(log_p, self.temperature, self.top_k, self.top_p)
        sums = p.cumsum(-1)
        place = (sums <= (chance * sums[..., -1]).unsqueeze(-1)).sum(-1, keepdim=True)
        last = (p > 0).sum(-1, keepdim=True) - 1  # rounding may put the place behind the last that can be drawn
        return order.gather(-1, place.minimum(last).clamp(min=0)).squeeze(-1)  # NaN has no last: the score will tell


def kept(log_p: Tensor, temperature: float, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """p^(1/temperature) of the pieces that are kept, not normalised, likeliest first (..., V) in float64, and which.

    >>> p, which = kept(torch.tensor([0.1, 0.6, 0.3]).log(), 1.0, 0, 0.7)
    >>> p.round(decimals=3).tolist(), which.tolist()
    ([0.6, 0.3, 0.0], [1, 2, 0])
    """
    sorted_log_p, order = torch.sort(log_p.double(), dim=-1, descending=True, stable=True)
    p = (sorted_log_p / temperature).softmax(-1)
    if top_k:
        p[..., top_k:] = 0.0
    before = p.cumsum(-1) - p
    return p.masked_fill(before >= top_p * p.sum(-1, keepdim=True), 0.0), order
