"""Do a prefix and steps with the cache equal one pass?"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from regard.doctor.effect import effect
from regard.doctor.finding import Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.stepping import Course, Stepper
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Subject

NAME = "cache"
_ROWS = 3


def cache(subject: Subject) -> Iterator[Observation]:
    """One token at a time, several at a time, with a batch, with left padding, and after the cache is cropped or its
    rows are put in another order: always what one pass gives."""
    try:
        stepper = Stepper.of(subject)
        inputs = subject.clean(_ROWS)
        L = inputs.shape(subject.stream)[1]
        if L < 6:
            yield Untested(NAME, f"{L} tokens are too few to go in steps; give 6 or more")
            return
        if not _causal(subject, inputs):
            yield Untested(NAME, "earlier outputs of one pass see later tokens here, which steps cannot")
            return
        sound = yield from _steps(stepper, inputs, L)
    except CouldNotRun as why:
        yield Untested(NAME, str(why))
        return
    if sound:
        for case in (_left_padding, _cropped, _reordered, _capacity):
            yield from _tried(case, stepper, inputs, L)


def _tried(case: Callable[[Stepper, Inputs, int], Iterator[Observation]], *given: Any) -> Iterator[Observation]:
    try:
        yield from case(*given)
    except CouldNotRun as why:
        yield Untested(NAME, f"{case.__name__.strip('_').replace('_', ' ')}: {why}")


def _causal(subject: Subject, inputs: Inputs) -> bool:
    L = inputs.shape(subject.stream)[1]
    place = torch.arange(L)
    changed = inputs.changed(subject.stream, (place >= L // 2)[None], subject.others(inputs, subject.stream))
    moved = effect(subject.run(inputs), subject.run(changed), subject.noise, (place < L // 2)[None])
    return bool(subject.causal) or not moved.real


def _judged(course: Course, code: str, said: str) -> Generator[Observation, None, bool]:
    """The course beside one pass; gives whether they are the same."""
    found, until = course.effect()
    if until is None:
        yield Passed(NAME, f"{said} equals one pass", found.evidence())
        return True
    place = until.where()
    message = f"{said} differs from one pass: the output at {found.place} moves {found.said()}"
    yield Finding(code, message, place.module, place.source, found.evidence())
    return False


def _steps(stepper: Stepper, inputs: Inputs, L: int) -> Generator[Observation, None, bool]:
    """Single steps on a prefix, then chunks of several tokens; gives whether both are right."""
    for masked in _with_and_without_mask(stepper.subject, inputs):
        singles, several = _sizes(L)
        sound = yield from _judged(
            Course(stepper, masked, singles), "CCH001", f"one token at a time, {_short(singles)},"
        )
        sound = sound and (
            yield from _judged(Course(stepper, masked, several), "CCH002", f"several at a time, {_short(several)},")
        )
        if not sound:
            return False
    return True


def _with_and_without_mask(subject: Subject, inputs: Inputs) -> Iterator[Inputs]:
    mask = subject.stream.mask
    if mask is None:
        yield inputs
        return
    yield subject.masked(inputs, subject.stream)
    if mask not in subject.batch.values or subject.forward is None:
        yield inputs.without(mask)


def _left_padding(stepper: Stepper, inputs: Inputs, L: int) -> Iterator[Observation]:
    """Rows with pads of other lengths in front, the mask growing with each step; positions counted by row where the
    model takes them, and left to the model where one pass gives the same without them."""
    subject, stream = stepper.subject, stepper.subject.stream
    B = inputs.shape(stream)[0]
    prefix = _sizes(L)[0][0]
    count = torch.arange(B) * (prefix - 1) // max(1, B - 1)  # a row's prefix holds a token at least
    real = (torch.arange(L) >= count[:, None]).to(inputs.tokens(stream).device)
    padded = subject.masked(inputs, stream).with_real(stream, real)
    padded = padded.changed(stream, ~real, subject.pads(inputs.tokens(stream), (B, L)))
    tried = [padded]
    if stream.positions is not None:
        given = padded.with_positions(stream, real)
        same = not effect(subject.run(padded), subject.run(given), subject.noise, real).real
        tried = [given, padded] if same and stream.positions not in padded.values else [given]
    for one in tried:
        how = "" if len(tried) == 1 or one is tried[0] else " and positions left to the model"
        for sizes in _sizes(L):
            said = f"a left-padded prefix and steps{how}, {_short(sizes)},"
            if not (yield from _judged(Course(stepper, one, sizes, real=real), "CCH003", said)):
                return


def _cropped(stepper: Stepper, inputs: Inputs, L: int) -> Iterator[Observation]:
    """Tokens that are taken back leave nothing in the cache."""
    half = max(2, L // 2)
    stream = stepper.subject.stream

    def start(one: Inputs) -> Any:
        other = one.changed(stream, (torch.arange(L) >= half)[None], stepper.subject.others(one, stream))
        _, state = stepper.run(other, [half, 2])
        crop = getattr(state, "crop", None)
        if crop is None:
            raise CouldNotRun(f"a cache of {type(state).__name__} has no crop(length)")
        # Hugging Face takes the number of tokens to drop, below 0; others the length that is left.
        _guarded(crop, -2 if type(state).__module__.startswith("transformers") else half)
        return state

    for one in _with_and_without_mask(stepper.subject, inputs):
        course = Course(stepper, one, [1] * (L - half), partial(start, one), half)
        if not (yield from _judged(course, "CCH004", f"going on from a cache cropped to {half} tokens")):
            return


def _reordered(stepper: Stepper, inputs: Inputs, L: int) -> Iterator[Observation]:
    """Rows in another order, as beam search puts them."""
    half = max(2, L // 2)
    order = torch.tensor([*range(1, inputs.shape(stepper.subject.stream)[0]), 0])
    own = getattr(stepper.subject.model, "_reorder_cache", None)

    def start(one: Inputs) -> Any:
        _, state = stepper.run(one, [half])
        names = ("reorder_cache", "batch_select_indices")
        turn = next((f for name in names if (f := getattr(state, name, None)) is not None), None)
        if turn is not None:
            _guarded(turn, order)
            return state
        if own is None:
            raise CouldNotRun(f"a cache of {type(state).__name__} has no reorder_cache(order)")
        return _guarded(own, state, order)

    for one in _with_and_without_mask(stepper.subject, inputs):
        course = Course(stepper, one.rows(order), [1] * (L - half), partial(start, one), half)
        said = f"going on from a cache whose rows were put in the order {order.tolist()}"
        if not (yield from _judged(course, "CCH005", said)):
            return


def _capacity(stepper: Stepper, inputs: Inputs, L: int) -> Iterator[Observation]:
    """Room that is not used yet takes no part: a cache with more capacity gives the same."""
    made = _static(stepper.subject)
    singles, _ = _sizes(L)
    for capacity in (L, 2 * L, 4 * L):
        course = Course(stepper, inputs, singles, partial(made, capacity))
        if not (yield from _judged(course, "CCH006", f"a static cache with room for {capacity} tokens")):
            return


def _static(subject: Subject) -> Callable[[int], Any]:
    """A cache with fixed room, where the model's library has one for it."""
    transformers = sys.modules.get("transformers")
    config = getattr(subject.model, "config", None)
    takes = bool({"cache", "past_key_values"} & {*subject.accepted})
    if callable(subject.cache) or not takes or transformers is None or config is None:
        raise CouldNotRun("no cache of fixed room is known for this model")
    if not getattr(subject.model, "_can_compile_fullgraph", True):
        raise CouldNotRun("the model's class does not claim static caches")
    if getattr(config, "is_encoder_decoder", False):
        raise CouldNotRun("a static cache of an encoder-decoder is not tried")
    return lambda capacity: _guarded(transformers.StaticCache, config=copy.deepcopy(config), max_cache_len=capacity)


def _guarded(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return fn(*args, **kwargs)
    except Exception as error:  # a cache that refuses says so
        raise CouldNotRun(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def _sizes(L: int) -> tuple[list[int], list[int]]:
    """A prefix of a third, then single tokens; and the prefix, then 3, 1, 3, 1 …: several on a filled cache, and one
    between."""
    prefix = max(2, L // 3)
    several = [prefix]
    while sum(several) < L:
        several.append(min(L - sum(several), 3 if len(several) % 2 else 1))
    return [prefix] + [1] * (L - prefix), several


def _short(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes[:4])) + (" …" if len(sizes) > 4 else "")
