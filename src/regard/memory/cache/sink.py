"""A cache of the first pairs and the last: attention sinks and a window, places counted inside the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.base import Cost
from regard.memory.cache.base import Cache
from regard.memory.cache.between import Between
from regard.memory.cache.buffer import aligned
from regard.memory.cache.chunk import Chunk, Counts, same
from regard.memory.cache.contiguous import CacheState, StaticCache
from regard.memory.cache.kept import Kept
from regard.memory.cache.looks import Look, Telemetry, stacked
from regard.memory.cache.sliding import SlidingCache
from regard.memory.given import check_index, lengths
from regard.memory.readings import joined, where_valid
from regard.normalize import Softmax
from regard.reading import Reading


class SinkState(NamedTuple):
    """The pairs that stay and those that pass by, keys unturned."""

    first: CacheState
    recent: CacheState

    @property
    def seen(self) -> Counts:
        """How many pairs each row was given."""
        return tuple(a + b for a, b in zip(self.first.seen, self.recent.seen, strict=True))

    @property
    def held(self) -> Counts:
        """How many pairs each row holds, at most sinks + window."""
        return tuple(a + b for a, b in zip(self.first.held, self.recent.held, strict=True))


@dataclass(frozen=True, eq=False)
class SinkCache(Cache[SinkState]):
    """The first ``sinks`` pairs of each row and the last ``window``: W = sinks + window at most (Xiao et al. 2023).

    Pairs stand where they stand *in the cache*: sinks at 0 … sinks − 1, the others behind them, the newest at W − 1
    once the cache is full. So keys are kept as given and turned at every read. A query of a chunk sees what it would
    see if pairs came one by one. Nothing that was let go can be asked for: the context is not longer than W.

    A chunk is read at once by a softmax whose score looks at places by turning alone (Rotary); with a bias, another
    normaliser or telemetry it is read pair by pair.

    >>> import torch, regard
    >>> cache = SinkCache(heads=2, width=4, sinks=1, window=3, score=regard.position.Rotary(regard.score.ScaledDot()))
    >>> state = cache.reset()
    >>> for _ in range(9):
    ...     q, k, v = (torch.randn(1, 2, 1, 4) for _ in range(3))
    ...     reading, state = cache.step(state, q, k, v)
    >>> state.seen, state.held, reading.seen[0, 0].tolist()
    ((9,), (4,), [4])
    """

    sinks: int = field(default=4, kw_only=True)
    window: int = field(kw_only=True)
    _first: StaticCache = field(init=False, repr=False)
    _recent: SlidingCache = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least("sinks", 1)
        self._at_least("window", 1)
        parts: dict[str, Any] = {
            "store": self.store,
            "engine": self.engine,
            "score": "dot",
            "normalize": self.normalize,
        }
        sizes = (self.heads, self.width, self.value_width)
        object.__setattr__(self, "_first", StaticCache(*sizes, capacity=self.sinks, **parts))
        object.__setattr__(self, "_recent", SlidingCache(*sizes, window=self.window, **parts))

    def reset(
        self, batch: int = 1, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> SinkState:
        first, recent = (memory.reset(batch, dtype=dtype, device=device) for memory in (self._first, self._recent))
        return SinkState(first, recent)

    def write(
        self, state: SinkState, k: Tensor, v: Tensor, *, valid: Tensor | None = None, places: Tensor | None = None
    ) -> SinkState:
        """The state after the pairs; ``places``, if given, is checked to go on where each row stopped."""
        chunk = self._given(state, self._keeps(state), state.seen, None, k, v, valid, places)
        stays, passes = self._parted(chunk, k.device)
        first = state.first if stays is None else self._first.write(state.first, k, v, valid=stays)
        return SinkState(first, self._recent.write(state.recent, k, v, valid=passes))

    def read(self, state: SinkState, q: Tensor, *, telemetry: Telemetry = False) -> Reading:
        """What each query, standing at the newest pair, reads of all that is held; peaks are told by places in it."""
        self._asked(state, self._keeps(state), q)
        look, held = self._look(telemetry), state.held
        if same(state.first.held) and same(state.recent.held):
            n = held[0] if held else 0
            apart = not self._standing.asks_places and type(self.normalize) is Softmax and look.at_once
            if n > self.sinks and apart and same(state.recent.starts) and same(state.recent.stops):
                return self._apart(state, q, look)
            return look.last(q, Kept.given(*self.pairs(state)), (0,) * len(held), held, (n,) * len(held))
        rows = []
        for b, n in enumerate(held):
            alone = Kept.given(*self.pairs(self.reorder(state, torch.tensor([b]))))
            rows.append(look.last(q[b : b + 1], alone, (0,), (n,), (n,)))
        return stacked(rows)

    def _apart(self, state: SinkState, q: Tensor, look: Look) -> Reading:
        """Sinks and passing pairs read where they lie and merged, as no key turns: nothing is copied."""
        both = (Kept(one.k, one.v, self.store, one.dtype) for one in (state.recent, state.first))
        return Reading.merge(*(look.plain(q, held) for held in both))

    def step(
        self,
        state: SinkState,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        valid: Tensor | None = None,
        places: Tensor | None = None,
        telemetry: Telemetry = False,
    ) -> tuple[Reading, SinkState]:
        """Writes the chunk and reads it: query i stands at pair i, and sees what the cache holds then."""
        chunk = self._given(state, self._keeps(state), state.seen, q, k, v, valid, places)
        at_once = type(self.normalize) is Softmax and self._look(telemetry).at_once
        if k.shape[2] > 1 and at_once:
            return self._chunk(state, q, k, v, chunk)
        found = []
        for t in range(k.shape[2]):
            here = slice(t, t + 1)
            there = None if chunk.valid is None else chunk.valid[:, here]
            state = self.write(state, k[..., here, :], v[..., here, :], valid=there)
            found.append(where_valid(self.read(state, q[..., here, :], telemetry=telemetry), there))
        return (joined(found) if found else self.read(state, q, telemetry=telemetry)), state

    def pairs(self, state: SinkState) -> tuple[Tensor, Tensor]:
        """Keys turned by their places in the cache and values, sinks first; of rows that hold equally many."""
        if not (same(state.first.held) and same(state.recent.held)):
            raise RegardError(f"{self._who}: rows hold {state.held} pairs, wanted equally many; reorder picks one row")
        found = []
        for one in (state.first, state.recent):
            parts = tuple(aligned(x, one.starts, one.stops) for x in one.buffer.parts)
            n = len(one.k)
            found.append((self.store.take(parts[:n], one.dtype), self.store.take(parts[n:], one.dtype)))
        k, v = (torch.cat(both, 2) for both in zip(*found, strict=True))
        return self._standing.keys(k, torch.arange(k.shape[2], device=k.device)), v

    def reorder(self, state: SinkState, index: Tensor) -> SinkState:
        """The state whose row b is row ``index[b]``; a copy."""
        check_index(self._who, index, self.batch(state))
        return SinkState(self._first.reorder(state.first, index), self._recent.reorder(state.recent, index))

    def crop(self, state: SinkState, length: int | Tensor) -> SinkState:
        """The state with the first ``length`` pairs of each row, as long as nothing that it needs was let go."""
        seen = lengths(self._who, state.seen, length)
        for before, after, held in zip(state.seen, seen, state.held, strict=True):
            if before > held and after < before:
                raise RegardError(
                    f"{self._who}: crop to {after} needs pairs that were let go: the row has seen {before} and holds "
                    f"{held}; crop before the cache is full, or keep the state of before"
                )
        stay = torch.tensor([min(n, self.sinks) for n in seen], dtype=torch.long)
        pass_by = torch.tensor([max(0, n - self.sinks) for n in seen], dtype=torch.long)
        return SinkState(self._first.crop(state.first, stay), self._recent.crop(state.recent, pass_by))

    def nbytes(self, state: SinkState) -> int:
        """Bytes of the pairs that are held, of W a row at most; spare room is in :meth:`reserved`."""
        return self._first.nbytes(state.first) + self._recent.nbytes(state.recent)

    def reserved(self, state: SinkState) -> int:
        """Bytes of both buffers, spare room included."""
        return self._first.reserved(state.first) + self._recent.reserved(state.recent)

    def cost(self, length: int) -> Cost:
        """Linear in what is held, W at most. Of float32 pairs, and as many query heads as key heads."""
        return self._cost(min(length + 1, self.sinks + self.window))

    def _keeps(self, state: SinkState) -> tuple[torch.dtype, torch.device]:
        return state.first.dtype, state.first.k[0].device

    def _parted(self, chunk: Chunk, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """Which pairs of the chunk stay for good (None: no pair), and which pass by (None: every pair), (B, L) each."""
        if all(n >= self.sinks for n in chunk.seen):
            return None, chunk.valid
        places = chunk.places(device).expand(len(chunk.seen), chunk.length)
        there = torch.ones_like(places, dtype=torch.bool) if chunk.valid is None else chunk.valid.to(device)
        return there & (places < self.sinks), there & (places >= self.sinks)

    def _chunk(self, state: SinkState, q: Tensor, k: Tensor, v: Tensor, chunk: Chunk) -> tuple[Reading, SinkState]:
        """Sinks and passing pairs read apart, each at the distance it has for the query, and merged.

        Among passing pairs the distance in the cache is the distance in the row, so those are read by places in the
        row; the sinks stand at 0 and on, the query at its place in the cache, which is W − 1 at most.
        """
        device, look = q.device, self._look(False)
        stays, passes = self._parted(chunk, device)
        first = state.first if stays is None else self._first.write(state.first, k, v, valid=stays)
        # The passing ones, with what the chunk's own first query still sees: the buffer before anything is let go.
        going = Chunk.of(state.recent.seen, chunk.length, passes)
        wide = self._recent.appended(state.recent, going, k, v)
        held, starts, stops = self._recent.lying(state.recent, wide.buffer, wide.starts, wide.stops, going)
        held_k, held_v = held.numbers()
        ruler = torch.tensor([n - z for n, z in zip(going.seen, stops, strict=True)], device=device)
        slots = torch.arange(held_k.shape[2], device=device)
        at = slots + ruler[0] if same(going.seen) and same(stops) and len(ruler) else slots + ruler[:, None]
        near = look.along(q, Kept.given(self._standing.keys(held_k, at), held_v), starts, stops, going, self.window)
        here = chunk.places(device).clamp(max=self.sinks + self.window - 1)
        sinks, _, ends = self._first.lying(first, first.buffer, (0,) * len(first.seen), first.stops)
        sink_k, sink_v = sinks.numbers()
        sink_k = self._standing.keys(sink_k, torch.arange(sink_k.shape[2], device=device))
        visible = torch.minimum(here + 1, torch.tensor(ends, device=device)[:, None])  # (B, L)
        visible = visible if chunk.valid is None else torch.where(chunk.valid.to(device), visible, 0)
        mask = Between(torch.zeros_like(visible)[:, None], visible[:, None])
        far = look.plain(self._standing.queries(q, here), Kept.given(sink_k, sink_v), mask)
        return Reading.merge(near, far), SinkState(first, self._recent.kept(state.recent, going, wide))
