"""Words of a translation and of its source: those that spaces divide, which of them answer, and what is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from regard.align.soft.attention import fold
from regard.align.soft.attention import links as links_of
from regard.translate.decoding.markup import Marked, carried
from regard.translate.text.vocabulary import UNK
from regard.translate.text.words import END, SPACE, group, merge

if TYPE_CHECKING:
    from regard.translate.translator import Translation

__all__ = ["copied", "links", "numbers", "text_of", "with_tags"]


def text_of(pieces: Sequence[str]) -> str:
    """The text of pieces as they stand in it.

    >>> text_of(["▁l", "'", "homme", "▁assis", "</s>"])
    "l'homme assis"
    """
    return "".join(piece for piece in pieces if piece != END).replace(SPACE, " ").strip(" ")


def numbers(pieces: Sequence[str]) -> tuple[int, ...]:
    """Which word each piece belongs to, counted from 0 over the words that spaces divide; −1 for marks.

    >>> numbers(["▁l", "'", "homme", "▁", "as", "sis", ".", "</s>"])
    (0, 0, 0, 1, 1, 1, 1, -1)
    """
    found, word, inside = [], -1, False
    for piece in pieces:
        if piece == END:
            found.append(-1)
            continue
        bare = piece.strip(SPACE)
        if piece.startswith(SPACE):
            inside = False
        if bare and not inside:
            word, inside = word + 1, True
        found.append(word if inside else word + 1)
        if piece.endswith(SPACE):
            inside = False
    return tuple(-1 if n > word else n for n in found)


def links(translation: Translation) -> list[tuple[int, int]]:
    """(i, j): word i of the source is what was looked at most for word j of the translation, by :func:`fold`."""
    target, source = numbers(translation.target), numbers(translation.source)
    if not translation.weights.numel() or max(target) < 0 or max(source) < 0:
        return []
    return sorted((int(i), int(j)) for i, j, *_ in links_of([fold(translation.weights, target, source)])[0])


def copied(
    ids: Sequence[int],
    prefix: int,
    target: Sequence[str],
    read: Sequence[int],
    source: Sequence[str],
    weights: Tensor,
) -> tuple[str, ...]:
    """``target`` with, in place of each run of unknown pieces behind the prefix, what was looked at most.

    That is a word as people read them, without the punctuation beside it, or any character of a script without spaces.
    Where the word holds pieces that are unknown themselves, it is these alone: the target says the rest.

    Args:
        ids, read: piece numbers of target and source, whose pieces are spelt in ``target`` and ``source``.
    """
    words = group(source)[:-1]  # the end mark can't be copied
    out = list(target)
    for n, piece in enumerate(ids):
        if n < prefix or piece != UNK:
            continue
        if n > prefix and ids[n - 1] == UNK:
            out[n] = ""  # the run is one word, said already
            continue
        end = next((m for m in range(n, len(ids)) if ids[m] != UNK), len(ids))
        looked = weights[n:end].mean(0)
        best = max(words, key=lambda word: float(looked[word].sum())) if words else []
        unknown = [m for m in best if read[m] == UNK]
        out[n] = "".join(source[m] for m in unknown or best).strip(SPACE)
    return tuple(out)


def with_tags(translation: Translation, marked: Marked) -> str:
    """The text of a translation with the tags of its source, by where it looked (:func:`carried`)."""
    target = [word for word in group(translation.target) if translation.target[word[0]] != END]
    source = [word for word in group(translation.source) if translation.source[word[0]] != END]
    texts = ["".join(translation.target[n] for n in word).replace(SPACE, " ") for word in target]
    if texts:
        texts[0], texts[-1] = texts[0].lstrip(" "), texts[-1].rstrip(" ") if len(texts) > 1 else texts[-1].strip(" ")
    spans, place = [], -1  # the first piece begins with a space that the text has not
    for word in source:
        written = "".join(translation.source[n] for n in word)
        start = place + len(written) - len(written.lstrip(SPACE))
        place += len(written)
        spans.append((start, place))
    looked: list[int | None] = [None] * len(target)
    if target and source and translation.weights.numel():
        rows = merge(translation.weights, target, source)
        looked = [int(row.argmax()) for row in rows]
    return carried(marked, texts, spans, looked)
