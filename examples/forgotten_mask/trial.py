"""One translator trained, and what it says in a batch and alone; and what the doctor says of one that never trained."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from examples.forgotten_mask.language import END, PAD, batch, pad, sentences
from examples.forgotten_mask.translators import ARMS, TRANSLATORS, Translator

__all__ = ["Trial", "examined", "trial"]

Pair = tuple[list[int], list[int]]
Said = list[list[int]]


@dataclass(frozen=True)
class Trial:
    """The numbers of one translator, shares in percent. ``worst``: a source, its target, and its two translations."""

    loss: float
    right_in_batch: float
    right_alone: float
    differ: float
    again_in_batch: float
    again_alone: float
    twice_alone: float
    worst: tuple[str, str, str, str]


def trial(model: str, arm: str, seed: int, updates: int, in_order: bool = False, tested: int = 200) -> Trial:
    """Trains a translator and has it translate sentences that it has not met: all in one batch, and without padding."""
    torch.manual_seed(seed)
    translator = TRANSLATORS[model](ARMS[arm])
    loss = train(translator, sentences(6000, seed=1), seed, updates, in_order)
    translator.eval()
    test = sentences(tested, seed=2)
    wanted = [target[:-1] for _, target in test]
    batched, alone = together(translator, test), one_by_one(translator, test)
    shown = max(range(len(test)), key=lambda n: (_again([alone[n]]), len(test[n][0])))
    said = (test[shown][0][:-1], wanted[shown], batched[shown], alone[shown])
    return Trial(
        loss,
        _share(a == b for a, b in zip(batched, wanted, strict=True)),
        _share(a == b for a, b in zip(alone, wanted, strict=True)),
        _share(a != b for a, b in zip(alone, batched, strict=True)),
        _again(batched),
        _again(alone),
        _share(a == b for row in alone for a, b in pairwise(row)),
        (_spelt(said[0]), _spelt(said[1]), _spelt(said[2]), _spelt(said[3])),
    )


def train(translator: Translator, pairs: Sequence[Pair], seed: int, updates: int, in_order: bool) -> float:
    """The mean loss of the last 30 updates. ``in_order``: batches hold sentences of like length, and little padding."""
    draw = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(translator.parameters(), 4e-3 if hasattr(translator, "join") else 2e-3)
    ordered, size = sorted(pairs, key=lambda pair: len(pair[0])), 48
    losses = []
    for _ in range(updates):
        first = int(torch.randint(len(pairs) - size, (1,), generator=draw))
        some = torch.randint(len(pairs), (size,), generator=draw).tolist()
        source, lengths, previous, target = batch(
            ordered[first : first + size] if in_order else [pairs[n] for n in some]
        )
        logits = translator(source, lengths, previous)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(translator.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return sum(losses[-30:]) / len(losses[-30:])


def together(translator: Translator, pairs: Sequence[Pair]) -> Said:
    """All in one batch: the short ones are padded."""
    return [_cut(row) for row in translator.greedy(*pad([source for source, _ in pairs]))]


def one_by_one(translator: Translator, pairs: Sequence[Pair]) -> Said:
    """Without padding: sentences of one length at a time, which is one at a time, but faster."""
    said: Said = [[] for _ in pairs]
    for length in {len(source) for source, _ in pairs}:
        numbers = [n for n, (source, _) in enumerate(pairs) if len(source) == length]
        for n, row in zip(numbers, together(translator, [pairs[n] for n in numbers]), strict=True):
            said[n] = row
    return said


def examined(model: str, arm: str) -> tuple[float, list[str]]:
    """How long the doctor takes for an untrained translator, in seconds, and what it finds where."""
    torch.manual_seed(0)
    source, lengths, previous, _ = batch(sentences(4, seed=3))
    began = time.perf_counter()
    given = {"source": source, "lengths": lengths, "previous": previous}
    report = regard.check(TRANSLATORS[model](ARMS[arm]), given, target="previous", causal=True)
    serious = [found for found in report.findings if found.severity != "note"]
    return time.perf_counter() - began, [f"{found.code} at {found.module or 'the model'}" for found in serious]


def _cut(row: Tensor) -> list[int]:
    """What was said before the end."""
    said: list[int] = row.tolist()
    return said[: said.index(END)] if END in said else said


def _again(said: Said) -> float:
    """The share of words that their sentence had said already. No sentence of this language says a word twice."""
    return _share(word in row[:n] for row in said for n, word in enumerate(row))


def _share(of: Iterable[bool]) -> float:
    values = list(of)
    return 100 * sum(values) / max(1, len(values))


def _spelt(words: list[int]) -> str:
    return " ".join(map(str, words))
