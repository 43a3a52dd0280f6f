"""What both learn from and at which rate: our lessons, and batches of JoeyNMT's own that make as many updates of it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.translate.text.corpus import read_parallel
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.lessons import Lessons, vocabularies
from regard.translate.training.settings import Settings

__all__ = ["Course", "cuts", "size_for"]


@dataclass(frozen=True)
class Course:
    """Pairs of pieces of one vocabulary, and the updates of every epoch, as ``regard train`` makes them."""

    settings: Settings
    vocabulary: Vocabulary
    lessons: Lessons

    @classmethod
    def of(cls, files: Mapping[str, Path], settings: Settings, vocabulary: Vocabulary | None = None) -> Course:
        """That of a text's files and of settings with a joint vocabulary; without one, that which a training makes."""
        corpus = read_parallel(files["train.src"], files["train.tgt"])
        vocabulary = vocabulary or vocabularies(corpus, settings)[0]
        return cls(settings, vocabulary, Lessons(corpus, vocabulary, vocabulary, settings))

    @cached_property
    def updates(self) -> list[int]:
        """How many there are in each epoch."""
        return [len(self.lessons.epoch(number)) for number in range(self.settings.epochs)]

    @property
    def rates(self) -> list[float]:
        """The learning rate of every update of the training."""
        settings, found = self.settings, list[float]()
        for epoch, updates in enumerate(self.updates):
            for batch in range(updates):
                share = settings.course(len(found) + 1, epoch + batch / updates, settings.epochs)
                found.append(settings.peak * share)
        return found

    @property
    def tokens(self) -> int:
        """JoeyNMT's batch size, in its own count, by which an epoch of its has as many updates as one of ours."""
        source, target = self.lessons.ids
        lengths = [max(len(a), len(b)) for a, b in zip(source, target, strict=True)]
        random.Random(1).shuffle(lengths)
        return size_for(lengths, round(sum(self.updates) / len(self.updates)))


def cuts(lengths: Sequence[int], size: int) -> int:
    """How many batches JoeyNMT cuts from sentences in this order: one is full when longest × sentences ≥ ``size``.

    >>> cuts([3, 3, 1, 5, 1], 6), cuts([3, 3, 1, 5, 1], 1)
    (3, 5)
    """
    batches = longest = count = 0
    for length in lengths:
        longest, count = max(longest, length), count + 1
        if longest * count >= size:
            batches, longest, count = batches + 1, 0, 0
    return batches + (count > 0)


def size_for(lengths: Sequence[int], batches: int) -> int:
    """The least size that cuts these sentences, in this order, into no more than so many batches.

    >>> size_for([4] * 100, 10)
    37
    """
    low, high = 1, max(lengths, default=1) * len(lengths)
    while low < high:
        middle = (low + high) // 2
        if cuts(lengths, middle) <= batches:
            high = middle
        else:
            low = middle + 1
    return low
