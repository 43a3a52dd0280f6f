"""Do documents that are packed into one row see each other?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from regard.doctor.effect import effect
from regard.doctor.finding import Fact, Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, locate
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Subject

NAME = "documents"
_IDS = ("document_ids", "doc_ids", "segment_ids", "sequence_ids", "seq_idx", "document_id", "segments")


@dataclass(frozen=True)
class Packing:
    """How the batch says where documents begin: ids by token, or positions that start again."""

    name: str
    ids: Tensor

    def inputs(self, subject: Subject, first: int, second: int) -> tuple[Inputs, Inputs]:
        """Two documents in one row, and the second alone; each says its documents in the batch's own way."""
        stream = subject.stream
        both = subject.clean(1, first + second)
        own = torch.cat([torch.arange(first), torch.arange(second)])[None]
        document = torch.cat([torch.zeros(first), torch.ones(second)]).long()[None]
        alone = both.columns(stream, torch.arange(first, first + second))
        if self.name in _IDS:
            both = both.with_values(**{self.name: document.to(self.ids)})
            alone = alone.with_values(**{self.name: document[:, first:].to(self.ids) * 0})
        if stream.positions is not None and (self.name not in _IDS or stream.positions in subject.batch.values):
            both = both.with_values(**{stream.positions: own})
            alone = alone.with_values(**{stream.positions: own[:, first:]})
        return both, alone


def documents(subject: Subject) -> Iterator[Observation]:
    """A document packed behind another reads only itself. It is a claim where the batch is packed (document ids, or
    positions that start again), else a fact."""
    stream = subject.stream
    if not subject.per_position:
        yield Untested(NAME, "the model gives no output for each token")
        return
    packing = _packing(subject)
    claimed = packing is not None
    if packing is None:
        if stream.positions is None:
            yield Untested(NAME, "the batch names no documents (document_ids) and the model takes no positions")
            return
        packing = Packing(stream.positions, torch.zeros(1, dtype=torch.long))
    L = subject.clean(1).shape(stream)[1]
    first, second = L - L // 2, L // 2
    if second < 2:
        yield Untested(NAME, f"{L} tokens are too few to pack two documents")
        return
    try:
        both, alone = packing.inputs(subject, first, second)
        if not claimed and stream.mask is not None:
            both, alone = both.without(stream.mask), alone.without(stream.mask)
        place = torch.arange(L)
        changed = both.changed(stream, (place < first)[None], subject.others(both, stream))
        base = subject.run(both)
        found = effect(base, subject.run(changed), subject.noise, (place >= first)[None])
        again = effect(base[:, first:], subject.run(alone), subject.noise)
    except CouldNotRun as why:
        yield Untested(NAME, str(why))
        return
    if not found.real and not again.real:
        yield Passed(NAME, f"a second document ({packing.name}) reads nothing of the first", found.evidence())
        return
    if not claimed:
        said = found.said() if found.real else again.said()
        yield Fact(NAME, f"packing by {packing.name} that start again does not separate documents: they move {said}")
        return
    kept = Kept({L: (place >= first)[None]})
    where = locate(subject.model, partial(subject.call, both), partial(subject.call, changed), (kept, kept))
    message = (
        f"another first document moves the second's output at {found.place} {found.said()}"
        if found.real
        else f"the second document packed differs from itself alone: {again.said()}"
    )
    yield Finding("DOC001", message, where.module, where.source, (found if found.real else again).evidence())


def _packing(subject: Subject) -> Packing | None:
    values = subject.batch.values
    for name in _IDS:
        if isinstance(values.get(name), Tensor) and name in values:
            return Packing(name, values[name])
    positions = values.get(subject.stream.positions or "")
    real = subject.batch.real(subject.stream)
    if isinstance(positions, Tensor) and positions.dim() == 2 and positions.shape[1] > 1:
        falls = (positions[:, 1:] < positions[:, :-1]) & real.expand(positions.shape)[:, 1:]
        if bool(falls.any()):
            return Packing(subject.stream.positions or "", positions)
    return None
