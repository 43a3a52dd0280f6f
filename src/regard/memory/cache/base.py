"""What all caches have: their parts, and the checks before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard import normalize as normalizers
from regard import score as scores
from regard.engines import ENGINES
from regard.errors import RegardError, unknown_name
from regard.memory.base import Cost, PairMemory
from regard.memory.cache.chunk import Chunk, Counts
from regard.memory.cache.looks import Look, Telemetry
from regard.memory.cache.standing import Standing
from regard.memory.cache.stores import AsGiven, Store
from regard.memory.given import check_queries
from regard.normalize import Normalizer
from regard.score import Score

_NOWHERE = torch.empty(0, dtype=torch.long)

S = TypeVar("S", bound=tuple[Any, ...])


@dataclass(frozen=True, eq=False)
class Cache(PairMemory[S]):
    """Pairs kept one by one: keys as the score turns them, and values, both as ``store`` keeps numbers.

    The parts are those of :func:`regard.read`. Pair n of a row stands at place n, counted from 0 over what is valid.
    """

    heads: int
    width: int
    value_width: int = None  # type: ignore[assignment]  # the width of the keys
    score: Score | str = field(default="scaled_dot", kw_only=True)
    normalize: Normalizer | str = field(default="softmax", kw_only=True)
    store: Store = field(default_factory=AsGiven, kw_only=True)
    engine: str = field(default="auto", kw_only=True)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "value_width", self.width if self.value_width is None else self.value_width)
        for name in ("heads", "width", "value_width"):
            self._at_least(name, 1)
        put(self, "score", scores.named(self.score))
        put(self, "normalize", normalizers.named(self.normalize))
        if not isinstance(self.store, Store):
            raise RegardError(f"{self._who}: store is {type(self.store).__name__}, wanted AsGiven() or EightBit()")
        known = ["auto", *(engine.name for engine in ENGINES)]
        if self.engine not in known:
            raise unknown_name("engine", self.engine, known)
        assert isinstance(self.score, Score)
        self.score.check_widths(self.width, self.width)
        put(self, "_standing", Standing.of(self._who, self.score))

    _standing: Standing = field(init=False, repr=False)

    @property
    def _who(self) -> str:
        return type(self).__name__

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise RegardError(f"{self._who}: {name} is {getattr(self, name)}, wanted at least {least}")

    def _check_batch(self, batch: int) -> None:
        if batch < 0:
            raise RegardError(f"{self._who}: batch is {batch}, wanted a number of rows, 0 or more")

    def _look(self, telemetry: Telemetry) -> Look:
        assert isinstance(self.normalize, Normalizer)
        return Look(self._standing, self.normalize, self.engine, telemetry)

    def _empty(
        self, batch: int, dtype: torch.dtype | None, device: torch.device | str | None, *, turned: bool = True
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], torch.dtype]:
        """What the store makes of no keys and no values, and the dtype that is kept."""
        self._check_batch(batch)
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if not dtype.is_floating_point:
            raise RegardError(f"{self._who}: dtype is {dtype}, wanted a floating one")
        with torch.no_grad():
            k = torch.empty(batch, self.heads, 0, self.width, dtype=dtype, device=device)
            v = torch.empty(batch, self.heads, 0, self.value_width, dtype=dtype, device=device)
            k = self._standing.keys(k, torch.empty(0, dtype=torch.long, device=device)) if turned else k
            return self.store.put("k", k), self.store.put("v", v), dtype

    def _given(
        self,
        state: S,
        kept: tuple[torch.dtype, torch.device],
        seen: Counts,
        q: Tensor | None,
        k: Tensor,
        v: Tensor,
        valid: Tensor | None,
        places: Tensor | None,
    ) -> Chunk:
        """The chunk, everything about it checked."""
        self.check(state, q, k, v, valid)
        self._alike(kept, k=k, v=v, **({} if q is None else {"q": q}))
        chunk = Chunk.of(seen, k.shape[2], valid)
        chunk.check(self._who, places)
        return chunk

    def _asked(self, state: S, kept: tuple[torch.dtype, torch.device], q: Tensor) -> None:
        check_queries(self._who, q, self.batch(state), self.heads, self.width)
        self._alike(kept, q=q)

    def _alike(self, kept: tuple[torch.dtype, torch.device], **given: Tensor) -> None:
        for name, x in given.items():
            if (x.dtype, x.device) != kept:
                raise RegardError(
                    f"{self._who}: {name} is {x.dtype} on {x.device}, the state keeps {kept[0]} on {kept[1]}; wanted "
                    f"the same: {name}.to(…), or reset(dtype=…, device=…)"
                )

    def _turned(self, k: Tensor, chunk: Chunk) -> Tensor:
        """The chunk's keys as they are kept."""
        return self._standing.keys(k, chunk.places(k.device) if self._standing.asks_places else _NOWHERE)

    def _pair_bytes(self, width: int, itemsize: int) -> int:
        """Bytes of one pair over all its heads, keys being kept ``width`` wide."""
        return self.heads * (self.store.nbytes(width, itemsize) + self.store.nbytes(self.value_width, itemsize))

    def _cost(self, held: int) -> Cost:
        """Of one step that reads ``held`` pairs: float32, and as many query heads as key heads."""
        width = self._empty(0, torch.float32, None)[0][0].shape[3]
        flops = 2.0 * self.heads * held * (width + self.value_width)
        return Cost(flops, float(self._pair_bytes(width, 4)) * (held + 1))
