"""The training text as the model meets it: pieces of the pairs that are short enough, in batches, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.errors import RegardError
from regard.translate.text.batches import Batch, collate, plan
from regard.translate.text.corpus import Corpus, read_lines
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.settings import Settings

__all__ = ["Epoch", "Lessons"]

Ids = list[list[int]]


@dataclass(frozen=True)
class Epoch:
    """The pieces of every pair in one epoch, and the pairs of each batch in the order they are met."""

    source: Ids
    target: Ids
    order: list[list[int]]

    def __len__(self) -> int:
        return len(self.order)

    def batches(self, start: int, count: int) -> list[Batch]:
        """Up to ``count`` batches from batch ``start`` on."""
        return [self._batch(members) for members in self.order[start : start + count]]

    def _batch(self, members: Sequence[int]) -> Batch:
        return collate([self.source[n] for n in members], [self.target[n] for n in members])


class Lessons:
    """A corpus whose pairs are within ``settings.max_length`` pieces; a pure function of text, settings and epoch.

    Raises:
        RegardError: no pair is short enough.
    """

    def __init__(
        self,
        corpus: Corpus,
        source: Vocabulary,
        target: Vocabulary,
        settings: Settings,
        files: tuple[Path, Path] | None = None,
    ) -> None:
        self.files = files
        self.settings, self.vocabularies, self.empty = settings, (source, target), corpus.empty
        left, right = source.encode(corpus.source), target.encode(corpus.target)
        longest = settings.max_length
        self.kept = [n for n in range(len(corpus)) if max(len(left[n]), len(right[n])) <= longest]
        if not self.kept:
            raise RegardError(f"max_length: no pair is within {longest} pieces; raise it, or split the sentences")
        self.dropped = len(corpus) - len(self.kept)
        self.lines = [corpus.source[n] for n in self.kept], [corpus.target[n] for n in self.kept]
        self.ids = [left[n] for n in self.kept], [right[n] for n in self.kept]

    @cached_property
    def said(self) -> str:
        """What was kept and what was left out, in a line."""
        return (
            f"{len(self.kept):,} pairs; left out {self.dropped:,} longer than {self.settings.max_length} pieces, "
            f"{self.empty:,} with a blank side"
        )

    def epoch(self, number: int) -> Epoch:
        """Epoch ``number``, counted from 0."""
        source, target = self._pieces(number)
        lengths = [(len(a), len(b)) for a, b in zip(source, target, strict=True)]
        order = plan(lengths, tokens=self.settings.batch_tokens, seed=self.settings.seed, epoch=number)
        return Epoch(source, target, order)

    def where(self, batches: Sequence[Sequence[int]]) -> str:
        """On which lines of the files the pairs of these batches stand, in words."""
        if self.files is None or not batches:
            return ""
        lines: dict[tuple[str, str], int] = {}
        for number, pair in enumerate(zip(*(read_lines(file) for file in self.files), strict=True), 1):
            lines.setdefault(pair, number)  # of pairs that are the same, the first
        members = [n for batch in batches for n in batch]
        numbers = sorted({lines[pair] for n in members if (pair := (self.lines[0][n], self.lines[1][n])) in lines})
        shown = ", ".join(f"{number}" for number in numbers[:10])
        rest = f" and {len(numbers) - 10:,} more" if len(numbers) > 10 else ""
        return f", by the pairs on lines {shown}{rest} of {self.files[0].name}"

    def _pieces(self, epoch: int) -> tuple[Ids, Ids]:
        settings = self.settings
        if settings.sample == 0.0 or epoch >= settings.epochs - settings.plain:
            return self.ids
        drawn = []
        for side, vocabulary in enumerate(self.vocabularies):
            seed = (settings.seed * 10007 + epoch) * 2 + side
            rows = vocabulary.sample(self.lines[side], settings.sample, seed)
            longest = settings.max_length  # a draw has more pieces than the best reading: fall back to that
            drawn.append([row if len(row) <= longest else best for row, best in zip(rows, self.ids[side], strict=True)])
        return drawn[0], drawn[1]
