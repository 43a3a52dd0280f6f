"""From pieces to words: the soft alignment of subword pieces as one of the words a person reads."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import torch
from torch import Tensor

SPACE, END = "▁", "</s>"


def group(pieces: Sequence[str]) -> list[list[int]]:
    """Which pieces make a word: a list of piece numbers a word, in order, every piece in exactly one.

    A word begins at ``▁``, at punctuation, after an apostrophe, and at every piece of a script that writes no spaces.

    >>> group(["▁l", "'", "homme", "▁as", "sis", ".", "</s>"])
    [[0, 1], [2], [3, 4], [5], [6]]
    >>> group(["▁我们", "失去", "了", "它", "。"])
    [[0], [1], [2], [3], [4]]
    """
    words: list[list[int]] = []
    before = END
    for n, piece in enumerate(pieces):
        text = piece.removeprefix(SPACE)
        begins = piece.startswith(SPACE) or piece == END or before in ("", END)
        begins = begins or _spaceless(text) or _spaceless(before) or _breaks(text) or _breaks(before)
        begins = begins or before.endswith(("'", "’"))
        # A bare "▁" belongs to the word that follows it, as does the end of "aujourd'" to its own start.
        if words and ((before == "" and piece != END) or not begins):
            words[-1].append(n)
        else:
            words.append([n])
        before = text if piece != END else END
    return words


def spell(pieces: Sequence[str], words: Sequence[Sequence[int]]) -> list[str]:
    """The words as text."""
    return ["".join(pieces[n] for n in word).replace(SPACE, " ").strip() for word in words]


def merge(weights: Tensor, target: Sequence[Sequence[int]], source: Sequence[Sequence[int]]) -> Tensor:
    """Weights (T, S) of pieces as weights of words: the sum over a source word, the mean over a target word.

    A row still sums to 1: a target word's row is where its pieces looked on average.
    """
    columns = torch.stack([weights[:, list(word)].sum(-1) for word in source], dim=-1)
    return torch.stack([columns[list(word)].mean(0) for word in target], dim=0)


def _breaks(text: str) -> bool:
    """Whether ``text`` is punctuation alone, the apostrophe apart: it belongs to the word it elides."""
    return bool(text) and text not in ("'", "’", END) and all(unicodedata.category(c)[0] == "P" for c in text)


def _spaceless(text: str) -> bool:
    """Whether ``text`` is in a script written without spaces (Han, kana, Thai)."""
    return any("\u3040" <= c <= "\u30ff" or "\u3400" <= c <= "\u9fff" or "\u0e00" <= c <= "\u0e7f" for c in text)
