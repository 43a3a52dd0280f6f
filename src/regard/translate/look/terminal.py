"""A look drawn in a terminal: target words down, source words across, shaded, the strongest link in brackets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from regard.translate.look.look import Look

_SHADES = " ░▒▓█"
_NUMBERS = 23  # columns that the numbers beside the map take
_WORD = 9  # of them, for the word at the peak
_LABEL = 14  # widest target word shown whole
_NARROW, _WIDE = 4, 10  # narrowest and widest column of the map


def lines(look: Look, width: int) -> Iterator[RenderableType]:
    """The picture, a line at a time, none wider than ``width``; a long sentence is drawn in bands of columns."""
    yield Text.assemble(("  source  ", "dim"), look.sentence)
    yield Text.assemble(("  target  ", "dim"), (look.translation, "bold"))
    yield Text()
    label = min(_LABEL, max((cell_len(word) for word in look.target), default=1))
    room = max(_NARROW, width - label - 3 - _NUMBERS)
    longest = max(cell_len(word) for word in look.source) + 1
    size = max(_NARROW, min(_WIDE, longest, room // len(look.source)))
    band = max(1, room // size)
    for start in range(0, len(look.source), band):
        yield from _band(look, start, min(start + band, len(look.source)), label, size)
        yield Text()
    notes = Table.grid(padding=(0, 1))
    for notice in look.notices:
        notes.add_row("·", Text(notice))
    notes.add_row("·", Text(look.reminder, "italic dim"))
    yield notes


def _band(look: Look, start: int, stop: int, label: int, size: int) -> Iterator[Text]:
    header = Text(" " * (label + 3))
    for name in look.source[start:stop]:
        header.append(_fit(name, size - 1) + " ", "cyan")
    header.append(" H/log n peak at", "dim")
    yield header
    for row, word in zip(look.weights.tolist(), look.words, strict=True):
        line = Text.assemble(" ", (_right(word.text, label), "bold"), "  ")
        for j in range(start, stop):
            gap = "" if size == _NARROW else " "  # the narrowest column is filled: "[35]" needs all of it
            line.append(_cell(row[j], size - len(gap), strongest=j == word.peak_at) + gap, _colour(row[j]))
        line.append(f" {word.evenness:7.2f} {word.peak:4.2f} ", "dim")
        line.append(_fit(look.source[word.peak_at], _WORD).rstrip(), "cyan")
        yield line


def _cell(weight: float, size: int, strongest: bool) -> str:
    if strongest:
        return f"[{min(99, round(100 * weight)):>{size - 2}}]"
    return _SHADES[min(4, int(weight * 5 + 0.5))] * size


def _colour(weight: float) -> str:
    """From faint to strong in one hue, so that it can be read by the colour-blind and in print."""
    red, green, blue = (round(a + (b - a) * weight**0.5) for a, b in ((90, 255), (90, 200), (110, 40)))
    return f"rgb({red},{green},{blue})" + (" bold" if weight >= 0.5 else "")


def _fit(word: str, size: int) -> str:
    return set_cell_size(word, size) if cell_len(word) <= size else set_cell_size(word, size - 1) + "…"


def _right(word: str, size: int) -> str:
    word = _fit(word, size).rstrip()
    return " " * (size - cell_len(word)) + word
