"""Does padding take part: by its content, by its length, by its side?"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from regard.doctor.effect import Effect, effect
from regard.doctor.finding import Fact, Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs, Stream
from regard.doctor.locate import Kept, Place, locate
from regard.doctor.probes.batch import pads_called_real
from regard.doctor.probes.conditions import AS_GIVEN, Condition, ways
from regard.doctor.subject import CouldNotRun, Subject

NAME = "padding"
_ROWS, _PADS = 3, 5


@dataclass(frozen=True)
class Padded:
    """Real tokens alone, and the same with padding beside them, on one side."""

    subject: Subject
    stream: Stream
    left: bool
    alone: Inputs
    pads: int = _PADS
    positions: bool = False
    first: int = 0  # the position of the first real token
    asked: Condition = AS_GIVEN

    @property
    def side(self) -> str:
        return "left" if self.left else "right"

    @property
    def of(self) -> str:
        return "" if self.stream.aligned else f" of {self.stream.tokens}"

    def inputs(self, content: Tensor | None = None) -> Inputs:
        """The padded batch; pads hold the pad id, or this content."""
        tokens = self.alone.tokens(self.stream)
        shape = (tokens.shape[0], self.pads)
        edge = self.subject.pads(tokens, shape) if content is None else content
        out = self.alone.padded(self.stream, self.pads * self.left, self.pads * (not self.left), edge)
        if self.positions:
            out = out.with_positions(self.stream, self.real(out), self.first)
        return out

    def noise_content(self) -> Tensor:
        tokens = self.alone.tokens(self.stream)
        return self.subject.drawn(tokens, (tokens.shape[0], self.pads), seed=5)

    def real(self, inputs: Inputs) -> Tensor:
        """The tokens that are no padding, (B, L), by construction and not by the mask."""
        B, L = inputs.shape(self.stream)
        place = torch.arange(L, device=inputs.tokens(self.stream).device)
        at = place >= self.pads if self.left else place < L - self.pads
        return (at if self.alone.shape(self.stream)[1] < L else torch.ones_like(at)).expand(B, L)

    def kept(self, out: Tensor, inputs: Inputs) -> Tensor:
        """Of an output, the places that must stand still, in the shape of the run alone."""
        if out.dim() == 2 or not self.stream.aligned:
            return out
        n = self.alone.shape(self.stream)[1]
        return out[:, -n:] if self.left else out[:, :n]

    def compare(self, one: Inputs, other: Inputs) -> Effect:
        with self.asked.around():
            a, b = (self.kept(self.subject.run(x, **self.asked.options), x) for x in (one, other))
        return effect(a, b, self.subject.noise)

    def where(self, one: Inputs, other: Inputs) -> Place:
        """The first module whose real places differ; in a decoder that reads this source, of its own places."""
        sides = [Kept({x.shape(self.stream)[1]: self.real(x)}) for x in (one, other)]
        runs = [partial(self.subject.call, x, **self.asked.options) for x in (one, other)]
        with self.asked.around():
            place = locate(self.subject.model, runs[0], runs[1], (sides[0], sides[1]))
            if self.stream.aligned or place.change:
                return place
            target = self.subject.stream
            everywhere = Kept({one.shape(target)[1]: torch.ones(one.shape(target), dtype=torch.bool)})
            return locate(self.subject.model, runs[0], runs[1], (everywhere, everywhere))


def padding(subject: Subject) -> Iterator[Observation]:
    """Real outputs do not move when the content, the amount or the side of the padding changes."""
    for stream in subject.streams:
        yield from pads_called_real(subject, stream)
        if stream.mask is None:
            yield Untested(
                NAME,
                f"no padding mask is known for {stream.tokens!r}: name the argument with mask=, and have the model's "
                "forward take it or the batch hold it",
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
        for left in (False, True):
            case = Padded(subject, stream, left, alone)
            try:
                yield from _left(case) if left else _right(case)
            except CouldNotRun as why:
                yield Untested(NAME, f"{case.side}{case.of}: {why}")


def _alone(subject: Subject, stream: Stream) -> Inputs | None:
    """A few rows of real tokens, so much shorter that with padding they are no longer than the batch given."""
    L = subject.batch.shape(stream)[1]
    alone = subject.clean(_ROWS)
    n = alone.shape(stream)[1]
    keep = min(n, max(L - _PADS, 3))
    if keep < 3:
        return None
    alone = alone.columns(stream, torch.arange(keep))
    if not stream.aligned:  # lengths of source and target tell their axes apart
        m = alone.shape(subject.stream)[1]
        taken = {keep, keep + 1, keep + _PADS}
        fit = next((k for k in range(m, 1, -1) if k not in taken), m)
        alone = alone.columns(subject.stream, torch.arange(fit))
    return subject.masked(alone, stream)


def _right(case: Padded) -> Iterator[Observation]:
    leak = yield from _contents(case)
    if leak:
        return
    for pads in (1, _PADS):
        one = replace(case, pads=pads)
        found = one.compare(case.alone, one.inputs())
        if found.real:
            place = one.where(case.alone, one.inputs())
            yield Finding(
                "PAD002",
                f"{pads} pads more on the right{case.of} move the output at {found.place} {found.said()}",
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
    elif _ignored(given, name):
        yield Finding("API001", f"{said}, and {name} changes nothing at all: accepted and ignored", evidence=evidence)
    else:
        yield Finding("POS005", f"{said}; with {name} still {repaired.said()}", *where, evidence)


def _ignored(given: Padded, name: str) -> bool:
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
    one, other = case.inputs(), case.inputs(case.noise_content())
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
    own = _own_kind(case, one)
    if own is not None and not own.real and _heals(case, one, other):
        message = f"{said}, and changing a real token moves no other output ({own.said()}): the mask is read inverted"
        yield Finding("MSK001", message, place.module, place.source, evidence)
        return True
    mask = case.stream.mask
    assert mask is not None
    ones = one.with_real(case.stream, torch.ones_like(one.real(case.stream)))
    # On the right of a causal model a mask has nothing to do.
    ignored = (case.left or _reads_both_ways(case)) and case.compare(one, ones).change == 0.0
    if ignored:
        said += f"; {mask} changes nothing"
        yield Finding("API001", f"{mask} is accepted and changes nothing at all", evidence=evidence)
    in_decoder = not case.stream.aligned and _is_of_target(case, place)
    code = "PAD004" if in_decoder else "PAD001"
    yield Finding(code, said, place.module, place.source, evidence)
    return True


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


def _is_of_target(case: Padded, place: Place) -> bool:
    """Whether the module's real source places stood still: then it is the decoder that reads the padding."""
    one, other = case.inputs(), case.inputs(case.noise_content())
    kept = Kept({one.shape(case.stream)[1]: case.real(one)})
    runs = (partial(case.subject.call, one), partial(case.subject.call, other))
    return not locate(case.subject.model, *runs, (kept, kept)).change


def _without_mask(case: Padded) -> Iterator[Observation]:
    """A fact for the reader: whether it is safe to leave the mask out."""
    mask = case.stream.mask
    if not case.stream.aligned:
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
