"""What an aligner's links are worth against gold: its directions, and what is made of both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.aligners.peers import Aligner

if TYPE_CHECKING:
    from regard.align.gold import Score

__all__ = ["MADE", "WAYS", "scores"]

#: Made of both directions.
MADE = ("intersection", "grow-diag", "grow-diag-final-and")
WAYS = ("forward", "reverse", *MADE, "own")


def scores(aligner: Aligner, folder: Path, gold: Path) -> dict[str, Score]:
    """By each way of making links; of the sentences that have gold, which are the last of those it aligned."""
    from regard.align import gold as golds
    from regard.align import symmetrize

    wanted = golds.read(gold)
    found = aligner.links(folder, len(wanted))
    if "forward" in found:
        both = found["forward"], found["reverse"]
        found |= {way: symmetrize.named(way)(*both) for way in MADE}
    return {way: golds.score(found[way], wanted) for way in WAYS if way in found}
