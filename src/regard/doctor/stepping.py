"""How a model is run piece by piece with a cache: as Hugging Face does it, or by the caller's own step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.doctor.effect import Effect, effect
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, Place, locate
from regard.doctor.outputs import main_output, per_place
from regard.doctor.stream import CouldNotRun, Stream
from regard.doctor.subject import Subject

#: step(model, batch, state) -> (output, state); the batch holds the new tokens, and the mask of all tokens so far.
Step = Callable[[Any, Any, Any], tuple[Any, Any]]

_NAMES = ("past_key_values", "cache", "past_key_value", "past", "kv_cache", "state")
_SWITCHES = ("use_cache", "return_cache")


@dataclass(frozen=True)
class Stepper:
    """A subject that can be run in chunks."""

    subject: Subject
    step: Step

    @classmethod
    def of(cls, subject: Subject) -> Stepper:
        """By the caller's step, or found in the names that the model's call takes; raises CouldNotRun where there is
        neither."""
        if callable(subject.cache):
            return cls(subject, subject.cache)
        if subject.cache is None or subject.cache is False:
            raise CouldNotRun("cache=None was given")
        name = next((n for n in _NAMES if n in subject.accepted), None)
        if name is None:
            raise CouldNotRun(
                "the model's forward takes no cache; give cache=step(model, batch, state) -> (output, state)"
            )
        switches = {n: True for n in _SWITCHES if n in subject.accepted}

        def step(model: Any, batch: dict[str, Any], state: Any) -> tuple[Any, Any]:
            given = batch if state is None else {**batch, name: state}
            out = model(**given, **switches)
            return out, _cache_of(out, name)

        return cls(subject, step)

    def run(self, inputs: Inputs, chunks: Sequence[int], state: Any = None, begin: int = 0) -> tuple[Tensor, Any]:
        """The outputs (B, Σ chunks, F) of these tokens taken in chunks, and the cache after them."""
        outputs = []
        for size in chunks:
            out, state = self.one(inputs, begin, begin + size, state)
            outputs.append(out)
            begin += size
        return torch.cat(outputs, 1), state

    def one(self, inputs: Inputs, begin: int, end: int, state: Any) -> tuple[Tensor, Any]:
        """One chunk: tokens begin ≤ i < end, behind a cache of ``begin`` tokens."""
        stream = self.subject.stream
        batch = chunk(inputs, stream, begin, end)
        B = inputs.shape(stream)[0]
        try:
            out, state = self.step(self.subject.model, dict(batch.values), state)
            found = per_place(main_output(out), B, end - begin)
        except Exception as error:  # whatever a stranger's model raises is an answer
            said = " ".join(str(error).split())[:200]
            raise CouldNotRun(
                f"the model raised {type(error).__name__} on tokens {begin} to {end} with a cache: {said}"
            ) from error
        if state is None:
            raise CouldNotRun("the model returned no cache")
        if found.dim() != 3:
            raise CouldNotRun("the model gives no output for each token")
        return found, state


@dataclass(frozen=True)
class Course:
    """Tokens from ``begin`` on taken in chunks of ``sizes`` behind the cache that ``start`` gives, beside one pass over
    all of them. Only ``real`` tokens count."""

    stepper: Stepper
    inputs: Inputs
    sizes: Sequence[int]
    start: Callable[[], Any] = lambda: None
    begin: int = 0
    real: Tensor | None = None

    def effect(self) -> tuple[Effect, Course | None]:
        """How far the chunks' outputs are from one pass, and where they are the course up to the first that differs."""
        subject = self.stepper.subject
        whole = subject.run(self.inputs)
        state, begin = self.start(), self.begin
        worst, until = None, None
        for taken, size in enumerate(self.sizes):
            out, state = self.stepper.one(self.inputs, begin, begin + size, state)
            part = slice(begin, begin + size)
            found = effect(whole[:, part], out, subject.noise, None if self.real is None else self.real[:, part])
            found = replace(found, place=begin + found.place)
            if found.real and until is None:
                until = replace(self, sizes=self.sizes[: taken + 1])
            worst = found if worst is None or found.change > worst.change else worst
            begin += size
        assert worst is not None
        return worst, until

    def where(self) -> Place:
        """The first module that gives the last chunk's places other outputs than one pass does."""
        stream = self.stepper.subject.stream
        B, L = self.inputs.shape(stream)
        *before, size = self.sizes
        begin = self.begin + sum(before)
        state = self.start()
        if before:
            _, state = self.stepper.run(self.inputs, before, state, self.begin)
        at = torch.zeros(B, L, dtype=torch.bool)
        at[:, begin : begin + size] = True if self.real is None else self.real[:, begin : begin + size]
        kept = (Kept({L: at}), Kept({size: at[:, begin : begin + size]}))
        one, other = self.stepper.subject.call, self.stepper.one
        return locate(
            self.stepper.subject.model,
            partial(one, self.inputs),
            partial(other, self.inputs, begin, begin + size, state),
            kept,
        )


def chunk(inputs: Inputs, stream: Stream, begin: int, end: int) -> Inputs:
    """New tokens begin ≤ i < end with what runs along them, and the mask of everything up to them."""
    seen = inputs.columns(stream, torch.arange(end))
    new = inputs.columns(stream, torch.arange(begin, end))
    if stream.mask is not None and stream.mask in inputs.values:
        new = new.with_values(**{stream.mask: seen.values[stream.mask]})
    return new


def _cache_of(out: Any, name: str) -> Any:
    for one in (name, "past_key_values"):
        found = out.get(one) if isinstance(out, dict) else getattr(out, one, None)
        if found is not None:
            return found
    return out[1] if isinstance(out, tuple) and len(out) > 1 else None
