"""Do two runs agree, and does a call leave something behind?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from regard.doctor.effect import Noise, effect
from regard.doctor.finding import Finding, Observation, Passed
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, Place, first_moved, locate, record
from regard.doctor.probes.conditions import dropout_configured
from regard.doctor.subject import Subject, last_bits

NAME = "determinism"


def determinism(subject: Subject) -> Iterator[Observation]:
    """Eval mode, the same batch: two draws agree, also with dropout configured; A, B, A gives the first A again."""
    batch = subject.batch
    at = batch.real(subject.stream) if subject.per_position else None
    first = subject.run(batch)
    # Bits may differ between two runs of a threaded sum; the model's own last-bit noise is not used here, because a
    # stochastic model has made it large.
    noise = Noise(max(float(first.double().std()), 1e-30) * 32 * torch.finfo(first.dtype).eps, subject.noise.spread)
    with dropout_configured(subject.model):
        configured = effect(subject.run(batch, seed=0), subject.run(batch, seed=1), noise, at)
    plain = effect(first, subject.run(batch, seed=1), noise, at)
    if plain.real or configured.real:
        found, how = (plain, "") if plain.real else (configured, " once every dropout rate is set to 0.5")
        place = _where(subject, batch) if plain.real else _where_configured(subject, batch)
        yield Finding(
            "DET001",
            f"two runs on the same batch in eval mode differ {found.said()}{how}",
            place[0],
            place[1],
            found.evidence(),
        )
    else:
        yield Passed(NAME, "two runs agree in eval mode, also with dropout configured", plain.evidence())
    subject.run(_another(subject, batch))
    again = effect(first, subject.run(batch), noise, at)
    if again.real and not plain.real:
        spot = _remembering(subject, batch)
        yield Finding(
            "DET003",
            f"after a call on another batch the same batch gives another output: it moves {again.said()}",
            spot.module,
            spot.source,
            again.evidence(),
        )
    elif not plain.real:
        yield Passed(NAME, "a call on another batch leaves nothing behind", again.evidence())
    with torch.enable_grad():
        recorded = effect(first, subject.run(batch).detach(), subject.noise, at)
    if recorded.real and not plain.real:
        spot = _path(subject, batch)
        said = f"the outputs move {recorded.said()} when gradients are recorded"
        yield Finding("PTH003", said, spot.module, spot.source, recorded.evidence())


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


def _remembering(subject: Subject, batch: Inputs) -> Place:
    """The first module that gives the same inputs other outputs once another batch has gone by."""
    kept = Kept({batch.shape(s)[1]: batch.real(s) for s in subject.streams})
    run = partial(subject.call, batch)
    run()
    base = record(subject.model, run, kept)
    with last_bits(subject.model):
        shaken = record(subject.model, run, kept)
    subject.run(_another(subject, batch))
    return first_moved(subject.model, base, shaken, record(subject.model, run, kept))


def _path(subject: Subject, batch: Inputs) -> Place:
    """The first module that gives other outputs when gradients are recorded."""
    kept = Kept({batch.shape(s)[1]: batch.real(s) for s in subject.streams})
    recorded = torch.enable_grad()(partial(subject.call, batch))
    return locate(subject.model, partial(subject.call, batch), recorded, (kept, kept))


def _where(subject: Subject, batch: Inputs) -> tuple[str, str]:
    """The first module whose output differs between two draws."""
    kept = Kept({batch.shape(s)[1]: batch.real(s) for s in subject.streams})
    place = locate(subject.model, partial(subject.call, batch), partial(subject.call, batch, seed=1), (kept, kept))
    return place.module, place.source


def _where_configured(subject: Subject, batch: Inputs) -> tuple[str, str]:
    with dropout_configured(subject.model):
        return _where(subject, batch)
