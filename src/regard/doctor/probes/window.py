"""Does a declared window reach as far as it says, in every layer?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.attention import attention_modules
from regard.doctor.effect import REAL, Effect, Noise, effect
from regard.doctor.finding import Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.locate import place_of
from regard.doctor.outputs import tensors
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Subject

NAME = "window"


def window(subject: Subject) -> Iterator[Observation]:
    """A window of W keys holds the token itself and W − 1 before it: what goes into one attention module at a place is
    changed, and of that module's outputs only the W from there on may move, and the last of them must."""
    declared = _declared(subject.model)
    if not declared:
        return
    inputs = subject.clean(2)
    L = inputs.shape(subject.stream)[1]
    checked = 0
    for path, W in declared.items():
        if W + 1 >= L:
            yield Untested(NAME, f"{path}: a window of {W} keys is not left by {L} tokens; give more than {W + 1}")
            continue
        try:
            base, moved, noise = _one_module(subject, inputs, path)
        except CouldNotRun as why:
            yield Untested(NAME, f"{path}: {why}")
            continue
        place = torch.arange(L)
        beyond = effect(base, moved, noise, (place >= W)[None])
        last = effect(base, moved, noise, (place == W - 1)[None])
        if not beyond.real and last.real:
            checked += 1
            continue
        reach = int((effect_by_place(base, moved) > REAL * noise.floor).nonzero().max()) + 1
        spot = place_of(subject.model, path)
        convolves = any(isinstance(m, nn.Conv1d) for m in subject.model.get_submodule(path).modules())
        yield Finding(
            "POS004",
            f"a window of {W} keys is declared and {reach} are seen: {_said(beyond if beyond.real else last, W)}",
            spot.module,
            spot.source,
            {"declared": W, "measured": reach},
            "note" if convolves else "warning",  # a convolution inside reaches further by itself
        )
    if checked:
        yield Passed(NAME, f"{checked} attention modules see exactly the keys of their windows")


def _said(found: Effect, W: int) -> str:
    if found.real:
        return f"the output {found.place} places on moves {found.said()}"
    return f"the output {W - 1} places on does not move"


def effect_by_place(base: Tensor, moved: Tensor) -> Tensor:
    return (base.double() - moved.double()).abs().amax((0, 2))


def _declared(model: nn.Module) -> dict[str, int]:
    """The windows of the innermost attention modules: their own, or the configuration's where all layers share it."""
    config = getattr(model, "config", None)
    kinds = getattr(config, "layer_types", None)
    shared = getattr(config, "sliding_window", None)
    if kinds is not None and set(kinds) != {"sliding_attention"}:
        shared = None
    found = {}
    for path, module in attention_modules(model).items():
        own = getattr(module, "sliding_window", shared)
        if isinstance(own, int) and own > 0:
            found[path] = own
    return found


def _one_module(subject: Subject, inputs: Inputs, path: str) -> tuple[Tensor, Tensor, Noise]:
    """The outputs (B, L, D) of one module, as it is, and with what goes in at place 0 changed."""
    L = inputs.shape(subject.stream)[1]
    out: list[Tensor] = []

    def change(by: Tensor | None, _: nn.Module, args: Any, kwargs: Any) -> Any:
        done = False

        def turned(x: Any) -> Any:
            nonlocal done
            if done or by is None or not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() != 3:
                return x
            if x.shape[1] != L:
                return x
            done = True
            return torch.cat([x[:, :1] + by[: x.shape[-1]] * x.std(), x[:, 1:]], 1)

        args = tuple(turned(x) for x in args)
        return args, {name: turned(x) for name, x in kwargs.items()}

    def keep(_: nn.Module, args: Any, found: Any) -> None:
        one = next((x for x in tensors(found) if x.dim() == 3 and x.shape[1] == L), None)
        if one is not None:
            out.append(one.detach().clone())

    module = subject.model.get_submodule(path)
    for by in (None, torch.randn(1 << 14, generator=torch.Generator().manual_seed(2))):
        handles = [
            module.register_forward_pre_hook(partial(change, by), with_kwargs=True),
            module.register_forward_hook(keep),
        ]
        try:
            subject.call(inputs)
        finally:
            for handle in handles:
                handle.remove()
    if len(out) != 2:
        raise CouldNotRun("it does not take and give (B, L, D) once a call")
    spread = float(out[0].std())
    return out[0], out[1], Noise(max(8 * torch.finfo(out[0].dtype).eps * spread, 1e-30), spread)
