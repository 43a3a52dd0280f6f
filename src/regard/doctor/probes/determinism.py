"""Do two runs agree, and does a call leave something behind?"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from regard.doctor.effect import Effect, Noise, effect
from regard.doctor.finding import Finding, Observation, Passed
from regard.doctor.held import dropout_configured, last_bits
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, Place, first_moved, locate, record
from regard.doctor.subject import Subject

NAME = "determinism"


def determinism(subject: Subject) -> Iterator[Observation]:
    """Eval mode, the same batch: two draws agree, also with dropout configured; a call leaves nothing behind; recording
    gradients changes nothing."""
    first = subject.run(subject.batch)
    # Bits may differ between two runs of a threaded sum. The model's own noise is not used here: a stochastic model has
    # made it large.
    noise = Noise(max(float(first.double().std()), 1e-30) * 32 * torch.finfo(first.dtype).eps, subject.noise.spread)
    restless = yield from _draws(subject, first, noise)
    if restless:
        return
    yield from _memory(subject, first, noise)
    yield from _path(subject, first)


def _draws(subject: Subject, first: Tensor, noise: Noise) -> Generator[Observation, None, bool]:
    """Two draws; gives whether they differ without any change to the model."""
    batch = subject.batch
    plain = _effect(subject, first, subject.run(batch, seed=1), noise)
    with dropout_configured(subject.model):
        configured = _effect(subject, subject.run(batch, seed=0), subject.run(batch, seed=1), noise)
        if configured.real and not plain.real:
            place = _drawing(subject, batch)
    if plain.real:
        place = _drawing(subject, batch)
    if plain.real or configured.real:
        found, how = (plain, "") if plain.real else (configured, " once every dropout rate is set to 0.5")
        message = f"two runs on the same batch in eval mode differ {found.said()}{how}"
        yield Finding("DET001", message, place.module, place.source, found.evidence())
    else:
        yield Passed(NAME, "two runs agree in eval mode, also with dropout configured", plain.evidence())
    return plain.real


def _memory(subject: Subject, first: Tensor, noise: Noise) -> Iterator[Observation]:
    """A, B, A gives the first A again; and B behind A of the same shape gives what B alone does, on a copy of the model
    that never saw A."""
    batch = subject.batch
    subject.run(_another(subject, batch))
    found = _effect(subject, first, subject.run(batch), noise)
    if found.real:
        place = _remembering(subject, subject, batch)
    elif subject.fresh is not None:
        fresh = replace(subject, model=subject.fresh)
        L = batch.shape(subject.stream)[1]
        shorter = batch.columns(subject.stream, torch.arange(max(1, L - 1)))  # a shape that no probe has used yet
        other = _another(subject, shorter)
        alone = fresh.run(other)
        subject.run(shorter)
        at = other.real(subject.stream) if alone.dim() == 3 else None
        found = effect(alone, subject.run(other), noise, at)
        if found.real:
            place = _remembering(fresh, subject, other)
    if found.real:
        message = f"after a call on another batch the same batch gives another output: it moves {found.said()}"
        yield Finding("DET003", message, place.module, place.source, found.evidence())
    else:
        yield Passed(NAME, "a call on another batch leaves nothing behind", found.evidence())


def _path(subject: Subject, first: Tensor) -> Iterator[Observation]:
    """The fused path of eval mode beside the one that records gradients."""
    run = partial(subject.call, subject.batch)
    with torch.enable_grad():
        found = _effect(subject, first, subject.run(subject.batch).detach(), subject.noise)
    if not found.real:
        yield Passed(NAME, "recording gradients changes nothing", found.evidence())
        return
    place = locate(subject.model, run, torch.enable_grad()(run), (_real(subject, subject.batch),) * 2)
    message = f"the outputs move {found.said()} when gradients are recorded"
    yield Finding("PTH003", message, place.module, place.source, found.evidence())


def _effect(subject: Subject, one: Tensor, other: Tensor, noise: Noise) -> Effect:
    return effect(one, other, noise, subject.batch.real(subject.stream) if one.dim() == 3 else None)


def _another(subject: Subject, batch: Inputs) -> Inputs:
    """The same shape with other tokens, and other padding where the model knows of any."""
    everywhere = torch.ones(1, 1, dtype=torch.bool)
    for stream in subject.streams:
        batch = batch.changed(stream, everywhere, subject.others(batch, stream))
        L = batch.shape(stream)[1]
        if stream.mask is not None and L > 2:
            real = torch.ones_like(batch.real(stream))
            real[0, L // 2 :] = False
            batch = batch.with_real(stream, real)
    return batch


def _drawing(subject: Subject, batch: Inputs) -> Place:
    """The first module whose output differs between two draws."""
    runs = (partial(subject.call, batch), partial(subject.call, batch, seed=1))
    return locate(subject.model, *runs, (_real(subject, batch),) * 2)


def _remembering(before: Subject, after: Subject, batch: Inputs) -> Place:
    """The first module that gives the same inputs other outputs once another batch has gone by."""
    kept = _real(before, batch)
    before.run(batch)
    base = record(before.model, partial(before.call, batch), kept)
    with last_bits(before.model):
        shaken = record(before.model, partial(before.call, batch), kept)
    if before is after:
        after.run(_another(after, batch))
    return first_moved(after.model, base, shaken, record(after.model, partial(after.call, batch), kept))


def _real(subject: Subject, batch: Inputs) -> Kept:
    return Kept({batch.shape(s)[1]: batch.real(s) for s in subject.streams})
