"""Where a model trains: the processor, or a GPU that PyTorch can use."""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from regard.errors import RegardError, unknown_name

__all__ = ["Device", "device_of", "moved"]

Device = Literal["auto", "cpu", "cuda"]

#: Products in bfloat16 whose kernels oneDNN keeps on a CPU. It would keep 1,024; sentences of every length make new
#: shapes at every update, and memory grows by gigabytes. Only those of the same update are met again.
_KEPT = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128"


def device_of(name: str, precision: str) -> torch.device:
    """The device of that name; ``auto`` is a GPU where there is one.

    Raises:
        RegardError: there is no such device, or it has no bfloat16 when that is asked for.

    >>> device_of("cpu", "bfloat16")
    device(type='cpu')
    """
    if name not in get_args(Device):
        raise unknown_name("device", name, get_args(Device))
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise RegardError("device: found cuda, but PyTorch finds no GPU here; give --device cpu, or auto")
    if name == "cpu" or not there:
        if precision == "bfloat16":
            os.environ.setdefault(*_KEPT)  # read when the first product is made
        return torch.device("cpu")
    if precision == "bfloat16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise RegardError("precision: this GPU has no bfloat16; give --precision float32")
    return torch.device("cuda", torch.cuda.current_device())


def moved(value: Any, device: torch.device | str) -> Any:
    """Tensors in dictionaries, lists, tuples and dataclasses on ``device``; what is there already is not copied."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: moved(each, device) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(moved(each, device) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: moved(getattr(value, each.name), device) for each in fields(value)})
    return value
