"""Do a prefix and steps with the cache equal one pass?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.doctor.effect import Effect, effect
from regard.doctor.finding import Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, Place, locate, place_of
from regard.doctor.stepping import Stepper
from regard.doctor.subject import CouldNotRun, Subject

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
    if not sound:
        return
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


def _steps(stepper: Stepper, inputs: Inputs, L: int) -> Any:
    """Single steps on a prefix, then chunks of several tokens; gives whether both are right."""
    half = max(2, L // 3)
    singles = [half] + [1] * (L - half)
    chunks = [half, *_chunks(L - half)]
    for masked in _with_and_without_mask(stepper.subject, inputs):
        whole = stepper.subject.run(masked)
        for sizes, code, said in (
            (singles, "CCH001", "one token at a time"),
            (chunks, "CCH002", "several tokens at a time"),
        ):
            steps, _ = stepper.run(masked, sizes)
            found = effect(whole, steps, stepper.subject.noise)
            if found.real:
                begin, size = _first(whole, steps, sizes, stepper.subject)
                place = _where(stepper, masked, sizes, begin, size)
                yield _finding(
                    code, f"{said} behind {begin} in the cache: the output at {found.place} moves", found, place
                )
                return False
            yield Passed(NAME, f"{said} equals one pass, chunks {_short(sizes)}", found.evidence())
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
    model takes them."""
    subject, stream = stepper.subject, stepper.subject.stream
    B = inputs.shape(stream)[0]
    half = max(3, L // 2)
    count = torch.arange(B) * (half - 2) // max(1, B - 1)
    real = (torch.arange(L) >= count[:, None]).to(inputs.tokens(stream).device)
    padded = subject.masked(inputs, stream).with_real(stream, real)
    padded = padded.changed(stream, ~real, subject.pads(inputs.tokens(stream), (B, L)))
    if stream.positions is not None:
        padded = padded.with_positions(stream, real)
    whole = subject.run(padded)
    for sizes in ([half] + [1] * (L - half), [half, *_chunks(L - half)]):
        steps, _ = stepper.run(padded, sizes)
        found = effect(whole, steps, subject.noise, real)
        if found.real:
            begin, size = _first(whole, steps, sizes, subject, real)
            place = _where(stepper, padded, sizes, begin, size, real)
            yield _finding(
                "CCH003", f"with left padding the output at {found.place} of row {found.row} moves", found, place
            )
            return
    yield Passed(NAME, "steps behind a left-padded prefix equal one pass", found.evidence())


def _cropped(stepper: Stepper, inputs: Inputs, L: int) -> Iterator[Observation]:
    """Tokens that are taken back leave nothing in the cache."""
    half = max(2, L // 2)
    other = inputs.changed(
        stepper.subject.stream, (torch.arange(L) >= half)[None], stepper.subject.others(inputs, stepper.subject.stream)
    )
    _, state = stepper.run(other, [half, 2])
    crop = getattr(state, "crop", None)
    if crop is None:
        raise CouldNotRun(f"a cache of {type(state).__name__} has no crop(length)")
    # Hugging Face takes the number of tokens to drop, below 0; others the length that is left.
    _guarded(crop, -2 if type(state).__module__.startswith("transformers") else half)
    yield from _continued(stepper, inputs, half, state, "CCH004", f"after cropping to {half} tokens")


def _reordered(stepper: Stepper, inputs: Inputs, L: int) -> Iterator[Observation]:
    """Rows in another order, as beam search puts them."""
    half = max(2, L // 2)
    _, state = stepper.run(inputs, [half])
    turn = next(
        (f for n in ("reorder_cache", "batch_select_indices") if (f := getattr(state, n, None)) is not None), None
    )
    own = getattr(stepper.subject.model, "_reorder_cache", None)
    order = torch.tensor([*range(1, inputs.shape(stepper.subject.stream)[0]), 0])
    if turn is not None:
        _guarded(turn, order)
    elif own is not None:
        state = _guarded(own, state, order)
    else:
        raise CouldNotRun(f"a cache of {type(state).__name__} has no reorder_cache(order)")
    said = f"after its rows are put in the order {order.tolist()}"
    yield from _continued(stepper, inputs.rows(order), half, state, "CCH005", said)


def _capacity(stepper: Stepper, inputs: Inputs, L: int) -> Iterator[Observation]:
    """Room that is not used yet takes no part: a cache with more capacity gives the same."""
    made = _static(stepper.subject)
    half = max(2, L // 2)
    for capacity in (L, 2 * L, 4 * L):
        whole = stepper.subject.run(inputs)
        steps, _ = stepper.run(inputs, [half] + [1] * (L - half), state=made(capacity))
        found = effect(whole, steps, stepper.subject.noise)
        if found.real:
            yield _finding(
                "CCH006",
                f"with room for {capacity} tokens the output at {found.place} moves",
                found,
                place_of(stepper.subject.model, ""),
            )
            return
    yield Passed(NAME, f"a static cache with room for {L}, {2 * L} and {4 * L} tokens gives the same", found.evidence())


def _static(subject: Subject) -> Callable[[int], Any]:
    """A cache with fixed room, where the model's library has one for it."""
    import sys

    transformers = sys.modules.get("transformers")
    config = getattr(subject.model, "config", None)
    if (
        callable(subject.cache)
        or not {"cache", "past_key_values"} & {*subject.accepted}
        or not (transformers and config)
    ):
        raise CouldNotRun("no cache of fixed room is known for this model")
    if getattr(config, "is_encoder_decoder", False):
        raise CouldNotRun("a static cache of an encoder-decoder is not tried")
    return lambda capacity: _guarded(transformers.StaticCache, config=copy.deepcopy(config), max_cache_len=capacity)


def _continued(stepper: Stepper, inputs: Inputs, half: int, state: Any, code: str, said: str) -> Iterator[Observation]:
    L = inputs.shape(stepper.subject.stream)[1]
    whole = stepper.subject.run(inputs)[:, half:]
    steps, _ = stepper.run(inputs, [1] * (L - half), state, half)
    found = effect(whole, steps, stepper.subject.noise)
    if found.real:
        message = f"{said} the output at {half + found.place} moves"
        yield _finding(code, message, found, place_of(stepper.subject.model, ""))
    else:
        yield Passed(NAME, f"{said} steps equal one pass", found.evidence())


def _guarded(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return fn(*args, **kwargs)
    except Exception as error:  # a cache that refuses says so
        raise CouldNotRun(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def _finding(code: str, message: str, found: Effect, place: Place) -> Finding:
    return Finding(code, f"{message} {found.said()}", place.module, place.source, found.evidence())


def _chunks(rest: int) -> list[int]:
    """3, 1, 3, 1 … of what is left: several tokens on a filled cache, and one between."""
    sizes: list[int] = []
    while rest > 0:
        sizes.append(min(rest, 3 if len(sizes) % 2 == 0 else 1))
        rest -= sizes[-1]
    return sizes


def _first(
    whole: Tensor, steps: Tensor, sizes: Sequence[int], subject: Subject, real: Tensor | None = None
) -> tuple[int, int]:
    """The first chunk whose outputs differ: where it begins, and its size."""
    begin = 0
    for size in sizes:
        part = slice(begin, begin + size)
        at = None if real is None else real[:, part]
        if effect(whole[:, part], steps[:, part], subject.noise, at).real:
            return begin, size
        begin += size
    return 0, sizes[0]


def _where(
    stepper: Stepper, inputs: Inputs, sizes: Sequence[int], begin: int, size: int, real: Tensor | None = None
) -> Place:
    """The first module that gives this chunk's places other outputs than one pass does."""
    stream = stepper.subject.stream
    B, L = inputs.shape(stream)
    before: list[int] = []
    while sum(before) < begin:
        before.append(sizes[len(before)])
    state = stepper.run(inputs, before)[1] if before else None
    at = torch.zeros(B, L, dtype=torch.bool)
    at[:, begin : begin + size] = True if real is None else real[:, begin : begin + size]
    kept = (Kept({L: at}), Kept({size: at[:, begin : begin + size]}))
    runs = (partial(stepper.subject.call, inputs), lambda: stepper.one(inputs, begin, begin + size, state))
    return locate(stepper.subject.model, *runs, kept)


def _short(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes[:6])) + (", …" if len(sizes) > 6 else "")
