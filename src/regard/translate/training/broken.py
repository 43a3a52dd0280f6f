"""The first number that is not finite: which parameter, activation or gradient has it, and in which batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["NotFinite", "bad_parameter", "find"]


class NotFinite(ArithmeticError):
    """An update that was not made: ``what`` is the first bad tensor, ``batch`` the number of the update's batch that
    shows it (None: the weights were bad before any), among those of process ``rank``."""

    def __init__(self, what: str, batch: int | None, rank: int = 0) -> None:
        super().__init__(what)
        self.what, self.batch, self.rank = what, batch, rank


def bad_parameter(model: nn.Module) -> str | None:
    """The first parameter or buffer that is not finite, by name and place; None where all are."""
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if not bool(torch.isfinite(tensor).all()):
                return f"the {kind} {_placed(name, tensor.detach())}"
    return None


def find(model: nn.Module, losses: Sequence[Callable[[], Tensor]]) -> NotFinite:
    """Computes each loss again, and its gradient, watching every module and every parameter; the first that is bad.

    ``losses`` must draw what they drew when the update failed: their caller sets the random numbers back.
    """
    found = bad_parameter(model)
    if found is not None:
        return NotFinite(found, None)
    model.zero_grad(set_to_none=True)
    for number, loss in enumerate(losses):
        seen: list[str] = []
        with ExitStack() as hooks:
            hooks.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # what is known to be broken needs no warning
            for hook in _watch(model, seen):
                hooks.callback(hook.remove)
            try:
                value = loss()
            except Exception:  # a part that refuses what is not finite: it was seen coming
                if not seen:
                    raise
            if not seen and not bool(torch.isfinite(value)):
                seen.append(f"the loss, {float(value.detach())}, of activations that are all finite")
            if not seen:
                value.backward()
        if seen:
            return NotFinite(seen[0], number)
    sizes = {name: float(p.grad.abs().max()) for name, p in model.named_parameters() if p.grad is not None}
    largest = max(sizes, key=lambda name: sizes[name])
    return NotFinite(f"the norm of the gradient, whose largest number is {sizes[largest]:.3g}, of {largest}", None)


def _watch(model: nn.Module, seen: list[str]) -> Iterator[Any]:
    """Hooks that note what is not finite, in the order in which it comes about: forward, then backward."""
    for name, module in model.named_modules():
        if name:
            yield module.register_forward_pre_hook(partial(_enters, name, seen))
            yield module.register_forward_hook(partial(_leaves, name, seen))
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield parameter.register_post_accumulate_grad_hook(partial(_learns, name, seen))


def _enters(name: str, seen: list[str], module: nn.Module, given: Any) -> None:
    if not seen:
        seen.extend(f"the activation that enters {_placed(name, bad)}" for bad in _bad(given))


def _leaves(name: str, seen: list[str], module: nn.Module, given: Any, got: Any) -> None:
    if not seen:
        seen.extend(f"the activation {_placed(name, bad)}" for bad in _bad(got))


def _learns(name: str, seen: list[str], parameter: Tensor) -> None:
    if not seen and parameter.grad is not None:
        seen.extend(f"the gradient of {_placed(name, bad)}" for bad in _bad(parameter.grad))


def _bad(value: Any) -> Iterator[Tensor]:
    """The tensors in a value that are not finite."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            yield value.detach()
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _bad(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from _bad(getattr(value, each.name))


def _placed(name: str, tensor: Tensor) -> str:
    """The name, with the place of the first bad number, the number, and how many there are."""
    bad = ~torch.isfinite(tensor)
    place = bad.nonzero()[0].tolist()
    number, count = float(tensor[tuple(place)]), int(bad.sum())
    return f"{name} ({number} at {place}, {count:,} of {tensor.numel():,} not finite)"
