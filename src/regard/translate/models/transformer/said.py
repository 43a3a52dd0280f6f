"""What a decoder that reads itself has said: written once, where it stays, however beginnings change places."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.mask import Mask, dense

__all__ = ["Page", "Said"]

_ROOM = 16  # pieces that a page has room for at first


@dataclass
class Page:
    """Keys and values of one layer, (B, H, room, D/H) each, of which the first ``filled`` places are written."""

    keys: Tensor
    values: Tensor
    filled: int

    def first(self, places: int) -> tuple[Tensor, Tensor]:
        return self.keys[:, :, :places], self.values[:, :, :places]

    def of(self, rows: Tensor) -> Page:
        return Page(self.keys[rows], self.values[rows], self.filled)


@dataclass(frozen=True)
class Said:
    """L beginnings of each of B targets, t pieces each, as the layers of the decoder read them.

    A layer's keys and values of all beginnings lie side by side: piece i of beginning l is at i·L + l. When a beginning
    becomes another nothing is moved: ``own`` (B, L, t·L) says which places are a beginning's own past, and its read is
    masked by it. So a step writes L places and copies none, at the price of scores between L beginnings and t·L places,
    few beside what the rest of a step multiplies as long as L is small.

    While no beginning has become another (``moved``) each reads its own places alone.

    A state is a value: two steps from one state do not disturb each other. The second finds that the place behind is
    taken, and writes on a copy.
    """

    own: Tensor
    pages: tuple[Page, ...] = ()
    moved: bool = False

    @classmethod
    def nothing(cls, batch: int, device: torch.device) -> Said:
        """One beginning of each target that has said nothing."""
        return cls(torch.zeros(batch, 1, 0, dtype=torch.bool, device=device))

    @property
    def width(self) -> int:
        """L."""
        return self.own.shape[1]

    @property
    def pieces(self) -> int:
        """t."""
        return self.own.shape[2] // self.width

    @property
    def seen(self) -> Mask | None:
        """Which of the L·t places each beginning may look at."""
        return dense(self.own.unsqueeze(1)) if self.moved else None

    def spread(self, width: int) -> Said:
        """So many beginnings that have said nothing."""
        return replace(self, own=self.own.expand(-1, width, -1))

    def taken(self, parent: Tensor) -> Said:
        """Beginning l becomes what ``parent`` (B, L) was."""
        own = self.own.gather(1, parent.unsqueeze(-1).expand_as(self.own))
        return replace(self, own=own, moved=self.moved or self.width > 1)

    def of(self, rows: Tensor) -> Said:
        """These targets alone."""
        return replace(self, own=self.own[rows], pages=tuple(page.of(rows) for page in self.pages))

    def longer(self) -> Said:
        """One piece more of each beginning, not written yet."""
        B, L, _ = self.own.shape
        new = torch.eye(L, dtype=torch.bool, device=self.own.device).expand(B, L, L)
        return replace(self, own=torch.cat([self.own, new], -1), pages=())

    def written(self, n: int, keys: Tensor, values: Tensor) -> Page:
        """Layer n with the last piece's ``keys`` and ``values`` (B, H, L, D/H) behind what was said before."""
        start, stop = self.own.shape[2], self.own.shape[2] + self.width
        page = self.pages[n] if self.pages else None
        if page is None or page.filled != start or page.keys.shape[2] < stop or torch.is_grad_enabled():
            page = _copied(page, start, max(_ROOM * self.width, 2 * start), keys)
        page.keys[:, :, start:stop], page.values[:, :, start:stop] = keys, values
        page.filled = stop
        return page


def _copied(page: Page | None, filled: int, room: int, like: Tensor) -> Page:
    """A page of its own with what stands in the first places of another."""
    B, H, _, D = like.shape
    fresh = Page(like.new_empty(B, H, room, D), like.new_empty(B, H, room, D), filled)
    if page is not None:
        fresh.keys[:, :, :filled], fresh.values[:, :, :filled] = page.first(filled)
    return fresh
