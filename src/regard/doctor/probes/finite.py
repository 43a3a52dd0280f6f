"""Are the outputs numbers at all?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.finding import Finding, Observation, Passed
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Everywhere, Place, place_of, record
from regard.doctor.subject import Subject

NAME = "finite"


def finite(subject: Subject) -> Iterator[Observation]:
    """No NaN and no inf at a real token."""
    inputs = subject.batch
    out = subject.run(inputs)
    bad = ~out[real_places(subject, inputs, out)].isfinite()
    if not bad.any():
        yield Passed(NAME, "every output at a real token is finite")
        return
    place = first_not_finite(subject.model, partial(subject.call, inputs))
    share = float(bad.double().mean())
    message = f"{share:.0%} of the outputs at real tokens are NaN or inf"
    yield Finding("NUM001", message, place.module, place.source, {"share": share, "dtype": str(out.dtype)})


def real_places(subject: Subject, inputs: Inputs, out: Tensor) -> Tensor:
    """The places of an output that mean something: real tokens, or every row where there is one output a row."""
    if out.dim() == 3:
        return inputs.real(subject.stream).to(out.device)
    return torch.ones(out.shape[0], dtype=torch.bool, device=out.device)


def first_not_finite(model: nn.Module, run: Callable[[], Any]) -> Place:
    """The first module to finish that makes a NaN or +inf out of inputs that have none, at whatever place: a NaN at
    padding reaches real tokens in a later layer."""
    for name, ins, outs in record(model, run, Everywhere()):
        if any(map(_bad, outs.values())) and not any(map(_bad, ins.values())):
            return place_of(model, name)
    return place_of(model, "")


def _bad(x: Tensor) -> bool:
    """−inf is how a mask hides, so it is no fault by itself."""
    return x.is_floating_point() and bool((x.isnan() | (x == torch.inf)).any())
