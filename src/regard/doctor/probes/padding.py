"""Does padding take part: by its content, by its length, by its side?"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import torch

from regard.doctor.effect import Effect, effect
from regard.doctor.finding import Fact, Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.probes.batch import pads_called_real
from regard.doctor.probes.conditions import AS_GIVEN, ways
from regard.doctor.probes.padded import PADS, Padded
from regard.doctor.stream import CouldNotRun, Stream
from regard.doctor.subject import Subject

NAME = "padding"
_ROWS = 3


def padding(subject: Subject) -> Iterator[Observation]:
    """Real outputs do not move when the content, the amount or the side of the padding changes."""
    for stream in subject.streams:
        yield from pads_called_real(subject, stream)
        if stream.mask is None:
            yield Untested(
                NAME,
                f"no padding mask is known for {stream.tokens!r}: name the argument with mask=, and have the model's "
                f"forward take it or the batch hold it; mask={stream.tokens!r} where the model knows pads by their id",
            )
            continue
        if not _hides_something(subject, stream):
            yield Fact(
                "batch", f"{stream.mask!r} hides nothing in this batch; the padding probes put padding of their own"
            )
        alone = _alone(subject, stream)
        if alone is None:
            yield Untested(NAME, "too few real tokens to pad; give rows of 4 tokens or more")
            continue
        for left in _sides(subject, stream):
            case = Padded(subject, stream, left, alone)
            try:
                yield from _left(case) if left else _right(case)
            except CouldNotRun as why:
                yield Untested(NAME, f"{case.side}{case.of}: {why}")


def _sides(subject: Subject, stream: Stream) -> tuple[bool, ...]:
    """Whether padding may be on the left, and on the right: lengths know one side, and ids stand where the batch has
    them."""
    if stream.by_mask:
        return (False, True)
    if stream.told == "lengths":
        return (False,)
    real = subject.batch.real(stream)
    return (False, True) if bool((~real[:, 0]).any()) else (False,)


def _alone(subject: Subject, stream: Stream) -> Inputs | None:
    """A few rows of real tokens, so much shorter that with padding they are no longer than the batch given."""
    L = subject.batch.shape(stream)[1]
    alone = subject.clean(_ROWS)
    n = alone.shape(stream)[1]
    keep = min(n, max(L - PADS, 3))
    if keep < 3:
        return None
    alone = alone.columns(stream, torch.arange(keep))
    if not stream.aligned:  # lengths of source and target tell their axes apart
        m = alone.shape(subject.stream)[1]
        taken = {keep, keep + 1, keep + PADS}
        fit = next((k for k in range(m, 1, -1) if k not in taken), m)
        alone = alone.columns(subject.stream, torch.arange(fit))
    return subject.masked(alone, stream)


def _right(case: Padded) -> Iterator[Observation]:
    leak = yield from _contents(case)
    if leak:
        return
    for pads in (1, PADS):
        one = replace(case, pads=pads)
        found = one.compare(case.alone, one.inputs())
        if found.real:
            place = one.where(case.alone, one.inputs())
            yield Finding(
                "PAD002",
                f"{pads} more {'pad' if pads == 1 else 'pads'} on the right{case.of} move the output at {found.place} "
                f"{found.said()}",
                place.module,
                place.source,
                {**found.evidence(), "pads": pads, "side": "right"},
            )
            return
    yield Passed("padding length", f"padding on the right{case.of} leaves real outputs", found.evidence())
    yield from _without_mask(case)


def _left(case: Padded) -> Iterator[Observation]:
    """Three verdicts: the mask is ignored, the positions are wrong, or only noise."""
    given = replace(case, positions=case.stream.positions is not None)
    leak = yield from _contents(given)
    if leak:
        return
    plain = case.compare(case.alone, case.inputs())
    if not plain.real:
        yield Passed("padding side", f"padding on the left{case.of} leaves real outputs", plain.evidence())
        return
    evidence = {**plain.evidence(), "pads": case.pads, "side": "left"}
    said = f"{case.pads} pads on the left{case.of} move the output at {plain.place} {plain.said()}"
    place = case.where(case.alone, case.inputs())
    where = (place.module, place.source)
    if case.stream.positions is None:
        yield Finding("POS002", f"{said}; no argument for positions is known", *where, evidence)
        return
    name = case.stream.positions
    # Some models count from the place behind the pad id, as their embeddings were laid out.
    offsets = (0,) if case.subject.pad is None else (0, case.subject.pad + 1)
    tried = [replace(given, first=first) for first in offsets]
    repaired = min((one.compare(case.alone, one.inputs()) for one in tried), key=lambda found: found.change)
    if not repaired.real:
        yield Finding(
            "POS001", f"{said} with the mask alone, and not at all with {name} counted from it", *where, evidence
        )
    elif _unused(given, name):
        yield Finding("API001", f"{said}, and {name} changes nothing at all: accepted and ignored", evidence=evidence)
    else:
        yield Finding("POS005", f"{said}; with {name} still {repaired.said()}", *where, evidence)


def _unused(given: Padded, name: str) -> bool:
    """Whether positions that are plainly others, counted backwards, change nothing either."""
    inputs = given.inputs()
    return given.compare(inputs, inputs.with_values(**{name: inputs.values[name].flip(1)})).change == 0.0


def _contents(case: Padded) -> Generator[Observation, None, bool]:
    """Other content in the pads, on every path of the model; gives whether it was read on one."""
    for asked in (AS_GIVEN, *ways(case.subject)):
        leak = yield from _content(replace(case, asked=asked))
        if leak:
            return True
    return False


def _content(case: Padded) -> Generator[Observation, None, bool]:
    """Other content in the pads; gives whether it was read, as the generator's return value."""
    one, other = case.inputs(), case.otherwise()
    found = case.compare(one, other)
    if not found.real:
        yield Passed(
            "padding content",
            f"content of padding on the {case.side}{case.of} is not read{case.asked.said()}",
            found.evidence(),
        )
        return False
    place = case.where(one, other)
    evidence = {**found.evidence(), "side": case.side}
    if "position" in place.module.lower():
        message = (
            f"positions are counted from the pad id, so pads of other content on the {case.side}{case.of} shift them"
        )
        yield Finding("POS002", message, place.module, place.source, evidence)
        return True
    what = f"changing hidden tokens on the {case.side}{case.of}{case.asked.said()}"
    said = f"{what} moves the output at {found.place} {found.said()}"
    own = _own_kind(case, one) if case.stream.by_mask else None
    if own is not None and not own.real and _heals(case, one, other):
        message = f"{said}, and changing a real token moves no other output ({own.said()}): the mask is read inverted"
        yield Finding("MSK001", message, place.module, place.source, evidence)
        return True
    if _ignored(case, one):
        said += f"; {case.stream.mask} changes nothing"
        yield Finding("API001", f"{case.stream.mask} is accepted and changes nothing at all", evidence=evidence)
    code = "PAD004" if case.read_by_target() else "PAD001"
    yield Finding(code, said, place.module, place.source, evidence)
    return True


def _ignored(case: Padded, one: Inputs) -> bool:
    """Whether what tells the padding changes nothing. On the right of a causal model it has nothing to do."""
    if case.stream.told == "ids" or not (case.left or _reads_both_ways(case)):
        return False
    ones = one.with_real(case.stream, torch.ones_like(one.real(case.stream)))
    return case.compare(one, ones).change == 0.0


def _heals(case: Padded, one: Inputs, other: Inputs) -> bool:
    """Whether the pads are not read any more once the mask is turned over."""
    turned = (x.with_real(case.stream, ~x.real(case.stream)) for x in (one, other))
    return not case.compare(*turned).real


def _own_kind(case: Padded, inputs: Inputs) -> Effect | None:
    """How much another real token moves real outputs; None where that cannot be told from its own output."""
    subject, stream = case.subject, case.stream
    if not (stream.aligned and subject.per_position):
        return None
    real = case.real(inputs)
    at = int(real[0].long().argmax())  # the first real token: every later one may see it, whatever the direction
    place = torch.arange(real.shape[1], device=real.device)
    moved = subject.run(inputs.changed(stream, (place == at)[None], subject.others(inputs, stream)))
    return effect(subject.run(inputs), moved, subject.noise, real & (place != at))


def _reads_both_ways(case: Padded) -> bool:
    return not case.stream.aligned or case.subject.causal is not True


def _without_mask(case: Padded) -> Iterator[Observation]:
    """A fact for the reader: whether it is safe to leave the mask out."""
    mask = case.stream.mask
    if not (case.stream.aligned and case.stream.by_mask):
        return
    safe = []
    for left in (False, True):
        one = replace(case, left=left, positions=left and case.stream.positions is not None)
        try:
            found = one.compare(case.alone.without(mask), one.inputs().without(mask))
        except CouldNotRun:
            return
        safe.append(f"{one.side} padding {'moves real outputs' if found.real else 'is safe'}")
    yield Fact("without a mask", ", ".join(safe))


def _hides_something(subject: Subject, stream: Stream) -> bool:
    return not bool(subject.batch.real(stream).all())
