"""The states a model is probed in: leaks that show in one of them do not show in the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from regard.doctor.held import dropout_configured, training
from regard.doctor.inputs import Inputs
from regard.doctor.stream import CouldNotRun, Stream
from regard.doctor.subject import Subject


@dataclass(frozen=True)
class Condition:
    """One way of asking: what is done to the batch, which arguments are added, and what holds meanwhile."""

    name: str
    prepare: Callable[[Inputs], Inputs]
    options: dict[str, Any]
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    def said(self) -> str:
        return f" ({self.name})" if self.name else ""


def conditions(subject: Subject, stream: Stream) -> Iterator[Condition]:
    """As given, then without a mask, with an all-ones mask, one row alone, and the ways of :func:`ways`."""
    yield AS_GIVEN
    mask = stream.mask
    if mask is not None:
        if stream.by_mask and mask in subject.batch.values:
            yield Condition("no mask given", lambda x: x.without(mask), {})
        if stream.told != "ids":
            yield Condition("an all-ones mask", partial(_all_ones, stream), {})
        yield Condition("padding on the right", partial(_hidden, stream, False), {})
        if stream.aligned and stream.by_mask:
            yield Condition("padding on the left", partial(_hidden, stream, True), {})
    yield Condition("one row", lambda x: x.rows([0]), {})
    yield from ways(subject)


def ways(subject: Subject) -> Iterator[Condition]:
    """The same batch on other paths of the model: weights asked for, dropout configured, gradients, training."""
    if subject.flag is not None:
        yield Condition(f"{subject.flag}=True", _same, {subject.flag: True})
    yield Condition("dropout configured", _same, {}, partial(dropout_configured, subject.model))
    yield Condition("gradients recorded", _same, {}, torch.enable_grad)
    yield Condition("in training", _same, {}, partial(training, subject.model))


def _same(inputs: Inputs) -> Inputs:
    return inputs


#: The batch as it was given.
AS_GIVEN = Condition("", _same, {})


def _all_ones(stream: Stream, inputs: Inputs) -> Inputs:
    return inputs.with_real(stream, torch.ones_like(inputs.real(stream)))


def _hidden(stream: Stream, left: bool, inputs: Inputs) -> Inputs:
    """Padding of a different length in every row but the first, put over the tokens that stand there."""
    B, L = inputs.shape(stream)
    if L < 4:
        raise CouldNotRun(f"{L} tokens are too few to hide some")
    longest = max(1, L // 3)
    count = torch.arange(B) * longest // max(1, B - 1) if B > 1 else torch.tensor([longest])
    place = torch.arange(L)
    real = place >= count[:, None] if left else place < L - count[:, None]
    real = real.to(inputs.tokens(stream).device) & inputs.real(stream)
    inputs = inputs.with_real(stream, real)
    if left and stream.positions is not None:
        inputs = inputs.with_positions(stream, real)
    return inputs
