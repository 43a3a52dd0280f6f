"""Beam search: the most probable translation found by keeping the ``width`` best beginnings at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.vocabulary import BOS, EOS, PAD, UNK

__all__ = ["Hypothesis", "beam_search"]


@dataclass(frozen=True)
class Hypothesis:
    """``ids`` of the target, closed by ``EOS`` unless the length limit cut it; ``score`` = log p / length^normalise."""

    ids: tuple[int, ...]
    score: float


@torch.no_grad()
def beam_search(
    model: EncoderDecoder[Any, Any],
    source: Tensor,
    lengths: Tensor,
    *,
    width: int = 5,
    normalise: float = 1.0,
    unknown: bool = True,
) -> list[Hypothesis]:
    """argmax_y log p(y | x) / |y|^normalise over the beginnings that survive; width 1 is greedy decoding.

    A sentence's ``width`` hypotheses are so many queries of one memory, so the memory is never copied. A finished
    hypothesis stays in the beam with its score and competes until every place is finished. A target may be twice
    its source plus ten pieces long.

    Args:
        source: piece numbers (B, S), padded. lengths: (B,).
        width: hypotheses kept for each sentence, at least 1.
        normalise: 0 prefers short targets, 1 compares means over pieces.
        unknown: whether the unknown piece may be said.

    Returns:
        The best hypothesis of each of the B sentences.
    """
    if width < 1:
        raise RegardError(f"beam: found {width}, wanted a whole number of at least 1")
    was_training = model.training
    model.eval()
    try:
        return _search(model, source, lengths, width, normalise, unknown)
    finally:
        model.train(was_training)


def _search(
    model: EncoderDecoder[Any, Any], source: Tensor, lengths: Tensor, width: int, normalise: float, unknown: bool
) -> list[Hypothesis]:
    batch = source.shape[0]
    if batch == 0:
        return []
    vocabulary = model.config.target_vocabulary
    width = min(width, vocabulary)
    memory, first = model.encode(source, lengths)
    state = _each(first, lambda x: x.expand(batch, width, *x.shape[2:]))  # (B, K, ...)
    rows = torch.arange(batch).unsqueeze(-1)
    previous = torch.full((batch, width), BOS)
    total = torch.full((batch, width), float("-inf"))  # log p so far; at the start all K are the same, so one lives
    total[:, 0] = 0.0
    size = torch.zeros(batch, width)
    done = torch.zeros(batch, width, dtype=torch.bool)
    ids = torch.full((batch, width, 0), PAD)
    limit = 2 * lengths + 10
    for step in range(1, int(limit.max()) + 1):
        logits, state = model.step(state, previous, memory)
        log_p = torch.log_softmax(logits.float(), -1)  # (B, K, V)
        log_p[..., PAD] = float("-inf")
        log_p[..., BOS] = float("-inf")
        if not unknown:
            log_p[..., UNK] = float("-inf")
        log_p.masked_fill_(done.unsqueeze(-1), float("-inf"))
        log_p[..., PAD].masked_fill_(done, 0.0)  # the one way on from a finished hypothesis, at no cost
        size = size + (~done)
        candidate = total.unsqueeze(-1) + log_p
        rank = (candidate / size.unsqueeze(-1) ** normalise).flatten(1)  # (B, K·V)
        _, best = rank.topk(width, dim=-1)
        parent = best // vocabulary  # (B, K)
        previous = best % vocabulary
        total = candidate.flatten(1).gather(1, best)
        size = size.gather(1, parent)
        done = done.gather(1, parent) | (previous == EOS) | (step >= limit).unsqueeze(-1)
        state = _each(state, partial(_rows, rows, parent))
        ids = ids.gather(1, parent.unsqueeze(-1).expand(-1, -1, ids.shape[-1]))
        ids = torch.cat([ids, previous.unsqueeze(-1)], -1)
        if bool(done.all()):
            break
    score = total / size**normalise
    winner = score.argmax(-1)
    return [
        Hypothesis(tuple(i for i in ids[b, k].tolist() if i != PAD), float(score[b, k]))
        for b, k in enumerate(winner.tolist())
    ]


def _rows(rows: Tensor, parent: Tensor, x: Tensor) -> Tensor:
    """Of each sentence the rows ``parent`` (B, K) of x (B, K, ...)."""
    return x[rows, parent]


def _each(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """``change`` done to the tensor, or to each of the tensors, that a state is."""
    return change(state) if isinstance(state, Tensor) else tuple(change(x) for x in state)
