"""A language that is made up: its sentences say each word once, so that every word said again is a mistake."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["BEGIN", "END", "PAD", "WORDS", "batch", "pad", "sentences"]

PAD, BEGIN, END, WORDS = 0, 1, 2, 43

Pair = tuple[list[int], list[int]]


def sentences(count: int, seed: int) -> list[Pair]:
    """Pairs of 3 to 14 words, each closed by ``END``: other words, in the same order but that an odd word goes before
    the even one that it follows."""
    draw = torch.Generator().manual_seed(seed)
    pairs = []
    for length in torch.randint(3, 15, (count,), generator=draw).tolist():
        source = (torch.randperm(WORDS - 3, generator=draw)[:length] + 3).tolist()
        target = [3 + (7 * (word - 3) + 5) % (WORDS - 3) for word in source]
        at = 0
        while at + 1 < length:
            swap = source[at] % 2 == 0 and source[at + 1] % 2 == 1
            if swap:
                target[at : at + 2] = target[at + 1], target[at]
            at += 1 + swap
        pairs.append(([*source, END], [*target, END]))
    return pairs


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows as (B, longest), padded on the right, and their lengths (B,)."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows]), torch.tensor([*map(len, rows)])


def batch(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``source`` (B, S), its ``lengths`` (B,), ``previous`` (B, T) and ``target`` (B, T)."""
    source, lengths = pad([source for source, _ in pairs])
    target, _ = pad([target for _, target in pairs])
    previous = torch.cat([torch.full((len(pairs), 1), BEGIN), target[:, :-1]], 1)
    return source, lengths, previous, target
