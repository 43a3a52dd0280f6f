"""A look: one sentence translated, and where the decoder looked for each word of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.translate.text.words import END, group, merge, spell
from regard.translate.translator import Translation, Translator

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

REMINDER = "Weight is where the decoder looked, not why it chose a word: weight is not explanation."
EVEN, SINGLE = 0.75, 0.95  # what counts as looking nowhere in particular, and at one place only
_PADDING = 3  # places of padding put behind the sentence, so that the weight on padding is a measurement


@dataclass(frozen=True)
class Word:
    """One target word: the row of the alignment in numbers. ``evenness`` is entropy / log n over the n source words."""

    text: str
    entropy: float
    evenness: float
    peak: float
    peak_at: int


@dataclass(frozen=True)
class Look:
    """A translation with its soft alignment between words.

    ``weights`` (T, S) has a row for each target word and a column for each word of ``source``, the end mark last; a row
    sums to 1; it is the mean over so many layers and ``heads``. ``on_padding`` is the largest weight that fell on
    padding put behind the sentence; anything but 0 is a bug. It draws itself in a terminal and in a notebook, and
    ``to_dict()`` is what ``regard inspect --json`` prints.
    """

    sentence: str
    translation: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Tensor
    on_padding: float
    heads: tuple[int, int] = (1, 1)
    reminder: ClassVar[str] = REMINDER

    @property
    def words(self) -> list[Word]:
        """The target words with the numbers of their rows."""
        entropy = torch.special.entr(self.weights.double()).sum(-1)
        peak, at = self.weights.max(-1)
        limit = math.log(max(2, len(self.source)))
        return [
            Word(text, float(h), float(h) / limit, float(p), int(j))
            for text, h, p, j in zip(self.target, entropy, peak, at, strict=True)
        ]

    @property
    def notices(self) -> list[str]:
        """What a reader should notice, a line each."""
        words = self.words
        even = [f"“{w.text}” ({w.evenness:.0%} of log n)" for w in words if w.evenness >= EVEN]
        single = [f"“{w.text}” → “{self.source[w.peak_at]}”" for w in words if w.peak >= SINGLE]
        ends = [f"“{w.text}”" for w in words if self.source[w.peak_at] == END]
        lines = [
            f"Looks nowhere in particular: {_listed(even)}.",
            f"Looks at one place only (≥ {SINGLE:.0%}): {_listed(single)}.",
        ]
        if ends:
            lines.append(f"Looks mostly at the end mark, which is no word: {_listed(ends)}.")
        verdict = "exactly 0, as it must be" if self.on_padding == 0 else f"{self.on_padding:.3g}: THIS IS A BUG"
        lines.append(f"Weight on padding put behind the sentence: {verdict}.")
        if self.heads != (1, 1):
            layers, heads = self.heads
            lines.append(f"Each row is the mean of {layers * heads} looks: layers × heads = {layers} × {heads}.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists; ``links`` is the strongest source word of each target word."""
        return {
            "sentence": self.sentence,
            "translation": self.translation,
            "source": list(self.source),
            "target": list(self.target),
            "weights": [[round(w, 6) for w in row] for row in self.weights.tolist()],
            "words": [
                {
                    "text": word.text,
                    "entropy_nats": round(word.entropy, 6),
                    "entropy_share": round(word.evenness, 6),
                    "peak": round(word.peak, 6),
                    "peak_at": word.peak_at,
                    "peak_word": self.source[word.peak_at],
                }
                for word in self.words
            ],
            "weight_on_padding": self.on_padding,
            "layers_and_heads": list(self.heads),
            "notices": self.notices,
            "reminder": self.reminder,
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from regard.translate.look.terminal import lines

        yield from lines(self, options.max_width)

    def _repr_html_(self) -> str:
        from regard.translate.look.page import section

        return section(self)


def look(translator: Translator, sentence: str, *, beam: int = 5) -> Look:
    """Translates ``sentence`` and says where the decoder looked for each word.

    Raises:
        RegardError: the sentence is empty.
    """
    if not sentence.strip():
        raise RegardError("sentence: found nothing to translate, wanted at least one word, such as “A cat sleeps.”")
    found = translator.translate([sentence], beam=beam, padding=_PADDING)[0]
    return from_translation(sentence, found)


def from_translation(sentence: str, found: Translation) -> Look:
    """The look of a translation whose soft alignment is between pieces."""
    source, target = group(found.source), group(found.target)
    if target and found.target[target[-1][-1]] == END:
        target = target[:-1]  # the end mark is said, but it is no word
    weights = merge(found.weights, target, source) if target else found.weights.new_zeros(0, len(source))
    return Look(
        sentence=sentence,
        translation=found.text,
        source=tuple(spell(found.source, source)),
        target=tuple(spell(found.target, target)),
        weights=weights,
        on_padding=found.on_padding,
        heads=found.heads,
    )


def _listed(items: list[str]) -> str:
    return ", ".join(items) if items else "no word"
