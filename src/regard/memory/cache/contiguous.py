"""Caches whose pairs lie one behind the other: one that grows, one whose room is fixed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.base import Cost
from regard.memory.cache.base import Cache
from regard.memory.cache.buffer import Buffer, Parts, aligned, joined, kept_for_gradients
from regard.memory.cache.chunk import Chunk, Counts
from regard.memory.cache.kept import Kept
from regard.memory.cache.looks import Telemetry
from regard.memory.given import check_index, lengths
from regard.reading import Reading


class CacheState(NamedTuple):
    """What a contiguous cache holds: row b's pairs lie in starts[b] … stops[b] of the buffer, which states share."""

    k: Parts
    """Keys as they are kept, (B, G, S, ·), a view of the buffer; S is the longest row."""
    v: Parts
    seen: Counts
    """How many pairs each row was given: the place of its next one."""
    starts: Counts
    stops: Counts
    dtype: torch.dtype
    buffer: Buffer
    number: int

    @property
    def held(self) -> Counts:
        """How many pairs each row holds."""
        return tuple(z - a for a, z in zip(self.starts, self.stops, strict=True))


class Wide(NamedTuple):
    """A buffer with a chunk written behind what a state holds; nothing has been let go yet."""

    buffer: Buffer
    number: int
    starts: Counts
    stops: Counts  # before the chunk


@dataclass(frozen=True, eq=False)
class Contiguous(Cache[CacheState]):
    """Pairs that lie one behind the other, so that a read is of a view. Rows that are shorter end sooner.

    A write from the newest state goes into the buffer in place; from an older one it copies, so that both stay right.
    When a gradient is wanted of what is written, a new buffer is made of the old and the new pairs.
    """

    @abstractmethod
    def _room(self, needed: int, now: int) -> int:
        """The room of a new buffer that has to hold ``needed`` pairs, when rows hold ``now`` at most."""

    @staticmethod
    def batch(state: tuple[Any, ...]) -> int:
        assert isinstance(state, CacheState)
        return len(state.seen)

    def _last(self) -> int | None:
        """How many pairs a query sees up to its own; None is all."""
        return None

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> CacheState:
        k, v, dtype = self._empty(batch, dtype, device)
        none = (0,) * batch
        return self._state(Buffer.empty((*k, *v), batch, self._room(0, 0)), 0, none, none, none, dtype, len(k))

    def write(
        self, state: CacheState, k: Tensor, v: Tensor, *, valid: Tensor | None = None, places: Tensor | None = None
    ) -> CacheState:
        """The state after the pairs; ``places``, if given, is checked to go on where each row stopped."""
        chunk = self._chunk(state, None, k, v, valid, places)
        return self.kept(state, chunk, self.appended(state, chunk, k, v)) if any(chunk.counts) else state

    def read(self, state: CacheState, q: Tensor, *, telemetry: Telemetry = False) -> Reading:
        """What each query, standing at the newest pair, reads of all that is held; ``telemetry`` as in regard.read."""
        self._asked(state, self._keeps(state), q)
        self._check_whole(state)
        held = self._held(state, state.buffer)
        return self._look(telemetry).last(q, held, state.starts, state.stops, state.seen)

    def step(
        self,
        state: CacheState,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        valid: Tensor | None = None,
        places: Tensor | None = None,
        telemetry: Telemetry = False,
    ) -> tuple[Reading, CacheState]:
        """Writes the chunk and reads it all at once: query i stands at pair i."""
        chunk = self._chunk(state, q, k, v, valid, places)
        wide = self.appended(state, chunk, k, v)
        held = self._held(state, wide.buffer)
        reading = self._look(telemetry).along(q, held, wide.starts, wide.stops, chunk, self._last())
        return reading, self.kept(state, chunk, wide)

    def pairs(self, state: CacheState) -> tuple[Tensor, Tensor]:
        """Keys (B, G, S, D) as they are kept, and values; a view where they are kept as given.

        Row b's own lie in starts[b] … stops[b], less the least of the starts.
        """
        self._check_whole(state)
        return self.store.take(state.k, state.dtype), self.store.take(state.v, state.dtype)

    def reorder(self, state: CacheState, index: Tensor) -> CacheState:
        """The state whose row b is row ``index[b]``; a copy, with spare room."""
        check_index(self._who, index, self.batch(state))
        self._check_whole(state)
        rows = index.tolist()
        held, seen = (tuple(numbers[b] for b in rows) for numbers in (state.held, state.seen))
        old = [aligned(x, state.starts, state.stops).index_select(0, index.to(x.device)) for x in state.buffer.parts]
        longest = max(held, default=0)
        buffer = Buffer(tuple(old)) if kept_for_gradients(*old) else Buffer.holding(old, self._room(longest, longest))
        return self._state(buffer, 0, seen, (0,) * len(rows), held, state.dtype, len(state.k))

    def crop(self, state: CacheState, length: int | Tensor) -> CacheState:
        """The state with the first ``length`` pairs of each row, as if no more had been written; (B,) for its own.

        The newest state gives what is behind them back to its buffer: states that reach further can no longer be read.
        """
        self._check_whole(state)
        seen = lengths(self._who, state.seen, length)
        if seen == state.seen:
            return state
        reach = self._last()
        for before, after, held in zip(state.seen, seen, state.held, strict=True):
            if reach is not None and before - held > max(0, after - reach):
                raise RegardError(
                    f"{self._who}: crop to {after} needs pairs that were let go: the row has seen {before} and holds "
                    f"{held}; crop before the window is full, or keep the state of before"
                )
        stops = tuple(z - (old - new) for z, old, new in zip(state.stops, state.seen, seen, strict=True))
        takes = state.number == state.buffer.newest and not state.buffer.graph
        number = state.buffer.cut(stops) if takes else state.number
        return self._state(state.buffer, number, seen, state.starts, stops, state.dtype, len(state.k))

    def nbytes(self, state: CacheState) -> int:
        """Bytes of the pairs that are held, G·(D + E)·itemsize each as given; spare room is in :meth:`reserved`."""
        return sum(state.held) * self._pair_bytes(state.k[0].shape[3], state.dtype.itemsize)

    def reserved(self, state: CacheState) -> int:
        """Bytes of the buffer, spare room included; states of one buffer share it."""
        return state.buffer.nbytes

    def cost(self, length: int) -> Cost:
        """Linear in what is held. Of float32 pairs, and as many query heads as key heads."""
        reach = self._last()
        return self._cost(length + 1 if reach is None else min(length + 1, reach))

    def _keeps(self, state: CacheState) -> tuple[torch.dtype, torch.device]:
        return state.dtype, state.k[0].device

    def _chunk(
        self, state: CacheState, q: Tensor | None, k: Tensor, v: Tensor, valid: Tensor | None, places: Tensor | None
    ) -> Chunk:
        chunk = self._given(state, self._keeps(state), state.seen, q, k, v, valid, places)
        self._check_whole(state)
        return chunk

    def _check_whole(self, state: CacheState) -> None:
        if not state.buffer.holds(state.number, state.stops):
            raise RegardError(
                f"{self._who}: a crop gave the end of this state back to be written again; wanted the state that crop "
                "returned, or one made after it"
            )

    def lying(
        self, state: CacheState, buffer: Buffer, starts: Counts, stops: Counts, chunk: Chunk | None = None
    ) -> tuple[Kept, Counts, Counts]:
        """What rows hold between them, and where in it theirs begin, and end before the chunk."""
        counts = (0,) * len(stops) if chunk is None else chunk.counts
        lo, hi = min(starts, default=0), max((z + n for z, n in zip(stops, counts, strict=True)), default=0)
        held = self._held(state, buffer).at(slice(lo, hi))
        return held, tuple(a - lo for a in starts), tuple(z - lo for z in stops)

    def _held(self, state: CacheState, buffer: Buffer) -> Kept:
        """All of a buffer, room for more included."""
        n = len(state.k)
        return Kept(buffer.parts[:n], buffer.parts[n:], self.store, state.dtype)

    def appended(self, state: CacheState, chunk: Chunk, k: Tensor, v: Tensor) -> Wide:
        """The chunk behind what the state holds, in its buffer or in a new one."""
        turned = self._turned(k, chunk)
        added = (*self.store.put("k", turned), *self.store.put("v", v))
        buffer, starts, stops = state.buffer, state.starts, state.stops
        longest = max((z + n for z, n in zip(stops, chunk.counts, strict=True)), default=0)
        if buffer.takes(state.number, longest, added):
            return Wide(buffer, buffer.put(stops, chunk, added), starts, stops)
        held = state.held
        old = [aligned(x, starts, stops) for x in buffer.parts]
        needed = max((z + n for z, n in zip(held, chunk.counts, strict=True)), default=0)
        none = (0,) * len(held)
        if kept_for_gradients(*buffer.parts, *added):
            parts = tuple(joined(x, held, chunk, new, needed) for x, new in zip(old, added, strict=True))
            return Wide(Buffer(parts), 0, none, held)
        buffer = Buffer.holding(old, self._room(needed, max(held, default=0)))
        return Wide(buffer, buffer.put(held, chunk, added), none, held)

    def kept(self, state: CacheState, chunk: Chunk, wide: Wide) -> CacheState:
        """The next state."""
        stops = tuple(z + n for z, n in zip(wide.stops, chunk.counts, strict=True))
        return self._state(wide.buffer, wide.number, chunk.after, wide.starts, stops, state.dtype, len(state.k))

    def _state(
        self, buffer: Buffer, number: int, seen: Counts, starts: Counts, stops: Counts, dtype: torch.dtype, keys: int
    ) -> CacheState:
        lo, hi = min(starts, default=0), max(stops, default=0)
        views = tuple(x.narrow(2, lo, hi - lo) for x in buffer.parts)
        return CacheState(views[:keys], views[keys:], seen, starts, stops, dtype, buffer, number)


@dataclass(frozen=True, eq=False)
class KVCache(Contiguous):
    """All keys and values, in a buffer that doubles when it is full: n pairs are copied fewer than 2n times in all.

    A query reads what :func:`regard.read` reads of the pairs up to its own; of an empty row 0. Keys are (B, G, L, D),
    values (B, G, L, E), queries (B, H, L, D), in the dtype of ``reset``. Errors are raised before anything is written.

    >>> import torch, regard
    >>> q, k, v = torch.randn(1, 4, 7, 8), torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8)
    >>> cache = KVCache(heads=2, width=8, score=regard.position.Rotary(regard.score.ScaledDot()))
    >>> state = cache.reset()
    >>> outputs = []
    >>> for t in range(7):
    ...     here = slice(t, t + 1)
    ...     reading, state = cache.step(state, q[:, :, here], k[:, :, here], v[:, :, here])
    ...     outputs.append(reading.output)
    >>> whole = regard.attend(q, k, v, score=cache.score, mask=regard.mask.causal())
    >>> torch.allclose(torch.cat(outputs, 2), whole, atol=1e-5), cache.nbytes(state)
    (True, 896)
    """

    def _room(self, needed: int, now: int) -> int:
        return max(needed, 2 * now, 64) if needed else 0


@dataclass(frozen=True, eq=False)
class StaticCache(Contiguous):
    """All keys and values, at most ``capacity`` a row, in a buffer that is there from the start.

    The same as :class:`KVCache` for every capacity; a write past it raises and writes nothing.

    >>> import torch
    >>> cache = StaticCache(heads=1, width=2, capacity=3)
    >>> state = cache.write(cache.reset(), torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    >>> cache.nbytes(state), cache.reserved(state)
    (32, 48)
    >>> cache.write(state, torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    Traceback (most recent call last):
    regard.errors.RegardError: StaticCache: row 0 holds 2 pairs and 2 more are written, capacity is 3; ...
    """

    capacity: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least("capacity", 1)

    def _chunk(
        self, state: CacheState, q: Tensor | None, k: Tensor, v: Tensor, valid: Tensor | None, places: Tensor | None
    ) -> Chunk:
        chunk = super()._chunk(state, q, k, v, valid, places)
        for b, (held, more) in enumerate(zip(state.stops, chunk.counts, strict=True)):
            if held + more > self.capacity:
                raise RegardError(
                    f"{self._who}: row {b} holds {held} pairs and {more} more are written, capacity is "
                    f"{self.capacity}; nothing was written; build it with capacity={held + more}, or take KVCache, "
                    "which grows"
                )
        return chunk

    def _room(self, needed: int, now: int) -> int:
        return self.capacity
