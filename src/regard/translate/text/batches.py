"""Batches of sentence pairs of like length, in an order that is a pure function of (seed, epoch)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.translate.text.vocabulary import BOS, PAD

__all__ = ["Batch", "collate", "pad", "plan"]


@dataclass(frozen=True)
class Batch:
    """``source`` (B, S) and ``target`` (B, T) piece numbers, padded; ``source_lengths`` (B,), ``target_lengths`` (B,).

    ``previous`` (B, T) is the target moved right by one, begun with ``BOS``: what the decoder has said so far.
    """

    source: Tensor
    source_lengths: Tensor
    previous: Tensor
    target: Tensor
    target_lengths: Tensor


def plan(lengths: Sequence[tuple[int, int]], *, tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """Which pairs go together, in which order.

    Pairs are shuffled, sorted by length (so that equals stay shuffled), cut where
    ``pairs × (longest source + longest target)`` would pass ``tokens``, and the batches shuffled again.
    Nothing else than the arguments enters, so a run that resumes sees what it would have seen.

    Args:
        lengths: ``(source, target)`` length of every pair, end marks included.
        tokens: the most piece numbers in a batch, padding included.

    Raises:
        RegardError: a pair alone is longer than ``tokens``.
    """
    draw = random.Random(f"{seed}/{epoch}")
    order = list(range(len(lengths)))
    draw.shuffle(order)
    order.sort(key=lambda n: (lengths[n][1], lengths[n][0]))
    batches: list[list[int]] = []
    batch: list[int] = []
    source = target = 0
    for n in order:
        a, b = lengths[n]
        if a + b > tokens:
            raise RegardError(
                f"batch tokens: {tokens} is less than pair {n + 1} alone needs ({a} + {b}); "
                "raise it, or lower the maximum length"
            )
        wide = (len(batch) + 1) * (max(source, a) + max(target, b))
        if batch and wide > tokens:
            batches.append(batch)
            batch, source, target = [], 0, 0
        batch.append(n)
        source, target = max(source, a), max(target, b)
    if batch:
        batches.append(batch)
    draw.shuffle(batches)
    return batches


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of different length as one (B, longest) tensor filled with ``PAD``, and their lengths (B,)."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    longest = int(lengths.max()) if len(rows) else 0
    out = torch.full((len(rows), longest), PAD, dtype=torch.int64)
    for n, row in enumerate(rows):
        out[n, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return out, lengths


def collate(source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]) -> Batch:
    """Pads pairs (each closed by ``EOS``) into a :class:`Batch`."""
    sources, source_lengths = pad(source)
    targets, target_lengths = pad(target)
    previous = torch.cat([torch.full((len(target), 1), BOS, dtype=torch.int64), targets[:, :-1]], dim=1)
    return Batch(sources, source_lengths, previous, targets, target_lengths)
