"""Several processes on one corpus, under ``torchrun``: each takes a part of the sentences, the counts are added up."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.align.corpus import Corpus
from regard.align.links import Links

__all__ = ["Alone", "Ranks", "ranks", "under_torchrun"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Alone:
    """One process: its part is everything."""

    rank: int = 0
    size: int = 1

    def part(self, corpus: Corpus) -> tuple[int, int]:
        """All sentences."""
        return 0, len(corpus)

    def together(self, array: Array) -> Array:
        """The array itself."""
        return array

    def gathered(self, links: Links) -> Links:
        """The links themselves."""
        return links

    def close(self) -> None:
        """Nothing to close."""


@dataclass(frozen=True)
class Ranks:
    """One process of ``size``; ``torch.distributed`` carries what they tell each other (gloo, on the CPU)."""

    rank: int
    size: int

    def part(self, corpus: Corpus) -> tuple[int, int]:
        """This rank's sentences: a run of them, all runs of about equal work."""
        l, m = corpus.source.lengths(), corpus.target.lengths()
        total = np.concatenate(([0.0], np.cumsum(l * m * (l + m) + 1.0)))
        edges = np.searchsorted(total, np.linspace(0, total[-1], self.size + 1))
        edges[0], edges[-1] = 0, len(corpus)
        return int(edges[self.rank]), int(edges[self.rank + 1])

    def together(self, array: Array) -> Array:
        """The sum over all ranks, the same on each."""
        import torch
        import torch.distributed as dist

        whole = np.array(array)  # both channels may hold the same one
        if whole.size:
            dist.all_reduce(torch.from_numpy(whole))
        return whole

    def gathered(self, links: Links) -> Links:
        """The links of all parts on rank 0, in order; elsewhere this rank's own."""
        import torch.distributed as dist

        everyone: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object((links.offsets, links.source, links.target, links.probability), everyone)
        return links if everyone is None else Links.join(Links(*each) for each in everyone)

    def close(self) -> None:
        """Ends the group."""
        import torch.distributed as dist

        dist.destroy_process_group()


def under_torchrun() -> bool:
    """Whether this process is one of several that ``torchrun`` started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def ranks() -> Alone | Ranks:
    """The group that ``torchrun`` started this process in, or this process alone."""
    if not under_torchrun():
        return Alone()
    import torch.distributed as dist

    dist.init_process_group("gloo")
    return Ranks(dist.get_rank(), dist.get_world_size())
