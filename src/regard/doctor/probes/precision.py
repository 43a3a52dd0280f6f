"""Does half precision drift further than the format explains, and are the outputs finite at all?"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.effect import REAL, Noise, effect
from regard.doctor.finding import Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.locate import Kept, Place, Tensors, place_of, record
from regard.doctor.probes.conditions import Condition, conditions
from regard.doctor.probes.finite import first_not_finite, real_places
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Subject

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
    runs: list[tuple[Condition, Inputs, Tensor]] = []
    for case in cases:
        yield from _in_float32(subject, case, runs)
    for dtype in (torch.bfloat16, torch.float16):
        rounded = replace(subject, model=_rounded(subject.model, dtype))
        # Buffers stay in float32 where the model runs so, as a loader keeps them.
        half = replace(subject, model=_cast(subject.model, dtype, buffers=False))
        if runs and not _can_run(half, _cast_inputs(runs[0][1], dtype)):
            half = replace(subject, model=_cast(subject.model, dtype, buffers=True))
        for case, inputs, base in runs:
            yield from _half(subject, rounded, half, dtype, case, inputs, base)


def _in_float32(
    subject: Subject, case: Condition, runs: list[tuple[Condition, Inputs, Tensor]]
) -> Iterator[Observation]:
    """What the case gives in float32 joins ``runs``; where that is no number already, it is said."""
    try:
        inputs = case.prepare(subject.batch)
        base = subject.run(inputs)
    except CouldNotRun as why:
        yield Untested(NAME, f"{case.name}: {why}")
        return
    if base[real_places(subject, inputs, base)].isfinite().all():
        runs.append((case, inputs, base))
        return
    place = first_not_finite(subject.model, partial(subject.call, inputs))
    message = f"the output is not finite{case.said()}"
    yield Finding("NUM001", message, place.module, place.source, {"dtype": str(base.dtype)})


def _half(
    subject: Subject, rounded: Subject, half: Subject, dtype: torch.dtype, case: Condition, inputs: Inputs, base: Tensor
) -> Iterator[Observation]:
    name = str(dtype).removeprefix("torch.")
    cast = _cast_inputs(inputs, dtype)
    real = real_places(subject, inputs, base)
    try:
        out = half.run(cast)
    except CouldNotRun as why:
        yield Untested(NAME, f"{name}{case.said()}: {why}")
        return
    if not out[real].isfinite().all():
        place = first_not_finite(half.model, partial(half.call, cast))
        message = f"in {name} the output is not finite{case.said()}, in float32 it is"
        yield Finding("NUM001", message, place.module, place.source, {"dtype": name})
        return
    at = real if base.dim() == 3 else None
    spread = subject.noise.spread
    explained = max(effect(base, rounded.run(inputs), subject.noise, at).change, torch.finfo(dtype).eps * spread)
    # A drift is real from 20 times what is explained.
    found = effect(base, out.float(), Noise(explained * 20 / REAL, spread), at)
    if found.real:
        place = _where(subject, half, inputs, cast, dtype)
        yield Finding(
            "NUM002",
            f"in {name} the output at {found.place} moves by {found.change:.2g}, {found.change / explained:,.0f} "
            f"times what rounding the weights explains{case.said()}",
            place.module,
            place.source,
            {**found.evidence(), "dtype": name, "explained": explained},
        )
    else:
        said = f"{name} drifts as the format explains{case.said()}"
        yield Passed(NAME, said, {"change": found.change, "explained": explained, "dtype": name})


def _can_run(subject: Subject, inputs: Inputs) -> bool:
    try:
        subject.run(inputs)
    except CouldNotRun:
        return False
    return True


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


def _cast(model: nn.Module, dtype: torch.dtype, buffers: bool) -> nn.Module:
    out = copy.deepcopy(model)
    if buffers:
        return out.to(dtype)
    for p in out.parameters():
        if p.is_floating_point():
            p.data = p.data.to(dtype)
    return out


def _cast_inputs(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    def cast(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x

    return Inputs({name: cast(value) for name, value in inputs.values.items()})


def _where(subject: Subject, half: Subject, inputs: Inputs, cast: Inputs, dtype: torch.dtype) -> Place:
    """The first module whose outputs drift far beyond what has drifted in its inputs already."""
    kept = Kept({inputs.shape(s)[1]: inputs.real(s) for s in subject.streams})
    whole = record(subject.model, lambda: subject.call(inputs), kept)
    halves = record(half.model, lambda: half.call(cast), kept)
    eps = torch.finfo(dtype).eps
    worst, place = 0.0, ""
    for (name, ins, outs), (other, half_ins, half_outs) in zip(whole, halves, strict=False):
        if name != other or not name:
            continue
        share = _drift(outs, half_outs) / max(_drift(ins, half_ins), eps)
        if share > 2 * worst:  # an outer module repeats what its inner one did: the first of two alike is kept
            worst, place = share, name
    return place_of(subject.model, place)


def _drift(some: Tensors, others: Tensors) -> float:
    """The largest change among the tensors, each in units of its own spread."""
    found = [0.0]
    for path, one in some.items():
        other = others.get(path)
        if other is None or one.shape != other.shape or not one.is_floating_point() or one.numel() < 2:
            continue
        a, b = (x.double().clamp(-1e30, 1e30) for x in (one, other))
        if spread := float(a.std()):
            found.append(float((a - b).abs().max()) / spread)
    return max(found)
