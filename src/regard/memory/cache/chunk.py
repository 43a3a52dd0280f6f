"""What a chunk adds to each row of a batch: how many pairs, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError

Counts = tuple[int, ...]


@dataclass(frozen=True)
class Chunk:
    """``counts`` pairs a row go on after the ``seen`` of before; ``valid`` (B, L) says which, None where all do."""

    seen: Counts
    counts: Counts
    length: int
    valid: Tensor | None

    @classmethod
    def of(cls, seen: Counts, length: int, valid: Tensor | None) -> Chunk:
        if valid is None:
            return cls(seen, (length,) * len(seen), length, None)
        counts = tuple(valid.sum(1).tolist())
        every = all(n == length for n in counts)
        return cls(seen, counts, length, None if every else valid)

    @property
    def after(self) -> Counts:
        """How many each row has seen when the chunk is written."""
        return tuple(s + n for s, n in zip(self.seen, self.counts, strict=True))

    def level(self) -> bool:
        """Whether every row does the same."""
        return self.valid is None and same(self.seen)

    def ranks(self, device: torch.device) -> Tensor:
        """Which pair of the chunk's own each is, (B, L); what is not there has its last neighbour's, or −1."""
        if self.valid is None:
            return torch.arange(self.length, device=device).expand(len(self.seen), -1)
        return self.valid.to(device).cumsum(1) - 1

    def places(self, device: torch.device) -> Tensor:
        """Where each pair stands in its row: (L,) where the rows are level, else (B, L)."""
        if self.level():
            first = self.seen[0] if self.seen else 0
            return torch.arange(first, first + self.length, device=device)
        return (self.ranks(device) + torch.tensor(self.seen, device=device)[:, None]).clamp(min=0)

    def rows(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """(b, t, rank) of every pair that is there."""
        ranks = self.ranks(device)
        there = torch.ones_like(ranks, dtype=torch.bool) if self.valid is None else self.valid.to(device)
        b, t = there.nonzero(as_tuple=True)
        return b, t, ranks[b, t]

    def check(self, who: str, places: Tensor | None) -> None:
        """Raises unless ``places`` (L,) or (B, L), as the caller counts them, go on where the rows stopped."""
        if places is None:
            return
        B, L = len(self.seen), self.length
        if places.dtype not in (torch.int32, torch.int64) or tuple(places.shape) not in ((L,), (B, L)):
            raise RegardError(
                f"{who}: places is {tuple(places.shape)} of {places.dtype}, wanted integers ({L},) or ({B}, {L})"
            )
        b, t, rank = self.rows(places.device)
        given = places.expand(B, L)[b, t]
        wanted = rank + torch.tensor(self.seen, device=places.device)[b]
        wrong = (given != wanted).nonzero()
        if wrong.numel():
            at = int(wrong[0])
            found, right = int(given[at]), int(wanted[at])
            how = "go backwards" if found < right else "leave a gap"
            raise RegardError(
                f"{who}: places {how} in row {int(b[at])}: found {found}, wanted {right}: a pair stands where the one "
                "before it stopped; crop goes back"
            )


def same(numbers: Counts) -> bool:
    return len(set(numbers)) <= 1
