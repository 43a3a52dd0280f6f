"""A cache of the last pairs."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.memory.cache.buffer import Buffer, aligned, kept_for_gradients
from regard.memory.cache.chunk import Chunk
from regard.memory.cache.contiguous import CacheState, Contiguous, Wide


@dataclass(frozen=True, eq=False)
class SlidingCache(Contiguous):
    """The last ``window`` pairs of each row: a query sees its own and the ``window`` − 1 before it.

    That is ``regard.mask.window(window - 1, 0)``, for every query of a chunk of any length. Pairs keep the places they
    were given (``state.seen`` counts on), so rotary keys are kept turned. What is let go is passed over, and every
    ``window`` pairs what is left is copied to a new buffer of 2 · ``window`` (64 at least): O(1) a pair, and a read is
    of a view. ``crop`` goes back only as long as nothing it needs was let go.

    >>> import torch, regard
    >>> q, k, v = (torch.randn(1, 2, 9, 4) for _ in range(3))
    >>> cache = SlidingCache(heads=2, width=4, window=3)
    >>> first, state = cache.step(cache.reset(), q[:, :, :4], k[:, :, :4], v[:, :, :4])
    >>> rest, state = cache.step(state, q[:, :, 4:], k[:, :, 4:], v[:, :, 4:])
    >>> whole = regard.attend(q, k, v, mask=regard.mask.window(2, 0))
    >>> torch.allclose(torch.cat([first.output, rest.output], 2), whole, atol=1e-5), state.held, state.seen
    (True, (3,), (9,))
    """

    window: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least("window", 1)

    def _last(self) -> int:
        return self.window

    def _room(self, needed: int, now: int) -> int:
        return max(needed, 2 * self.window, 64)

    def kept(self, state: CacheState, chunk: Chunk, wide: Wide) -> CacheState:
        stops = tuple(z + n for z, n in zip(wide.stops, chunk.counts, strict=True))
        starts = tuple(max(a, z - self.window) for a, z in zip(wide.starts, stops, strict=True))
        buffer, number = wide.buffer, wide.number
        if buffer.room > self._room(0, 0) and not kept_for_gradients(*buffer.parts):  # a chunk longer than the window
            old = [aligned(x, starts, stops) for x in buffer.parts]
            stops = tuple(z - a for a, z in zip(starts, stops, strict=True))
            starts = (0,) * len(stops)
            buffer, number = Buffer.holding(old, self._room(0, 0)), 0
        return self._state(buffer, number, chunk.after, starts, stops, state.dtype, len(state.k))
