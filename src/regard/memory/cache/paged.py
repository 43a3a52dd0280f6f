"""A cache in pages: rows of their own lengths over one pool, and rows that were one share what they had."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RegardError
from regard.memory.base import Cost
from regard.memory.cache.base import Cache
from regard.memory.cache.buffer import Parts, kept_for_gradients
from regard.memory.cache.chunk import Chunk, Counts
from regard.memory.cache.kept import Kept
from regard.memory.cache.large import in_large_pages
from regard.memory.cache.looks import Telemetry, stacked
from regard.memory.given import check_index, lengths
from regard.reading import Reading


class Page:
    """A number of the pool that is somebody's. When the last state that has it is gone, the number is free again.

    ``filled`` of its places were given out: who ends there may write on, who ends sooner writes on in a copy.
    """

    __slots__ = ("filled", "free", "number")

    def __init__(self, number: int, filled: int, free: list[int]) -> None:
        self.number, self.filled, self.free = number, filled, free

    def __del__(self) -> None:
        self.free.append(self.number)


class Pool:
    """Which of the pages, of ``size`` pairs each, are free; at most ``limit`` of them if there is one."""

    __slots__ = ("free", "limit", "pages", "size")

    def __init__(self, size: int, limit: int | None) -> None:
        self.size, self.limit, self.pages = size, limit, 0
        self.free: list[int] = []

    def provide(self, who: str, wanted: int) -> None:
        """Makes sure that so many pages are free; doubles their number, or raises where there may not be so many."""
        missing, now = wanted - len(self.free), self.pages
        if missing <= 0:
            return
        if self.limit is not None and now + missing > self.limit:
            raise RegardError(
                f"{who}: {wanted} pages are needed and {len(self.free) + self.limit - now} are free of {self.limit}; "
                "nothing was written; let states go that are no longer read, or build it with more pages"
            )
        doubled = max(now + missing, 2 * now)
        self.pages = doubled if self.limit is None else min(doubled, self.limit)
        self.free.extend(range(now, self.pages))

    def page(self, filled: int) -> Page:
        """A free page, the first there is: pages that follow one another are read where they lie."""
        heapq.heapify(self.free)
        return Page(heapq.heappop(self.free), filled, self.free)


class PagedState(NamedTuple):
    """Which pages hold each row, and how many pairs it has; states that came of one reset share pages and pool."""

    parts: Parts
    """What the pages hold, keys first, (G, pages · size, ·) each."""
    keys: int
    """How many of the parts are of keys."""
    pages: tuple[tuple[Page, ...], ...]
    seen: Counts
    dtype: torch.dtype
    pool: Pool


@dataclass(frozen=True, eq=False)
class PagedCache(Cache[PagedState]):
    """All keys and values in pages of ``page`` pairs out of a pool that grows, or has at most ``pages``.

    Rows have their own lengths and take no room for one another. ``reorder`` copies nothing: rows that came of one row
    share its pages, and write on in a copy of the last one only. An older state stays right, after ``crop`` too. A page
    is free again when the last state that has it is gone. Reads are what :class:`KVCache` reads, row by row: of a view
    where a row's pages follow one another, as those of a single row do, else of a copy. Where a gradient is wanted of
    what is written, all pages are copied at every write.

    >>> import torch
    >>> cache = PagedCache(heads=1, width=2, page=4)
    >>> state = cache.write(cache.reset(), torch.ones(1, 1, 6, 2), torch.ones(1, 1, 6, 2))
    >>> both = cache.reorder(state, torch.tensor([0, 0]))
    >>> both = cache.write(both, torch.ones(2, 1, 1, 2), torch.ones(2, 1, 1, 2))
    >>> [[page.number for page in row] for row in both.pages]  # the first page is still shared
    [[0, 1], [0, 2]]
    """

    page: int = field(default=64, kw_only=True)
    pages: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least("page", 1)
        if self.pages is not None:
            self._at_least("pages", 1)

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> PagedState:
        self._check_batch(batch)
        k, v, dtype = self._empty(1, dtype, device)
        parts = tuple(x[0] for x in (*k, *v))
        return PagedState(parts, len(k), ((),) * batch, (0,) * batch, dtype, Pool(self.page, self.pages))

    @staticmethod
    def batch(state: tuple[Any, ...]) -> int:
        assert isinstance(state, PagedState)
        return len(state.seen)

    def write(
        self, state: PagedState, k: Tensor, v: Tensor, *, valid: Tensor | None = None, places: Tensor | None = None
    ) -> PagedState:
        """The state after the pairs; ``places``, if given, is checked to go on where each row stopped."""
        chunk = self._given(state, self._keeps(state), state.seen, None, k, v, valid, places)
        return self._appended(state, chunk, k, v)

    def read(self, state: PagedState, q: Tensor, *, telemetry: Telemetry = False) -> Reading:
        """What each query, standing at the newest pair, reads of all that is held; ``telemetry`` as in regard.read."""
        self._asked(state, self._keeps(state), q)
        look, rows = self._look(telemetry), []
        for b, n in enumerate(state.seen):
            rows.append(look.last(q[b : b + 1], self._row(state, b, q), (0,), (n,), (n,)))
        return stacked(rows) if rows else look.plain(q, self._nothing(state))

    def step(
        self,
        state: PagedState,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        valid: Tensor | None = None,
        places: Tensor | None = None,
        telemetry: Telemetry = False,
    ) -> tuple[Reading, PagedState]:
        """Writes the chunk and reads it all at once: query i stands at pair i."""
        chunk = self._given(state, self._keeps(state), state.seen, q, k, v, valid, places)
        after, look, rows = self._appended(state, chunk, k, v), self._look(telemetry), []
        for b, n in enumerate(state.seen):
            mine = Chunk(
                (n,), (chunk.counts[b],), chunk.length, None if chunk.valid is None else chunk.valid[b : b + 1]
            )
            rows.append(look.along(q[b : b + 1], self._row(after, b, q), (0,), (n,), mine))
        return (stacked(rows) if rows else look.plain(q, self._nothing(state))), after

    def pairs(self, state: PagedState) -> tuple[Tensor, Tensor]:
        """Keys (B, G, S, D) as they are kept, and values, each row's in their order; a view of one row, else a copy.

        S is the longest row; behind a shorter one's end are zeros.
        """
        rows, longest = [self._row(state, b) for b in range(len(state.seen))], max(state.seen, default=0)
        if len(rows) == 1:
            return rows[0].numbers()
        found = []
        for parts in zip(*((*row.k, *row.v) for row in rows), strict=True) if rows else ():
            short = [longest - x.shape[2] for x in parts]
            found.append(torch.cat([F.pad(x, (0, 0, 0, n)) if n else x for x, n in zip(parts, short, strict=True)]))
        n = state.keys
        held = Kept(tuple(found[:n]), tuple(found[n:]), self.store, state.dtype) if rows else self._nothing(state)
        return held.numbers()

    def reorder(self, state: PagedState, index: Tensor) -> PagedState:
        """The state whose row b is row ``index[b]``; pages are shared, nothing is copied."""
        check_index(self._who, index, self.batch(state))
        rows = index.tolist()
        return state._replace(pages=tuple(state.pages[b] for b in rows), seen=tuple(state.seen[b] for b in rows))

    def crop(self, state: PagedState, length: int | Tensor) -> PagedState:
        """The state with the first ``length`` pairs of each row, (B,) for its own. What was longer stays right."""
        seen = lengths(self._who, state.seen, length)
        pages = tuple(row[: -(-n // self.page)] for row, n in zip(state.pages, seen, strict=True))
        return state._replace(pages=pages, seen=seen)

    def nbytes(self, state: PagedState) -> int:
        """Bytes of the pairs that are held, those that rows share once; the pool's are in :meth:`reserved`."""
        most: dict[int, int] = {}
        for row, n in zip(state.pages, state.seen, strict=True):
            for at, page in enumerate(row):
                most[page.number] = max(most.get(page.number, 0), min(self.page, n - at * self.page))
        return sum(most.values()) * self._pair_bytes(state.parts[0].shape[2], state.dtype.itemsize)

    def reserved(self, state: PagedState) -> int:
        """Bytes of all pages, free ones included; states that came of one reset share them."""
        return sum(x.numel() * x.element_size() for x in state.parts)

    def cost(self, length: int) -> Cost:
        """Linear in what is held. Of float32 pairs, and as many query heads as key heads."""
        return self._cost(length + 1)

    def _keeps(self, state: PagedState) -> tuple[torch.dtype, torch.device]:
        return state.dtype, state.parts[0].device

    def _row(self, state: PagedState, b: int, q: Tensor | None = None) -> Kept:
        """The pairs of row b, (1, G, S, ·): a view where its pages follow one another."""
        numbers, length, size = [page.number for page in state.pages[b]], state.seen[b], self.page
        first = numbers[0] if numbers else 0
        # What autograd keeps must not be a view of pages that will be somebody else's.
        keeps = torch.is_grad_enabled() if q is None else kept_for_gradients(q)
        if numbers == list(range(first, first + len(numbers))) and not keeps:
            parts = tuple(x[None, :, first * size : first * size + length] for x in state.parts)
        else:
            device = state.parts[0].device
            at = torch.tensor(numbers, dtype=torch.long, device=device)[:, None] * size
            at = (at + torch.arange(size, device=device)).flatten()[:length]
            parts = tuple(x.index_select(1, at)[None] for x in state.parts)
        n = state.keys
        return Kept(parts[:n], parts[n:], self.store, state.dtype)

    def _nothing(self, state: PagedState) -> Kept:
        k, v, _ = self._empty(0, state.dtype, self._keeps(state)[1])
        return Kept(k, v, self.store, state.dtype)

    def _appended(self, state: PagedState, chunk: Chunk, k: Tensor, v: Tensor) -> PagedState:
        turned = self._turned(k, chunk)
        added = (*self.store.put("k", turned), *self.store.put("v", v))
        pool, size = state.pool, self.page
        own = self._own_ends(state, chunk)
        fresh = [
            -(-(n + more) // size) - len(row)
            for row, n, more in zip(state.pages, state.seen, chunk.counts, strict=True)
        ]
        pool.provide(self._who, sum(fresh) + own.count(False))
        table, moved = [], []
        for b, (row, n, more) in enumerate(zip(state.pages, state.seen, chunk.counts, strict=True)):
            pages = list(row)
            if not own[b]:
                pages[-1] = pool.page(n % size)
                moved.append((row[-1].number * size, pages[-1].number * size, n % size))
            pages.extend(pool.page(0) for _ in range(fresh[b]))
            for page in pages[n // size :] if more else ():
                page.filled = size
            if more and (n + more) % size:
                pages[-1].filled = (n + more) % size
            table.append(tuple(pages))
        parts = _roomy(state.parts, pool.pages * size, kept_for_gradients(*state.parts, *added))
        after = state._replace(parts=parts, pages=tuple(table), seen=chunk.after)
        return after._replace(parts=self._put(after, state.seen, chunk, added, moved))

    def _own_ends(self, state: PagedState, chunk: Chunk) -> list[bool]:
        """Whether each row may write on in its last page: it ends where the page does, and no row before it goes on."""
        taken, found = set[int](), []
        for row, n, more in zip(state.pages, state.seen, chunk.counts, strict=True):
            if not more or n % self.page == 0:
                found.append(True)
                continue
            last = row[-1]
            found.append(last.filled == n % self.page and last.number not in taken)
            taken.add(last.number)
        return found

    def _put(
        self, after: PagedState, before: Counts, chunk: Chunk, added: Parts, moved: list[tuple[int, int, int]]
    ) -> Parts:
        """The parts with pairs copied to pages of their own, ``moved`` from, to and how many, and with the chunk's."""
        device, size = added[0].device, self.page
        b, t, _ = chunk.rows(device)
        slots = [
            row[n // size].number * size + n % size
            for row, start, more in zip(after.pages, before, chunk.counts, strict=True)
            for n in range(start, start + more)
        ]
        source, target, at = (
            torch.tensor(places, dtype=torch.long, device=device)
            for places in (
                [old + n for old, _, count in moved for n in range(count)],
                [new + n for _, new, count in moved for n in range(count)],
                slots,
            )
        )
        found = []
        for x, new in zip(after.parts, added, strict=True):
            pairs = new.transpose(1, 2)[b, t].transpose(0, 1)  # (N, G, ·) as (G, N, ·)
            if kept_for_gradients(*after.parts, *added):
                x = x.index_copy(1, target, x.index_select(1, source)).index_copy(1, at, pairs)
            else:
                x.data[:, target] = x.data[:, source]
                x.data[:, at] = pairs.detach()
            found.append(x)
        return tuple(found)


def _roomy(parts: Parts, slots: int, graph: bool) -> Parts:
    """The parts with room for so many pairs; of their own where others' gradients would be written over."""
    if graph:
        return tuple(F.pad(x, (0, 0, 0, slots - x.shape[1])) for x in parts)
    if parts[0].shape[1] >= slots and not any(x.requires_grad for x in parts):
        return parts
    with torch.inference_mode(False):
        made = tuple(x.new_empty(x.shape[0], max(slots, x.shape[1]), x.shape[2]) for x in parts)
    for new, x in zip(made, parts, strict=True):
        in_large_pages(new)
        new.data[:, : x.shape[1]] = x.detach()
        new.data[:, x.shape[1] :] = 0
    return made
