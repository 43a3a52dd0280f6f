"""Ours as the command a user types; the one place that knows its options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.aligners.corpora import Corpus
from benchmarks.harness.aligners.peers import pharaoh
from benchmarks.harness.aligners.process import Step

if TYPE_CHECKING:
    from regard.align.links import Links

__all__ = ["Regard"]


@dataclass(frozen=True)
class Regard:
    """`regard align --model`: both directions, and what it prints, which is its own way of making one of both."""

    model: str = "best"
    name: str = ""
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or f"regard {self.model}")

    def steps(self, corpus: Corpus, seed: int) -> Sequence[Step]:
        sides = (str(corpus.source), str(corpus.target))
        options = ("--model", self.model, "--both", "both", "--seed", str(seed), *self.options)
        return [Step((sys.executable, "-m", "regard", "align", *sides, *options), "own")]

    def links(self, folder: Path, number: int) -> dict[str, Links]:
        return pharaoh(folder, number, forward="both.forward", reverse="both.reverse", own="own")
