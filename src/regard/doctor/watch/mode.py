"""The function mode that sees every call of PyTorch, whatever name it was made by, and hands on what is attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard import operator
from regard.doctor.watch import fused
from regard.doctor.watch.call import Call
from regard.doctor.watch.measure import NAMES, asked
from regard.doctor.watch.place import Place
from regard.engines import ENGINES
from regard.plan import Composition, choose
from regard.reading import Reading


class Sees(Protocol):
    """Who is told."""

    def place(self) -> Place: ...

    def heads_hint(self) -> int | None: ...

    def groups(self, call: Call) -> dict[str, Tensor]: ...

    def record(self, make: Callable[[], Call], reading: Reading | None = None) -> None: ...


class Mode(TorchFunctionMode):
    """Calls go through unchanged; attention is told to ``sees`` after it ran."""

    def __init__(self, sees: Sees) -> None:
        super().__init__()
        self.sees = sees

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "").split(".")[0]
        if name == "scaled_dot_product_attention":
            return self._sdpa(func, args, kwargs)
        if func is operator.attend:
            return self._attend(args, kwargs)
        if func is operator.read:
            return self._read(args, kwargs)
        return func(*args, **kwargs)

    def _sdpa(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        place, heads = self.sees.place(), self.sees.heads_hint()
        self.sees.record(lambda: _with(fused.sdpa_call(args, kwargs, place, heads), out))
        return out

    def _attend(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """On ``tiled`` the statistics come from the same pass; elsewhere from a second one beside it."""
        c, parts, engine = _composed(args, kwargs)
        call = fused.own_call(c, self.sees.place())
        if engine != "tiled":
            out = operator.attend(*args, **kwargs)
            self.sees.record(lambda: _with(call, out))
            return out
        tags, _ = asked(c, self.sees.groups(call))
        r = operator.read(*args[:3], **(parts | {"engine": engine}), telemetry=NAMES, groups=tags)
        self.sees.record(lambda: _with(call, r.output), _detached(r))
        return r.output

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reading:
        c, _, _ = _composed(args, kwargs)
        call = fused.own_call(c, self.sees.place())
        r = operator.read(*args, **kwargs)
        self.sees.record(lambda: _with(call, r.output))
        return r


def _composed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Composition, dict[str, Any], str]:
    """A call of attend or read as a composition, its parts, and the engine that runs it."""
    parts = {name: kwargs[name] for name in ("score", "normalize", "mask", "engine", "dropout")}
    c, _ = operator.composition(*args[:3], *(parts[x] for x in ("score", "normalize", "mask", "dropout")))
    telemetry = "telemetry" in kwargs
    return c, parts, choose(c, ENGINES, parts["engine"], telemetry).engine.name


def _with(call: Call, output: Tensor) -> Call:
    return replace(call, output=output)


def _detached(r: Reading) -> Reading:
    values = {one.name: getattr(r, one.name) for one in fields(r)}
    plain: dict[str, Any] = {name: x.detach() for name, x in values.items() if isinstance(x, Tensor)}
    return replace(r, **plain, mass={name: m.detach() for name, m in r.mass.items()})
