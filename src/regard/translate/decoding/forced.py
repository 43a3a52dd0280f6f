"""Forced reading: where a translator looks when it is made to say a given translation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.translate.text.batches import collate
from regard.translate.text.vocabulary import EOS, Vocabulary
from regard.translate.translator import Translator

__all__ = ["Forced", "forced"]


@dataclass(frozen=True)
class Forced:
    """One pair as the decoder saw it.

    ``weights`` (N, H, T, S) is where each head of each layer looked before each of the T target pieces was said;
    ``source_words`` and ``target_words`` give the word of each piece, counted from 0 over the sentence's words, and −1
    for the end mark that closes either side. ``log_p`` is the log-probability of the target, end mark included.
    """

    weights: Tensor
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    log_p: float


def forced(
    translator: Translator, source: Sequence[str], target: Sequence[str], *, batch: int = 32
) -> Iterator[Forced]:
    """What a translator looks at as it is led through each ``target[n]`` from ``source[n]``, in order.

    Words are what spaces divide. A side without words has its end mark alone.

    Raises:
        RegardError: the sides differ in length.
    """
    if len(source) != len(target):
        raise RegardError(f"target: found {len(target)} sentences, source has {len(source)}; wanted as many")
    for start in range(0, len(source), batch):
        sides = (translator.source, source), (translator.target, target)
        read, said = (
            [_pieces(vocabulary, line) for line in lines[start : start + batch]] for vocabulary, lines in sides
        )
        given = collate([ids for ids, _ in read], [ids for ids, _ in said])
        with torch.no_grad():
            looked = translator.model.align(given.source, given.source_lengths, given.previous).float()
            log_p = translator.model(given.source, given.source_lengths, given.previous).float().log_softmax(-1)
        each = log_p.gather(-1, given.target.unsqueeze(-1)).squeeze(-1)  # (B, T)
        for row, ((_, s), (ids, t)) in enumerate(zip(read, said, strict=True)):
            yield Forced(looked[row, :, :, : len(t), : len(s)], s, t, float(each[row, : len(ids)].sum()))


def _pieces(vocabulary: Vocabulary, line: str) -> tuple[list[int], tuple[int, ...]]:
    """The pieces of each word of ``line``, closed by the end mark, and the word of each.

    Word by word: no piece reaches over a space, so the likeliest pieces of a line are those of its words.
    """
    words = [word for word in line.split(" ") if word]
    ids = [row[:-1] for row in vocabulary.encode(words)]
    numbers = chain.from_iterable([n] * len(row) for n, row in enumerate(ids))
    return [*chain.from_iterable(ids), EOS], (*numbers, -1)
