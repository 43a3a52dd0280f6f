"""Sentences of any length, decoded in batches of one padded length each, in the order they came."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite
from typing import Any

import torch

from regard.errors import RegardError
from regard.translate.decoding.beam import Beam
from regard.translate.decoding.hypothesis import Hypothesis
from regard.translate.decoding.sampling import Sampling
from regard.translate.decoding.task import Task
from regard.translate.decoding.walk import Walk, padded, steady
from regard.translate.models.encoder_decoder import EncoderDecoder

__all__ = ["decode"]

_PLACES = 8192  # the most source pieces that go together: what they are remembered by must fit into memory


def decode(
    model: EncoderDecoder[Any, Any],
    sources: Sequence[Sequence[int]],
    how: Beam | Sampling,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[int] | None = None,
    looking: bool = False,
    padding: int = 0,
    batch: int = 64,
) -> list[list[Hypothesis]]:
    """What is found for each source, best first: the same bits alone as in any batch (:class:`Walk` says when).

    Args:
        sources: piece numbers, each source closed by its end mark.
        how: a :class:`Beam` or :class:`Sampling`.
        prefixes: pieces that each target must begin with.
        numbers: what chance is drawn by; where left out, a source's place.
        looking: keeps where the decoder looked.
        padding: so many places more behind each source, for those who want to see that nobody looks.
        batch: the most sentences that go together.

    As many batches as PyTorch has threads run at once, with one thread each.

    Raises:
        RegardError: looks are wanted of a model that does not look, or the model's log-probabilities are NaN.
    """
    if batch < 1:
        raise RegardError(f"batch: found {batch}, wanted a whole number of at least 1")
    same: dict[int, list[int]] = {}
    for n, ids in sorted(enumerate(sources), key=lambda each: len(each[1])):  # what ends together goes together
        same.setdefault(padded(len(ids), model.grain), []).append(n)
    groups = [
        alike[start : start + most]
        for places, alike in sorted(same.items())
        for most in [max(1, min(batch, _PLACES // places))]
        for start in range(0, len(alike), most)
    ]

    def run(group: list[int]) -> list[list[Hypothesis]]:
        task = Task(
            sources=tuple(len(sources[n]) for n in group),
            prefixes=tuple(tuple(prefixes[n]) if prefixes is not None else () for n in group),
            numbers=tuple(n if numbers is None else numbers[n] for n in group),
        )
        with steady():
            walk = Walk(model, [sources[n] for n in group], how.width, looking or how.looking, padding)
            return how.run(walk, task)

    was_training, threads = model.training, torch.get_num_threads()
    model.eval()
    try:
        if threads == 1 or len(groups) < 2:
            found = [run(group) for group in groups]
        else:
            with steady(), ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(run, groups))
    finally:
        model.train(was_training)
    out: list[list[Hypothesis]] = [[] for _ in sources]
    for group, each in zip(groups, found, strict=True):
        for n, hypotheses in zip(group, each, strict=True):
            if not all(isfinite(each.score) for each in hypotheses) or not hypotheses:
                raise RegardError("model: its log-probabilities are NaN; its weights are damaged: copy or train again")
            out[n] = hypotheses
    return out
