"""Where it begins: the first module whose inputs stand still and whose outputs move."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.doctor.effect import REAL, difference
from regard.doctor.held import last_bits
from regard.doctor.outputs import named_tensors
from regard.doctor.stream import CouldNotRun


@dataclass(frozen=True)
class Place:
    """A module by its path in the model, and the file and line of its forward."""

    module: str
    source: str
    change: float = 0.0
    noise: float = 0.0


@dataclass(frozen=True)
class Kept:
    """Which places of a run are to stand still: for each length of a sequence, (B, L) of booleans.

    ``order`` puts the places of a permuted sequence back, (L,) for each length. ``rest``: what has no axis of tokens is
    to stand still too.
    """

    at: dict[int, Tensor]
    order: dict[int, Tensor] = field(default_factory=dict)
    rest: bool = False

    def of(self, x: Tensor) -> Tensor | None:
        """The protected places of a tensor, (n, …); None where it has no axis of tokens."""
        for axis in (1, 2, 0):
            if axis >= x.dim():
                continue
            mask = self.at.get(x.shape[axis])
            if mask is None:
                continue
            B = mask.shape[0]
            if axis == 0:  # (L, B, …), or (L,) and (L, D), the same for every row
                x = x.transpose(0, 1) if x.dim() > 1 and x.shape[1] == B else x.unsqueeze(0)
            elif axis == 2:
                x = x.transpose(1, 2)
            if x.shape[0] not in (1, B):
                continue
            if (order := self.order.get(mask.shape[1])) is not None:
                x = x[:, order.to(x.device)]
            return x.expand(B, *x.shape[1:])[mask.to(x.device)].detach().clone()
        return x.detach().clone() if self.rest else None


@dataclass(frozen=True)
class Sequences:
    """Of the kept places those of tensors that are plainly a sequence, (B, L, D), (B, 1, L, D) or (L, B, D), and no
    weights over one."""

    kept: Kept

    def of(self, x: Tensor) -> Tensor | None:
        if x.dim() == 4 and x.shape[1] == 1:
            x = x.squeeze(1)
        if x.dim() != 3 or not x.is_floating_point():
            return None
        first = self.kept.at.get(x.shape[0])
        along = x.shape[1] in self.kept.at or (first is not None and first.shape[0] == x.shape[1])
        return self.kept.of(x) if along else None


class Everywhere:
    """All places of every tensor."""

    def of(self, x: Tensor) -> Tensor | None:
        return x.detach().clone()


Places = Kept | Sequences | Everywhere
Run = Callable[[], Any]
Tensors = dict[str, Tensor]  # the protected places of each tensor that has some, by the way to it
Record = list[tuple[str, Tensors, Tensors]]


def locate(model: nn.Module, one: Run, other: Run, kept: tuple[Kept, Kept]) -> Place:
    """The module where protected places begin to differ between two runs of the model.

    Every submodule's inputs and outputs are recorded at the protected places: in the first run, in the first run with
    every weight moved by its last bit (the noise of each module), and in the other run. Of the modules whose inputs
    stand still and whose outputs move, the innermost that finishes first is named; the model itself where none does.
    """
    try:
        base = record(model, one, kept[0])
        with last_bits(model):
            shaken = record(model, one, kept[0])
        moved = record(model, other, kept[1])
    except CouldNotRun:
        return place_of(model, "")
    return first_moved(model, base, shaken, moved)


def first_moved(model: nn.Module, base: Record, shaken: Record, moved: Record) -> Place:
    """The first module whose inputs are the same in the first and third record, and whose outputs are not, beyond
    what the second, shaken one moves."""
    first, noisy, second = (_by_call(one) for one in (base, shaken, moved))
    for key, (ins, outs) in first.items():
        if key not in second or key not in noisy:
            continue
        still = _worst(ins, noisy[key][0], second[key][0])
        loose = _worst(outs, noisy[key][1], second[key][1])
        if still[0] <= still[1] * REAL and loose[0] > loose[1] * REAL:
            return place_of(model, key[0], *loose)
    return place_of(model, "")


def stood_still(model: nn.Module, one: Run, other: Run, kept: Kept) -> bool:
    """Whether the kept places of a sequence are seen to go into or come out of a module, and never differ.

    What embeds them is no witness: it mixes no places. False where nobody was seen to touch the sequence.
    """
    try:
        base = record(model, one, Sequences(kept))
        with last_bits(model):
            shaken = record(model, one, Sequences(kept))
        moved = record(model, other, Sequences(kept))
    except CouldNotRun:
        return False
    first, noisy, second = (_by_call(each) for each in (base, shaken, moved))
    seen = False
    for key in first.keys() & noisy.keys() & second.keys():
        if isinstance(model.get_submodule(key[0]), nn.Embedding):
            continue
        for some in zip(first[key], noisy[key], second[key], strict=True):
            seen = seen or bool(some[0])
            change, noise = _worst(*some)
            if change > noise * REAL:
                return False
    return seen


def _by_call(record: Record) -> dict[tuple[str, int], tuple[Tensors, Tensors]]:
    """The record by module and how often it had run before."""
    times: dict[str, int] = {}
    calls = {}
    for name, ins, outs in record:
        calls[name, times.get(name, 0)] = (ins, outs)
        times[name] = times.get(name, 0) + 1
    return calls


def place_of(model: nn.Module, path: str, change: float = 0.0, noise: float = 0.0) -> Place:
    """The module at a path, with the file and line of its forward."""
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return Place(path, "", change, noise)
    return Place(path, source_of(type(module).forward), change, noise)


def source_of(what: Callable[..., Any] | type) -> str:
    """``file:line``, the file as it is seen from the working directory where it lies below it; empty where unknown."""
    what = inspect.unwrap(what)
    try:
        file, line = inspect.getsourcefile(what), inspect.getsourcelines(what)[1]
    except (OSError, TypeError):
        return ""
    if not file:
        return ""
    near = os.path.relpath(file)
    return f"{file if near.startswith('..') else near}:{line}"


def record(model: nn.Module, run: Run, kept: Places) -> Record:
    """Every submodule's inputs and outputs at the protected places, in the order in which the modules finish."""
    found: Record = []
    handles = []
    for name, module in model.named_modules():
        went_in: list[Tensors] = []

        def before(_: nn.Module, args: Any, kwargs: Any, stack: list[Tensors] = went_in) -> None:
            stack.append(_taken(kept, [*args, kwargs]))

        def after(_: nn.Module, args: Any, kwargs: Any, out: Any, name: str = name, stack: Any = went_in) -> None:
            found.append((name, stack.pop(), _taken(kept, _opened(out))))

        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after, with_kwargs=True))
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return found


def _taken(kept: Places, found: Any) -> Tensors:
    taken = ((path, kept.of(x)) for path, x in named_tensors(found))
    return {path: x for path, x in taken if x is not None}


def _opened(out: Any) -> Any:
    """An output object as its fields."""
    return out if isinstance(out, Tensor | tuple | list | dict) or not hasattr(out, "__dict__") else vars(out)


def _worst(base: Tensors, shaken: Tensors, moved: Tensors) -> tuple[float, float]:
    """The largest change among the tensors, and the noise beside it; what cannot be compared stands still."""
    worst = (0.0, 0.0)
    for path, one in base.items():
        noisy, other = shaken.get(path), moved.get(path)
        if noisy is None or other is None or not one.shape == other.shape == noisy.shape or not one.numel():
            continue
        change, noise = float(difference(one, other).max()), float(difference(one, noisy).max())
        if one.is_floating_point():
            noise = max(noise, 4 * torch.finfo(one.dtype).eps * float(one.double().abs().nan_to_num(0, 0, 0).max()))
        if change > noise * REAL and change - noise * REAL > worst[0] - worst[1] * REAL:
            worst = (change, noise)
    return worst
