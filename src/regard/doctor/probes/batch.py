"""Faults of the batch itself, seen without running anything."""

from __future__ import annotations

from collections.abc import Iterator

from regard.doctor.finding import Finding, Observation
from regard.doctor.stream import Stream
from regard.doctor.subject import Subject
from regard.doctor.told import token_ids


def pads_called_real(subject: Subject, stream: Stream) -> Iterator[Observation]:
    """A mask of ones over a run of pads at the end or start of a row: most likely it was padded with the pad id."""
    tokens, mask = subject.batch.tokens(stream), subject.batch.values.get(stream.mask or "")
    config = getattr(subject.model, "config", None)
    if mask is None or subject.pad is None or tokens.is_floating_point() or tokens.dim() != 2:
        return
    pad = tokens == subject.pad
    edge = pad.flip(1).long().cumprod(1).sum(1).maximum(pad.long().cumprod(1).sum(1))
    most = int(edge.max())
    shared = subject.pad in (*token_ids(config, "eos"), *token_ids(config, "bos"))
    if most > (1 if shared else 0) and bool(subject.batch.real(stream).all()):
        row = int(edge.argmax())
        yield Finding(
            "PAD003",
            f"{stream.mask} calls every token real, but row {row} has {most} pads (id {subject.pad}) at its edge",
            evidence={"row": row, "pads": most, "pad_id": subject.pad},
        )
