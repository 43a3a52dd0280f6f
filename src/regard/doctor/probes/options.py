"""Is what is asked for given?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from regard.doctor.effect import effect
from regard.doctor.finding import Finding, Observation, Passed, Untested
from regard.doctor.locate import Kept, locate
from regard.doctor.outputs import main_output, per_place, tensors
from regard.doctor.subject import Subject

NAME = "options"


def options(subject: Subject) -> Iterator[Observation]:
    """Weights that are asked for come, one a layer, and asking leaves the outputs alone."""
    flag = subject.flag
    if flag is None:
        yield Untested(NAME, "no argument is known that asks for weights")
        return
    plain = subject.call(subject.batch)
    asked = subject.call(subject.batch, **{flag: True})
    if _weights(asked, plain):
        yield Passed(NAME, f"{flag}=True gives weights")
    else:
        yield Finding("API002", f"{flag}=True returned no weights and raised nothing")
    B, L = subject.batch.shape(subject.stream)
    one, other = (per_place(main_output(x), B, L) for x in (plain, asked))
    at = subject.batch.real(subject.stream) if one.dim() == 3 else None
    found = effect(one, other, subject.noise, at)
    if found.real:
        kept = Kept({subject.batch.shape(s)[1]: subject.batch.real(s) for s in subject.streams})
        runs = (partial(subject.call, subject.batch), partial(subject.call, subject.batch, **{flag: True}))
        place = locate(subject.model, *runs, (kept, kept))
        message = f"{flag}=True moves the output at {found.place} {found.said()}"
        yield Finding("PTH003", message, place.module, place.source, found.evidence())
    else:
        yield Passed(NAME, f"{flag}=True leaves the outputs", found.evidence())


def _weights(asked: Any, plain: Any) -> bool:
    fields = [n for n in _fields(asked) if "attention" in n or "weight" in n or "attn" in n]
    if fields:
        return any(True for n in fields for _ in tensors(_field(asked, n)))
    return sum(isinstance(x, Tensor) for x in tensors(asked)) > sum(isinstance(x, Tensor) for x in tensors(plain))


def _fields(found: Any) -> list[str]:
    names = found if isinstance(found, Mapping) else getattr(found, "__dict__", {})
    return [str(name) for name in names]


def _field(found: Any, name: str) -> Any:
    return found[name] if isinstance(found, Mapping) else getattr(found, name)
