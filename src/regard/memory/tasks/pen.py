"""Pen: letters written one after the other by a hand that is not steady, to be written from their text (Graves 2013).

Its answers are where a pen goes, real numbers under a density, so it is no :class:`Task` of right and wrong ones: it
only draws, and the density of a model says how well it does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.tasks.sizes import check_least, check_range

Stroke = list[tuple[float, float]]

SPREAD = 0.4  # offsets are in units of it, so that they are about 1


class Handwriting(NamedTuple):
    """A batch of written lines."""

    text: Tensor
    """Letters by their places in the alphabet, integers (B, U); 0 behind a row's last."""
    text_valid: Tensor
    """Booleans (B, U), True where a row has a letter."""
    strokes: Tensor
    """(B, T, 3): how far the pen went, across and up, and 1 where a stroke ended there; 0 behind a row's last point."""
    valid: Tensor
    """Booleans (B, T), True where a row has a point."""
    letter: Tensor
    """To which letter of the text, counted from 1, a point belongs: integers (B, T), 0 behind a row's last point."""


@dataclass(frozen=True)
class Pen:
    """Lines of ``lengths`` letters, every letter as likely, each a program of strokes through points that are jittered.

    A letter is as wide and high as its program says, times a size of its own between 0.9 and 1.1; ``jitter`` is how far
    a point lies from its place, and ``slant`` how far a line leans, both standard deviations, in heights of an o.

    >>> pen = Pen(lengths=(2, 3))
    >>> lines = pen.draw(4, torch.Generator().manual_seed(0))
    >>> lines.text.shape, pen.spelled(lines.text[0], lines.text_valid[0])
    (torch.Size([4, 3]), 'ro')
    >>> lines.letter[0][lines.valid[0]].unique().tolist()
    [1, 2]
    """

    lengths: tuple[int, int] = (3, 6)
    jitter: float = 0.03
    slant: float = 0.1

    def __post_init__(self) -> None:
        check_range("Pen", "lengths", self.lengths, 1)
        for name, value in (("jitter", self.jitter), ("slant", self.slant)):
            if not 0 <= value < math.inf:
                raise RegardError(f"Pen: {name} is {value}, wanted a number of at least 0")

    @property
    def alphabet(self) -> str:
        """The letters it can write."""
        return "".join(LETTERS)

    def spell(self, word: str) -> Tensor:
        """A word as a text of one row, integers (1, U)."""
        unknown = sorted(set(word) - set(LETTERS))
        if unknown or not word:
            raise RegardError(f"Pen: word is {word!r}, wanted letters of {self.alphabet!r}")
        return torch.tensor([[self.alphabet.index(letter) for letter in word]])

    def spelled(self, text: Tensor, valid: Tensor | None = None) -> str:
        """The word that a text (U,) is."""
        letters = text if valid is None else text[valid]
        return "".join(self.alphabet[int(n)] for n in letters)

    def draw(self, batch: int, generator: torch.Generator) -> Handwriting:
        """``batch`` lines, each of a length of its own; the same for the same state of ``generator``."""
        check_least("Pen", "batch", batch, 1)
        low, high = self.lengths
        count = torch.randint(low, high + 1, (batch, 1), generator=generator)
        U = int(count.max())
        there = torch.arange(U) < count
        text = torch.randint(len(LETTERS), (batch, U), generator=generator).masked_fill(~there, 0)
        return self.written(text, there, generator)

    def written(self, text: Tensor, valid: Tensor, generator: torch.Generator) -> Handwriting:
        """Texts (B, U) by this hand, where ``valid`` (B, U) has a letter."""
        points, ends, has, advance = _programs()
        B, U = text.shape
        size = 0.9 + 0.2 * torch.rand(B, U, 1, generator=generator)
        begun = (advance[text] * size[..., 0] * valid).cumsum(1) - advance[text] * size[..., 0] * valid
        at = points[text] * size.unsqueeze(-1)  # (B, U, P, 2)
        at = at + self.jitter * torch.randn(at.shape, generator=generator)
        lean = self.slant * torch.randn(B, 1, 1, generator=generator)
        across = at[..., 0] + begun.unsqueeze(-1) + lean * at[..., 1]
        there = (has[text] & valid.unsqueeze(-1)).flatten(1)
        order = (~there).byte().argsort(dim=1, stable=True)[:, : int(there.sum(1).max())]
        there = there.gather(1, order)
        x, y = across.flatten(1).gather(1, order), at[..., 1].flatten(1).gather(1, order)
        moved = torch.stack([x, y], -1).diff(dim=1, prepend=torch.zeros(B, 1, 2)) / SPREAD
        strokes = torch.cat([moved, ends[text].flatten(1).gather(1, order).unsqueeze(-1)], -1)
        letter = torch.arange(1, U + 1).view(1, U, 1).expand(B, U, points.shape[1]).flatten(1).gather(1, order)
        return Handwriting(text, valid, strokes * there.unsqueeze(-1), there, letter * there)


def polylines(strokes: Tensor) -> list[Tensor]:
    """The lines a pen drew by strokes (T, 3): points (n, 2) each, where it was on the paper without a break.

    >>> [line.tolist() for line in polylines(torch.tensor([[1.0, 0, 0], [0, 2, 1], [1, 0, 1]]))]
    [[[1.0, 0.0], [1.0, 2.0]], [[2.0, 2.0]]]
    """
    at, lines, begun = strokes[:, :2].cumsum(0), [], 0
    for end in (strokes[:, 2] > 0.5).nonzero().flatten().tolist():
        lines.append(at[begun : end + 1])
        begun = end + 1
    return [*lines, at[begun:]] if begun < len(at) else lines


def _arc(x: float, y: float, wide: float, high: float, first: float, last: float, points: int) -> Stroke:
    """Points on an ellipse around (x, y), angles in degrees, counterclockwise from the right."""
    angles = [math.radians(first + (last - first) * n / (points - 1)) for n in range(points)]
    return [(x + wide * math.cos(a), y + high * math.sin(a)) for a in angles]


#: Strokes through points: the line that letters stand on is 0, an o is 1 high.
LETTERS: dict[str, list[Stroke]] = {
    "a": [[*_arc(0.4, 0.5, 0.4, 0.5, 50, 320, 7), (0.8, 1.0), (0.8, 0.5), (0.85, 0.0)]],
    "d": [[*_arc(0.4, 0.5, 0.4, 0.5, 50, 320, 7), (0.8, 1.9), (0.8, 0.9), (0.85, 0.0)]],
    "e": [[(0.05, 0.5), (0.8, 0.55), *_arc(0.42, 0.5, 0.4, 0.5, 50, 310, 6)]],
    "g": [[*_arc(0.4, 0.5, 0.4, 0.5, 50, 320, 7), (0.8, 1.0), (0.8, -0.4), (0.45, -0.85), (0.05, -0.6)]],
    "i": [[(0.1, 1.0), (0.1, 0.4), (0.2, 0.0)], [(0.1, 1.4), (0.13, 1.48)]],
    "n": [[(0.0, 1.0), (0.0, 0.5), (0.0, 0.0), (0.05, 0.6), (0.35, 1.0), (0.7, 0.8), (0.7, 0.4), (0.75, 0.0)]],
    "o": [_arc(0.42, 0.5, 0.42, 0.5, 80, 450, 9)],
    "r": [[(0.0, 1.0), (0.0, 0.5), (0.0, 0.0), (0.05, 0.6), (0.3, 0.95), (0.55, 0.9)]],
    "t": [[(0.3, 1.7), (0.3, 0.9), (0.3, 0.2), (0.5, 0.0), (0.7, 0.1)], [(0.0, 1.15), (0.6, 1.15)]],
}


@cache
def _programs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points (A, P, 2), which of them end a stroke (A, P), which there are (A, P), and how wide a letter is (A,)."""
    most = max(sum(len(stroke) for stroke in strokes) for strokes in LETTERS.values())
    points, ends = torch.zeros(len(LETTERS), most, 2), torch.zeros(len(LETTERS), most)
    has, advance = torch.zeros(len(LETTERS), most, dtype=torch.bool), torch.zeros(len(LETTERS))
    for n, strokes in enumerate(LETTERS.values()):
        at = 0
        for stroke in strokes:
            points[n, at : at + len(stroke)] = torch.tensor(stroke)
            at += len(stroke)
            ends[n, at - 1] = 1
        has[n, :at] = True
        advance[n] = points[n, :at, 0].max() + 0.35
    return points, ends, has, advance
