"""Corpora that are made: a small one whose links are known, and a large one that repeats a real one with noise."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from benchmarks.harness.aligners.corpora import Corpus, write

__all__ = ["NEW", "REPLACED", "made", "repeated", "small"]

REPLACED = 0.05  # of the words of each copy but the first
NEW = 0.2  # of the replaced, those that become a word that was not there; the others a word of the same side


def small(name: str, folder: Path, pairs: int, *, gold: int = 20, seed: int = 0) -> Corpus:
    """`pairs` made pairs, the last `gold` of them with their links; for a run that only shows that all is there."""
    found = list(islice(made(seed), pairs))
    path = folder / "gold"
    path.write_text("".join(links for _, _, links in found[-gold:]), encoding="utf-8")
    return write(name, folder, ((source, target) for source, target, _ in found), path)


def made(seed: int) -> Iterator[tuple[str, str, str]]:
    """Pairs of lines with their sure links: word s becomes t, sometimes two words or none; neighbours may swap.

    >>> from itertools import islice
    >>> [(source, target, links)] = islice(made(0), 1)
    >>> words = source.split(), target.split()
    >>> {(words[0][int(i)][1:], words[1][int(j)][1:]) for i, j in (link.split("-") for link in links.split())} <= {
    ...     (number, number + half) for number in (word[1:] for word in words[0]) for half in ("", "b")}
    True
    """
    draw = random.Random(seed)
    while True:
        numbers = [int(40 * draw.random() ** 2) for _ in range(draw.randint(3, 9))]
        order = list(range(len(numbers)))
        for i in range(len(order) - 1):
            if draw.random() < 0.2:
                order[i], order[i + 1] = order[i + 1], order[i]
        target: list[str] = []
        links = []
        for i in order:
            fertility = {7: 0, 11: 2}.get(numbers[i] % 13, 1)
            for half in ("", "b")[:fertility]:
                links.append(f"{i}-{len(target)}")
                target.append(f"t{numbers[i]}{half}")
        if links:
            yield " ".join(f"s{n}" for n in numbers) + "\n", " ".join(target) + "\n", " ".join(links) + "\n"


def repeated(pairs: Sequence[tuple[str, str]], number: int, *, seed: int = 0) -> Iterator[tuple[str, str]]:
    """`number` pairs: these, and then these again and again with noise, so that vocabulary and pairs of words grow.

    In every copy but the first each word is replaced with probability `REPLACED`: of these `NEW` by itself with a
    random number behind it, the others by the word at a random place of the same side.
    """
    draw = random.Random(seed)
    sides = [[word for pair in pairs for word in pair[side].split()] for side in (0, 1)]
    skips = [_Skip(draw) for _ in sides]
    for count in range(number):
        pair = pairs[count % len(pairs)]
        if count < len(pairs):
            yield pair
        else:
            yield (
                _noisy(pair[0], sides[0], skips[0], draw),
                _noisy(pair[1], sides[1], skips[1], draw),
            )


class _Skip:
    """How many words are left alone before the next that is replaced."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.left = 0
        self.next()

    def next(self) -> None:
        self.left = int(math.log(1.0 - self.draw.random()) / math.log(1.0 - REPLACED))


def _noisy(line: str, words: Sequence[str], skip: _Skip, draw: random.Random) -> str:
    found = line.split()
    i = skip.left
    while i < len(found):
        old = found[i]
        found[i] = f"{old}~{draw.randrange(10**6)}" if draw.random() < NEW else words[draw.randrange(len(words))]
        skip.next()
        i += 1 + skip.left
    skip.left = i - len(found)
    return " ".join(found) + "\n"
