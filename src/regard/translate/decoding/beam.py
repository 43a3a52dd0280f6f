"""Beam search: the best translations found by keeping the ``width`` likeliest beginnings at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.translate.decoding.hypothesis import Hypothesis, best_of, said
from regard.translate.decoding.penalty import Penalty
from regard.translate.decoding.task import Task
from regard.translate.decoding.walk import Walk
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.vocabulary import EOS

__all__ = ["Beam", "Hypothesis", "beam_search"]

_NEVER = float("-inf")


@dataclass(frozen=True)
class Beam:
    """The ``best`` targets y by s(y, x) among the beginnings that survive.

    At every step the ``width`` likeliest candidates are kept. Those that end leave the beam and are kept by their
    score; the others go on, and fill the beam again. A sentence is over when nothing that goes on could still score
    more than the ``best``-th that ended: log p only falls, so that log p / lp(longest) bounds whatever comes. Width 1
    is greedy. A width of as many beginnings as there are makes the search exhaustive.

    ``unknown`` says whether the unknown piece may be said, ``longest`` how many pieces a target may have (where left
    out, twice its source and ten more).
    """

    width: int = 5
    best: int = 1
    penalty: Penalty = field(default_factory=Penalty)
    unknown: bool = False
    longest: int | None = None

    def __post_init__(self) -> None:
        if self.width < 1:
            raise RegardError(f"beam: found {self.width}, wanted a whole number of at least 1")
        if not 1 <= self.best <= self.width:
            raise RegardError(
                f"best: found {self.best}, wanted a whole number from 1 to the beam's width {self.width}; "
                "a wider beam finds more"
            )
        if self.longest is not None and self.longest < 1:
            raise RegardError(f"longest: found {self.longest}, wanted a whole number of pieces of at least 1")

    @property
    def looking(self) -> bool:
        """Whether scores need to know where the decoder looked."""
        return self.penalty.coverage > 0

    def run(self, walk: Walk, task: Task) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence of a walk of this width, best first."""
        found: list[list[Hypothesis]] = [[] for _ in task.sources]
        limit = task.limits(self.longest)
        total = torch.full(
            (walk.batch, self.width), _NEVER, device=walk.device
        )  # at the start all are the same, so that one lives
        total[:, 0] = 0.0
        step = 0
        while any(n >= 0 for n in walk.numbers):
            step += 1
            log_p = walk.step(self.unknown, task.must(walk.numbers, step))
            ahead, pieces = log_p.topk(min(self.width, log_p.shape[-1]))  # (B, K, K): no beginning has more that stay
            total, best = (total.unsqueeze(-1) + ahead).flatten(1).topk(self.width, dim=-1)
            piece = pieces.flatten(1).gather(-1, best)
            walk.follow(best // ahead.shape[-1], piece)
            total = self._ended(walk, task, limit, total, piece, step, found)
            most = total.amax(-1).tolist()
            staying = [b for b, n in enumerate(walk.numbers) if n >= 0 and self._open(most[b], limit[n], found[n])]
            for b in set(range(walk.batch)) - set(staying):
                walk.numbers[b] = -1
            left = walk.leave(staying)
            total = total if left is None else total[left]
        return found

    def _ended(
        self, walk: Walk, task: Task, limit: list[int], total: Tensor, piece: Tensor, step: int, found: list[Any]
    ) -> Tensor:
        """Puts what ended, or has reached its limit, among what was ``found``; what goes on keeps its log p."""
        cut = torch.tensor([n < 0 or step >= limit[n] for n in walk.numbers], device=walk.device)
        over = (piece == EOS) | cut.unsqueeze(-1)
        for b, k in (over & (total > _NEVER)).nonzero().tolist():
            n = walk.numbers[b]
            if n >= 0:
                one = said(walk, b, k, float(total[b, k]), task.sources[n], self.penalty, step)
                found[n] = best_of([*found[n], one], self.best)
        return total.masked_fill(over, _NEVER)

    def _open(self, ahead: float, limit: int, found: list[Hypothesis]) -> bool:
        """Whether a beginning of this log p may still come to score more than the last of the best."""
        return ahead > _NEVER and (
            len(found) < self.best or self.penalty.bound(ahead, limit) > found[self.best - 1].score
        )


def beam_search(
    model: EncoderDecoder[Any, Any],
    source: Tensor,
    lengths: Tensor,
    *,
    width: int = 5,
    normalise: float = 1.0,
    unknown: bool = True,
) -> list[Hypothesis]:
    """argmax_y log p(y | x) / |y|^normalise over the beginnings that survive; the best of each sentence.

    Args:
        source: piece numbers (B, S), padded. lengths: (B,).
        width: beginnings kept for each sentence, at least 1.
        normalise: 0 prefers short targets, 1 compares means over pieces.
        unknown: whether the unknown piece may be said.
    """
    from regard.translate.decoding.decode import decode

    rows = [row[:length] for row, length in zip(source.tolist(), lengths.tolist(), strict=True)]
    how = Beam(width, penalty=Penalty(normalise), unknown=unknown)
    return [best[0] for best in decode(model, rows, how)]
