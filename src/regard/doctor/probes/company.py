"""Is a row the same alone as among others, in any order, in batches of any size?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from regard.doctor.effect import Effect, effect
from regard.doctor.finding import Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, locate
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Subject

NAME = "company"
_HEADS = ("num_key_value_heads", "num_attention_heads", "n_head", "num_heads", "kv_heads", "n_heads", "heads", "nhead")
_MOST = 8


def company(subject: Subject) -> Iterator[Observation]:
    """A row alone equals the row in its batch: in batches of 2, 3 and as many as there are heads (where a mask can be
    broadcast over heads for rows), with padding of other lengths beside it, and in another order."""
    for size in sizes(subject):
        yield from _in_batch_of(subject, size)


def _in_batch_of(subject: Subject, size: int) -> Iterator[Observation]:
    worst: Effect | None = None
    try:
        inputs, real = _ragged(subject, size)
        whole = subject.run(inputs)
        for row in range(size):
            found = effect(subject.run(inputs.rows([row])), whole[row : row + 1], subject.noise, real[row : row + 1])
            if found.real:
                yield _found(subject, inputs, real, row, found, size)
                return
            worst = found if worst is None or found.change > worst.change else worst
    except CouldNotRun as why:
        yield Untested(NAME, f"batch of {size}: {why}")
        return
    assert worst is not None
    yield Passed(NAME, f"a row alone equals the row in a batch of {size}", worst.evidence())


def sizes(subject: Subject) -> list[int]:
    """2, 3 and the numbers of heads, as far as they can be found."""
    holders = [getattr(subject.model, "config", None), *subject.model.modules()]
    heads = {n for holder in holders for name in _HEADS if isinstance(n := getattr(holder, name, None), int)}
    return sorted({2, 3} | {n for n in heads if 1 < n <= _MOST})


def _ragged(subject: Subject, size: int) -> tuple[Inputs, torch.Tensor]:
    """Rows of different real lengths, padded on the right, and which of their outputs count, (B, L)."""
    inputs = subject.clean(size)
    for stream in subject.streams:
        if stream.mask is None:
            continue
        B, L = inputs.shape(stream)
        count = torch.arange(B) * max(1, L // 3) // max(1, B - 1)
        real = (torch.arange(L) < L - count[:, None]).to(inputs.tokens(stream).device)
        pads = subject.pads(inputs.tokens(stream), (B, L))
        inputs = subject.masked(inputs, stream).with_real(stream, real).changed(stream, ~real, pads)
    return inputs, inputs.real(subject.stream)


def _found(subject: Subject, inputs: Inputs, real: torch.Tensor, row: int, found: Effect, size: int) -> Finding:
    only = torch.zeros_like(real)
    only[row] = real[row]
    L = real.shape[1]
    kept = (Kept({L: real[row : row + 1]}), Kept({L: only}))
    runs = (partial(subject.call, inputs.rows([row])), partial(subject.call, inputs))
    place = locate(subject.model, *runs, kept)
    return Finding(
        "BAT001",
        f"row {row} in a batch of {size} differs from the row alone: the output at {found.place} moves {found.said()}",
        place.module,
        place.source,
        {**found.evidence(), "row": row, "batch": size},
    )
