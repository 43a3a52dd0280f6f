"""Half precision a few heads at a time: kernels compute in float32, and no other heads are held in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from regard.engines.tiled.given import Given
from regard.numerics import wide

HELD = 1 << 20  # numbers of q, k, v and the read that are widened together; never less than one key head's


class Chunk(NamedTuple):
    """Batch rows ``b``, key heads ``g`` and their query heads ``h`` of a call."""

    b: slice
    g: slice
    h: slice
    before: int  # how many reads stand before the first of these

    def reads(self, x: Any, axis: int = 0) -> Any:
        """The part of x (…, B|1, H|1, …); ``axis`` is that of B. What has no numbers stays as it is."""
        if not isinstance(x, Tensor) or not x.numel():
            return x
        return _part(_part(x, axis, self.b), axis + 1, self.h)

    def widened(self, x: Any, axis: int = 0) -> Any:
        """The same in the precision that kernels compute in."""
        return wide(self.reads(x, axis)) if isinstance(x, Tensor) else x

    def of(self, g: Given) -> Given:
        """The call for these alone, in the precision that kernels compute in."""
        B, H = g.q.shape[:2]
        each = g.tags.shape[1] == B * H
        tags = self.reads(g.tags.unflatten(1, (B, H)), 1).flatten(1, 2) if each else g.tags
        return g._replace(
            q=self.widened(g.q),
            k=wide(g.k[self.b, self.g]),
            v=wide(g.v[self.b, self.g]),
            table=None if g.table is None else g.table[self.h],
            row=self.reads(g.row),
            lo=self.reads(g.lo),
            hi=self.reads(g.hi),
            at=self.reads(g.at),
            tags=tags,
            numbers=g.numbers[:, self.h],
        )

    def gradients(self, whole: Sequence[Tensor], part: Sequence[Tensor]) -> None:
        """Writes gradients of q, k, energy, table, row and v of these into those of all; sums what is shared."""
        dq, dk, denergy, dtable, drow, dv = whole
        for x, y in ((self.reads(dq), part[0]), (dk[self.b, self.g], part[1]), (dv[self.b, self.g], part[5])):
            x.copy_(y)
        if denergy.numel():
            denergy += part[2]
        if dtable.numel():
            dtable[self.h] += part[3]
        if drow.numel():
            self.reads(drow).copy_(part[4])


def _part(x: Tensor, axis: int, part: slice) -> Tensor:
    return x if x.shape[axis] == 1 else x.narrow(axis, part.start, part.stop - part.start)


def widens(g: Given) -> bool:
    """Whether something of a call is in half precision."""
    return any(x.element_size() < 4 for x in (g.q, g.k, g.v))


def chunks(g: Given) -> Iterator[Chunk]:
    """As many heads together as may be held: some of one batch row, or all of several."""
    B, H, G, L, S, A, E = g.sizes
    if 0 in (B, H, G):
        yield Chunk(slice(0, B), slice(0, G), slice(0, H), 0)
        return
    share = H // G
    heads = min(B * G, max(1, HELD // max(1, (share * L + S) * (A + E))))
    rows, heads = max(1, heads // G), min(heads, G)
    for b in range(0, B, rows):
        for first in range(0, G, heads):
            last = min(G, first + heads)
            h = slice(first * share, last * share)
            yield Chunk(slice(b, min(B, b + rows)), slice(first, last), h, b * H + h.start)


def forward(g: Given, run: Callable[[Given, int], Any], empty: Callable[[Given], Any], axes: Sequence[int]) -> Any:
    """What ``run`` finds, chunk by chunk where something is to be widened; ``axes`` says where B is in each result."""
    if not widens(g):
        return run(g, 0)
    found = empty(g)
    for chunk in chunks(g):
        for whole, part, axis in zip(found, run(chunk.of(g), chunk.before), axes, strict=True):
            if whole.numel():
                chunk.reads(whole, axis).copy_(part)
    return found
