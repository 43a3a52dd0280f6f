"""How a model is run piece by piece with a cache: as Hugging Face does it, or by the caller's own step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.doctor.inputs import Inputs, Stream
from regard.doctor.outputs import main_output, per_place
from regard.doctor.subject import CouldNotRun, Subject

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
