"""Are the outputs numbers at all?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.finding import Finding, Observation, Passed
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, Place, place_of, record
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
    place = first_not_finite(subject.model, lambda: subject.call(inputs), subject, inputs)
    share = float(bad.double().mean())
    message = f"{share:.0%} of the outputs at real tokens are NaN or inf"
    yield Finding("NUM001", message, place.module, place.source, {"share": share, "dtype": str(out.dtype)})


def real_places(subject: Subject, inputs: Inputs, out: Tensor) -> Tensor:
    """The places of an output that mean something: real tokens, or every row where there is one output a row."""
    if out.dim() == 3:
        return inputs.real(subject.stream).to(out.device)
    return torch.ones(out.shape[0], dtype=torch.bool, device=out.device)


def first_not_finite(model: nn.Module, run: Callable[[], Any], subject: Subject, inputs: Inputs) -> Place:
    """The first module to finish whose outputs at real tokens are not finite though no NaN went in."""
    kept = Kept({inputs.shape(s)[1]: inputs.real(s) for s in subject.streams})
    for name, ins, outs in record(model, run, kept):
        # A mask of −inf goes in healthily, so only NaN counts as bad already.
        if any(_has(x, lambda y: ~y.isfinite()) for x in outs) and not any(_has(x, torch.isnan) for x in ins):
            return place_of(model, name)
    return place_of(model, "")


def _has(x: Tensor | None, what: Callable[[Tensor], Tensor]) -> bool:
    return x is not None and x.is_floating_point() and bool(what(x).any())
