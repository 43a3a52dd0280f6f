"""What a walk is asked to translate: a few sentences of one padded length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """``sources`` are lengths in pieces, end marks included; ``prefixes`` the pieces each target must begin with.

    ``numbers`` tell the sentences apart whatever batch they are in: chance is drawn by them.
    """

    sources: tuple[int, ...]
    prefixes: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]

    def limits(self, longest: int | None) -> list[int]:
        """How many pieces each target may have: ``longest``, or twice its source and ten; a prefix comes on top."""
        return [
            len(prefix) + (2 * source + 10 if longest is None else longest)
            for source, prefix in zip(self.sources, self.prefixes, strict=True)
        ]

    def must(self, rows: Sequence[int], step: int) -> list[int]:
        """The piece that each row must say at a step (from 1), −1 where it is free; a row is a sentence, or −1."""
        prefixes = [self.prefixes[n] if n >= 0 else () for n in rows]
        return [prefix[step - 1] if step <= len(prefix) else -1 for prefix in prefixes]
