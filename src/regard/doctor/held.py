"""What holds while a model is run, and is put back after it: its mode, its seed, its weights, its dropout."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


@contextlib.contextmanager
def quiet(model: nn.Module, grad: bool = False) -> Iterator[None]:
    """Eval mode, no gradients, no log lines, no warnings; every module's mode is put back."""
    modes = {module: module.training for module in model.modules()}
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        model.eval()
        with warnings.catch_warnings(), torch.set_grad_enabled(grad):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        for module, training in modes.items():
            module.training = training


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The generators that are in use, seeded and then put back. ``torch.manual_seed`` asks every backend there is,
    which takes longer than a small model."""
    used = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        used += torch.cuda.default_generators
    states = [one.get_state() for one in used]
    try:
        for one in used:
            one.manual_seed(seed)
        yield
    finally:
        for one, state in zip(used, states, strict=True):
            one.set_state(state)


@contextlib.contextmanager
def last_bits(model: nn.Module, draw: int = 0) -> Iterator[None]:
    """Every floating parameter moved by one unit in its last place, up or down at random; then put back."""
    source = torch.Generator().manual_seed(draw)
    kept = {p: p.detach().clone() for p in model.parameters() if p.is_floating_point()}
    try:
        with torch.no_grad():
            for p in kept:
                # A sign for each place along each axis, multiplied: as good as one for each weight, and drawn at once.
                by = torch.full((), torch.finfo(p.dtype).eps).to(p)
                for axis, size in enumerate(p.shape):
                    sign = torch.randint(0, 2, (size,), generator=source).to(p) * 2 - 1
                    by = by * sign.reshape(-1, *[1] * (p.dim() - axis - 1))
                p.addcmul_(p, by.expand_as(p))
        yield
    finally:
        with torch.no_grad():
            for p, before in kept.items():
                p.copy_(before)


@contextlib.contextmanager
def training(model: nn.Module) -> Iterator[None]:
    """Training mode, what dropout draws fixed by the seed of each run; buffers that training moves are put back."""
    modes = {module: module.training for module in model.modules()}
    buffers = {buffer: buffer.clone() for buffer in model.buffers()}
    try:
        model.train()
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        with torch.no_grad():
            for buffer, before in buffers.items():
                buffer.copy_(before)


@contextlib.contextmanager
def dropout_configured(model: nn.Module, p: float = 0.5) -> Iterator[None]:
    """Every dropout probability of the model set to ``p``, wherever it is kept; then put back. A default of 0 hides a
    dropout that does not know the mode."""
    kept: list[tuple[Any, str, float]] = []
    holders = list(model.modules())
    configs = {id(c): c for m in holders if (c := getattr(m, "config", None)) is not None and hasattr(c, "__dict__")}
    for holder in [*holders, *configs.values()]:
        for name, value in list(vars(holder).items()):
            is_rate = isinstance(value, float) and 0.0 <= value < 1.0
            named_so = "drop" in name.lower() or (name == "p" and isinstance(holder, nn.modules.dropout._DropoutNd))
            if is_rate and named_so:
                kept.append((holder, name, value))
    try:
        for holder, name, _ in kept:
            object.__setattr__(holder, name, p)  # past a frozen configuration and a module's bookkeeping alike
        yield
    finally:
        for holder, name, value in kept:
            object.__setattr__(holder, name, value)
