"""Where a call was made: the path of the module that runs, and the line of source outside torch and regard."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

import regard

#: Frames in these folders are machinery; the first frame outside of them is where a person wrote the call.
MACHINERY = tuple(os.path.dirname(os.path.abspath(package.__file__ or "")) + os.sep for package in (torch, regard))


class Place(NamedTuple):
    """The module's path as ``named_modules()`` spells it, the module, whether the whole model trains, file:line."""

    path: str
    module: nn.Module | None
    source: str


class Modules:
    """Which module of a model runs: a stack that pre-hooks push and hooks pop, one a thread."""

    def __init__(self, model: nn.Module) -> None:
        self._running = threading.local()
        self._hooks: list[Any] = []
        self._names = {id(module): name for name, module in model.named_modules()}
        self.model = model

    def attach(self) -> None:
        for module in self.model.modules():
            self._hooks.append(module.register_forward_pre_hook(self._enter, prepend=True))
            self._hooks.append(module.register_forward_hook(self._leave, always_call=True))

    def detach(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._running = threading.local()

    def _enter(self, module: nn.Module, args: Any) -> None:
        if not hasattr(self._running, "stack") or module is self.model:
            self._running.stack = []  # a module that raised may have left itself behind
        self._running.stack.append(module)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        stack = getattr(self._running, "stack", [])
        if module in stack:
            while stack.pop() is not module:
                pass

    def running(self) -> nn.Module | None:
        stack = getattr(self._running, "stack", [])
        return stack[-1] if stack else None

    def outer(self) -> list[nn.Module]:
        """The modules that run, the outermost first."""
        return list(getattr(self._running, "stack", []))

    def here(self) -> Place:
        module = self.running()
        return Place("" if module is None else self._names[id(module)], module, source())


def source() -> str:
    """``file:line`` of the first frame outside torch and regard."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(MACHINERY):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
