"""Reading what a cache holds: all rows at once where they are alike, else within their own ends, or row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import has_torch_function

from regard import operator
from regard.engines.fused import Lowered, fused
from regard.mask import Mask, causal, window
from regard.memory.cache.between import Between
from regard.memory.cache.buffer import kept_for_gradients
from regard.memory.cache.chunk import Chunk, Counts, same
from regard.memory.cache.kept import Kept
from regard.memory.cache.standing import Standing
from regard.memory.cache.stores import AsGiven, EightBit
from regard.memory.readings import joined
from regard.normalize import Normalizer, Softmax
from regard.reading import Reading

Telemetry = bool | str | Iterable[str]

FLOATS = (torch.float32, torch.float64)
#: From how many numbers on the caches' own kernel reads what is kept as given.
LEAST = 1 << 18


@dataclass(frozen=True)
class Look:
    """How queries look at pairs that are held: the score, the normaliser, the engine, and what is measured of it."""

    standing: Standing
    normalize: Normalizer
    engine: str
    telemetry: Telemetry = False

    @property
    def at_once(self) -> bool:
        """Whether rows of different lengths may be read together: nothing asks where they stand among what is held."""
        return not self.telemetry and not self.standing.placed

    def plain(self, q: Tensor, held: Kept, mask: Mask | None = None) -> Reading:
        """Queries (B, H, L, D) that are turned over keys that are; query heads of a key head go as queries of one."""
        direct = self._direct(q, held) if mask is None else None
        if direct is not None:
            return direct
        B, H, L, D = q.shape
        G = held.heads
        fold = mask is None and H != G and not self.telemetry and self.standing.folds
        asked = q.reshape(B, G, H // G * L, D) if fold else q
        k, v = held.numbers()
        r = operator.read(
            asked, k, v, score=self.standing.rest, normalize=self.normalize, mask=mask, engine=self.engine,
            telemetry=self.telemetry,
        )  # fmt: skip
        if not fold:
            return r
        sink = r.sink if r.sink is None or r.sink.dim() == 0 else r.sink.reshape(B, H, L)
        return replace(
            r,
            output=r.output.reshape(B, H, L, r.output.shape[-1]),
            lse=r.lse.reshape(B, H, L),
            seen=r.seen.reshape(B, H, L),
            sink=sink,
        )

    def _direct(self, q: Tensor, held: Kept) -> Reading | None:
        """Few queries that see everything, without a plan, which would take longer than a short memory: by PyTorch's
        kernel, or by the caches' own; None where there is something to plan, or a number to warn of."""
        (B, H, L, D), G, S, softmax = q.shape, held.heads, held.length, self.normalize
        if type(softmax) is not Softmax or softmax.sink is not None or self.telemetry or not self.standing.fused:
            return None
        if q.device.type != "cpu" or torch.compiler.is_compiling() or has_torch_function((q, *held.k, *held.v)):
            return None
        R, rest = H // G * L, self.standing.rest
        if not S or not L or R > 16:
            return None
        asked = rest.queries(q)
        scale = rest.as_dot(asked, asked).scale / softmax.temperature
        fuses = self.engine in ("auto", "sdpa") and held.v[0].shape[3] == D
        if self.engine == "auto" and own(asked, held, R):
            from regard.memory.cache.few import few

            output, lse, sound = few(asked, held.k, held.v, scale)
            engine = "cache"
        elif fuses:
            k, v = held.numbers()
            output, lse = fused(Lowered(asked.reshape(B, G, R, D), k, scale, False, None), v)
            output, lse = output.reshape(B, H, L, D), lse.reshape(B, H, L)
            engine, sound = "sdpa", bool((lse.detach() < torch.inf).all())
        else:
            return None
        if not sound:
            return None
        return Reading(output, lse, torch.full((B, H, L), S), engine=engine)

    def last(self, q: Tensor, held: Kept, starts: Counts, stops: Counts, seen: Counts) -> Reading:
        """Every query stands at its row's newest pair, the last of seen[b], and sees those in starts[b] … stops[b]."""
        L = q.shape[2]
        if L == 0:
            return self._none(q, held)
        if L > 1 and not self.at_once:
            return joined([self.last(one, held, starts, stops, seen) for one in q.split(1, 2)])
        newest = [max(0, n - 1) for n in seen]
        if same(starts) and same(stops) and same(seen):
            if self.standing.asks_places:
                q = self.standing.queries(q, torch.tensor(newest[:1], device=q.device).expand(L))
            return self._piece(q, held, slice(starts[0], stops[0]), seen[0] - stops[0]) if seen else self.plain(q, held)
        q = self.standing.queries(q, torch.tensor(newest, device=q.device)[:, None].expand(-1, L))
        if self.at_once:
            lo, hi = min(starts), max(stops)
            ends = torch.tensor([starts, stops], device=q.device)[:, :, None, None].expand(-1, -1, -1, L) - lo
            return self.plain(q, held.at(slice(lo, hi)), Between(ends[0], ends[1]))
        each = []
        for b, (a, z) in enumerate(zip(starts, stops, strict=True)):
            row = slice(b, b + 1)
            each.append(self._piece(q[row], held, slice(a, z), seen[b] - z, row=row))
        return stacked(each)

    def along(
        self, q: Tensor, held: Kept, starts: Counts, stops: Counts, chunk: Chunk, reach: int | None = None
    ) -> Reading:
        """Query i stands at pair i of a chunk that begins at stops[b]; it sees ``reach`` pairs up to it, or all."""
        device, L = q.device, q.shape[2]
        if self.standing.asks_places:
            q = self.standing.queries(q, chunk.places(device))
        mask = causal("end") if reach is None else window(reach - 1, 0, "end")
        if chunk.level() and same(starts) and same(stops) and stops:
            lo, hi, first = starts[0], stops[0] + L, chunk.seen[0] - stops[0]
            if L == 1:
                return self._piece(q, held, slice(lo if reach is None else max(lo, hi - reach), hi), first)
            return self._piece(q, held, slice(lo, hi), first, mask)
        if self.at_once and stops:
            lo, hi = min(starts), max(z + n for z, n in zip(stops, chunk.counts, strict=True))
            at = chunk.ranks(device) + torch.tensor(stops, device=device)[:, None] + 1 - lo  # (B, L)
            low = torch.tensor(starts, device=device)[:, None].expand_as(at) - lo
            low = low if reach is None else torch.maximum(low, at - reach)
            if chunk.valid is not None:
                there = chunk.valid.to(device)
                low, at = torch.where(there, low, 0), torch.where(there, at, 0)
            return self.plain(q, held.at(slice(lo, hi)), Between(low[:, None], at[:, None]))
        nothing, rows = self._none(q, held), list[Reading]()
        for b, (a, z) in enumerate(zip(starts, stops, strict=True)):
            row = slice(b, b + 1)
            found = None
            own = None if chunk.valid is None else chunk.valid[b].to(device).nonzero().flatten()
            if chunk.counts[b]:
                asked = q[row] if own is None else q[row, :, own]
                piece = slice(a, z + chunk.counts[b])
                found = self._piece(asked, held, piece, chunk.seen[b] - z, mask, row)
            rows.append(_within(nothing, found, b, own))
        return stacked(rows) if rows else nothing

    def _piece(
        self, q: Tensor, held: Kept, at: slice, first: int, mask: Mask | None = None, row: slice = slice(None)
    ) -> Reading:
        """Of the pairs that lie at ``at``; pair j of the row's own lies at j − first, which peaks are told by."""
        r = self.plain(q, held.at(at, row), mask)
        by = at.start + first
        if r.peak_at is None or not by:
            return r
        return replace(r, peak_at=torch.where(r.peak_at < 0, r.peak_at, r.peak_at + by))

    def _none(self, q: Tensor, held: Kept) -> Reading:
        """What queries read of nothing."""
        return self.plain(q, held.at(slice(0, 0)))


def own(asked: Tensor, held: Kept, queries: int) -> bool:
    """Whether the caches' own kernel reads it, and sooner than others: few queries over many numbers, no gradient.

    What is kept in eight bits is read without taking it out first, which pays much earlier.
    """
    eight, dtype = type(held.store) is EightBit, asked.dtype
    if queries > 8 or dtype not in FLOATS or not (eight or (type(held.store) is AsGiven and held.dtype is dtype)):
        return False
    k, v = held.k[0], held.v[0]
    return (
        k.numel() + v.numel() >= (1 << 16 if eight else LEAST)
        and k.stride(3) == v.stride(3) == 1
        and not kept_for_gradients(asked, *held.k, *held.v)
    )


def stacked(rows: Sequence[Reading]) -> Reading:
    """Readings of rows of a batch as one of the batch; what not all of them measured is None."""
    if len(rows) == 1:
        return rows[0]
    found: dict[str, Any] = {}
    for one in fields(Reading):
        values = [getattr(row, one.name) for row in rows]
        if all(isinstance(value, Tensor) for value in values) and one.name != "sink":
            found[one.name] = torch.cat(values)
        elif one.name not in ("sink", "mass", "no_merge", "engine"):
            found[one.name] = None
    sink = rows[0].sink
    if sink is not None and sink.dim() == 3 and all(row.sink is not None for row in rows):
        sink = torch.cat([row.sink for row in rows if row.sink is not None])
    engine = "+".join(dict.fromkeys(row.engine for row in rows))
    return replace(rows[0], sink=sink, engine=engine, **found)


def _within(nothing: Reading, found: Reading | None, b: int, there: Tensor | None) -> Reading:
    """Row b: what was found where there is a query, nothing elsewhere."""
    if found is not None and there is None:
        return found
    changed: dict[str, Any] = {}
    for one in fields(Reading):
        empty = getattr(nothing, one.name)
        if not isinstance(empty, Tensor) or one.name == "sink":
            continue
        row = empty[b : b + 1]
        value = None if found is None else getattr(found, one.name)
        if found is not None and not isinstance(value, Tensor):
            changed[one.name] = None
        elif value is None:
            changed[one.name] = row
        elif one.name == "spread":
            changed[one.name] = value
        else:
            assert there is not None
            changed[one.name] = row.to(value.dtype).index_copy(2, there, value)
    return replace(found or nothing, **changed)
