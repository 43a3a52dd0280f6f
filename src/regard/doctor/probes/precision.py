"""Does half precision drift further than the format explains, and are the outputs finite at all?"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.effect import Noise, effect
from regard.doctor.finding import Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.probes.conditions import Condition, conditions
from regard.doctor.subject import CouldNotRun, Subject

NAME = "precision"
_FAR = 4096  # a place where rounded frequencies have lost their phase
_KINDS = ("", "padding on the left", "padding on the right")


def precision(subject: Subject) -> Iterator[Observation]:
    """bfloat16 and float16 against float32. What the format explains is measured: the same model in float32 with its
    weights rounded to the format."""
    stream = subject.stream
    cases = [case for case in conditions(subject, stream) if case.name in _KINDS]
    if stream.positions is not None and not stream.positions.startswith("decoder"):
        cases.append(Condition(f"positions from {_FAR} on", lambda x: _far(subject, x), {}))
    for case in cases:
        try:
            inputs = case.prepare(subject.batch)
            base = subject.run(inputs)
        except CouldNotRun as why:
            yield Untested(NAME, f"{case.name}: {why}")
            continue
        real = inputs.real(stream) if base.dim() == 3 else torch.ones(len(base), dtype=torch.bool)
        if not base[real.to(base.device)].isfinite().all():
            place = _first_bad(subject, inputs)
            yield Finding(
                "NUM001", f"the output is not finite{case.said()}", place, evidence={"dtype": str(base.dtype)}
            )
            continue
        for dtype in (torch.bfloat16, torch.float16):
            yield from _half(subject, case, inputs, base, real, dtype)


def _half(
    subject: Subject, case: Condition, inputs: Inputs, base: Tensor, real: Tensor, dtype: torch.dtype
) -> Iterator[Observation]:
    name = str(dtype).removeprefix("torch.")
    at = real if base.dim() == 3 else None
    rounded = replace(subject, model=_rounded(subject.model, dtype))
    out = None
    for whole in (False, True):  # buffers stay in float32 where the model runs so, as a loader keeps them
        half = replace(subject, model=_cast(subject.model, dtype, whole))
        try:
            out = half.run(_cast_inputs(inputs, dtype))
            break
        except CouldNotRun as why:
            problem = why
    if out is None:
        yield Untested(NAME, f"{name}{case.said()}: {problem}")
        return
    if not out[real.to(out.device)].isfinite().all():
        place = _first_bad(half, _cast_inputs(inputs, dtype))
        message = f"in {name} the output is not finite{case.said()}, in float32 it is"
        yield Finding("NUM001", message, place, evidence={"dtype": name})
        return
    explained = effect(base, rounded.run(inputs), subject.noise, at).change
    spread = subject.noise.spread
    floor = (
        max(explained, torch.finfo(dtype).eps * spread) / 3
    )  # a change counts from 50 of these: 17 times what is explained
    found = effect(base, out.float(), Noise(floor, spread), at)
    if found.real:
        yield Finding(
            "NUM002",
            f"in {name} the output at {found.place} moves by {found.change:.2g}, {found.change / (3 * floor):,.0f} "
            f"times what rounding the weights explains{case.said()}",
            evidence={**found.evidence(), "dtype": name, "explained": explained},
        )
    else:
        said = f"{name} drifts as the format explains{case.said()}"
        yield Passed(NAME, said, {"change": found.change, "explained": explained, "dtype": name})


def _far(subject: Subject, inputs: Inputs) -> Inputs:
    stream = subject.stream
    assert stream.positions is not None
    sizes = (
        getattr(getattr(subject.model, "config", None), n, None) for n in ("max_position_embeddings", "n_positions")
    )
    if any(isinstance(n, int) and n < 2 * _FAR for n in sizes):
        raise CouldNotRun(f"the model is not made for positions from {_FAR} on")
    B, L = inputs.shape(stream)
    return inputs.with_values(**{stream.positions: torch.arange(_FAR, _FAR + L).expand(B, L)})


def _rounded(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    out = copy.deepcopy(model)
    with torch.no_grad():
        for p in out.parameters():
            if p.is_floating_point():
                p.copy_(p.to(dtype).to(p.dtype))
    return out


def _cast(model: nn.Module, dtype: torch.dtype, whole: bool) -> nn.Module:
    out = copy.deepcopy(model)
    if whole:
        return out.to(dtype)
    for p in out.parameters():
        if p.is_floating_point():
            p.data = p.data.to(dtype)
    return out


def _cast_inputs(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    def cast(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x

    return Inputs({name: cast(value) for name, value in inputs.values.items()})


def _first_bad(subject: Subject, inputs: Inputs) -> str:
    """The first module to finish whose output is not finite though its inputs are, at real places."""
    from regard.doctor.locate import Kept, record

    L = inputs.shape(subject.stream)[1]
    kept = Kept({L: inputs.real(subject.stream)})

    def bad(some: list[Tensor | None]) -> bool:
        return any(x is not None and x.is_floating_point() and not x.isfinite().all() for x in some)

    for name, ins, outs in record(subject.model, lambda: subject.call(inputs), kept):
        # A mask of −inf goes in healthily, so only NaN among the inputs counts as already bad.
        if bad(outs) and not any(x is not None and x.is_floating_point() and x.isnan().any() for x in ins):
            return name
    return ""
