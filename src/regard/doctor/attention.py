"""Which modules of a stranger's model are attention: by the name of the class, or the name that its owner gave it."""

from __future__ import annotations

import re

from torch import nn

_NAMED_SO = re.compile(r"att(ention|n)|multihead|mha", re.IGNORECASE)


def is_attention(path: str, module: nn.Module) -> bool:
    """A module with parts of its own (a norm beside it has none) that goes by the name."""
    named = _NAMED_SO.search(type(module).__name__) or _NAMED_SO.search(path.rpartition(".")[2])
    return bool(named) and any(module.children())


def attention_modules(model: nn.Module) -> dict[str, nn.Module]:
    """The innermost attention modules by path, in the model's order."""
    found = {path: module for path, module in model.named_modules() if path and is_attention(path, module)}
    return {path: m for path, m in found.items() if not any(other.startswith(f"{path}.") for other in found)}


def attention_of(model: nn.Module, parameter: str) -> str:
    """The path of the innermost attention module that holds the parameter; else that of the parameter's own module."""
    own = parameter.rpartition(".")[0]
    path = own
    while path:
        if is_attention(path, model.get_submodule(path)):
            return path
        path = path.rpartition(".")[0]
    return own
