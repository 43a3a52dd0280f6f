"""The training text as the model meets it: pieces of the pairs that are short enough, in batches, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import RegardError
from regard.translate.text.batches import Batch, collate, plan
from regard.translate.text.corpus import Corpus
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.settings import Settings

__all__ = ["Epoch", "Lessons", "vocabularies"]

Ids = list[list[int]]


def vocabularies(corpus: Corpus, settings: Settings) -> tuple[Vocabulary, Vocabulary]:
    """Those of source and target, learnt from the corpus; the same one twice where they are joint."""
    kind = settings.pieces
    if settings.joint:
        both = Vocabulary.train([*corpus.source, *corpus.target], settings.source_pieces, "source_pieces", kind)
        return both, both
    return (
        Vocabulary.train(corpus.source, settings.source_pieces, "source_pieces", kind),
        Vocabulary.train(corpus.target, settings.target_pieces, "target_pieces", kind),
    )


@dataclass(frozen=True)
class Epoch:
    """The pieces of every pair in one epoch, and the pairs of each batch in the order they are met."""

    source: Ids
    target: Ids
    order: list[list[int]]

    def __len__(self) -> int:
        return len(self.order)

    def batches(self, pairs: Sequence[Sequence[int]]) -> list[Batch]:
        """Batches of these pairs."""
        return [collate([self.source[n] for n in each], [self.target[n] for n in each]) for each in pairs]


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
        self.settings, self.vocabularies, self.cleaned = settings, (source, target), corpus.cleaned
        left, right = source.encode(corpus.source), target.encode(corpus.target)
        known = [n for n in range(len(corpus)) if source.knows(left[n]) and target.knows(right[n])]
        if not known:
            raise RegardError("corpus: the vocabularies know no pair's characters; give text of their languages")
        longest = settings.max_length
        self.kept = [n for n in known if max(len(left[n]), len(right[n])) <= longest]
        if not self.kept:
            raise RegardError(f"max_length: no pair is within {longest} pieces; raise it, or split the sentences")
        self.left_out = {
            f"longer than {longest} pieces": len(known) - len(self.kept),
            "with a side that the vocabulary knows no character of": len(corpus) - len(known),
            **corpus.left_out,
        }
        self.lines = [corpus.source[n] for n in self.kept], [corpus.target[n] for n in self.kept]
        self.numbers = [corpus.lines[n] for n in self.kept]
        self.ids = [left[n] for n in self.kept], [right[n] for n in self.kept]

    @property
    def said(self) -> str:
        """What was kept, what was left out and why, in a line."""
        reasons = [f"{count:,} {reason}" for reason, count in self.left_out.items() if count]
        parts = [f"{len(self.kept):,} pairs", f"left out {', '.join(reasons)}" if reasons else "none left out"]
        if self.cleaned:
            parts.append(f"control characters taken out of {self.cleaned:,}")
        return "; ".join(parts)

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
        numbers = sorted({self.numbers[n] for batch in batches for n in batch})
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
