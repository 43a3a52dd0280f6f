"""The function mode that sees every call of PyTorch, whatever name it was made by, and hands on what is attention."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from types import FunctionType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard import operator
from regard.doctor.watch import eager, fused, steps
from regard.doctor.watch.call import Call
from regard.doctor.watch.measure import NAMES, asked
from regard.doctor.watch.place import Place
from regard.doctor.watch.trail import Projected, Read, Trail, Weights
from regard.engines import ENGINES
from regard.plan import Composition, choose
from regard.reading import Reading

_MOVED: dict[Any, str] = {torch.Tensor.mT: "mT", torch.Tensor.T: "T", torch.Tensor.mH: "mH", torch.Tensor.H: "H"}


class Sees(Protocol):
    """Who is told."""

    def place(self) -> Place: ...

    def heads_hint(self) -> int | None: ...

    def groups(self, call: Call) -> dict[str, Tensor]: ...

    def aside(self, what: str) -> AbstractContextManager[None]: ...

    def record(self, make: Callable[[], Call], reading: Reading | None = None) -> None: ...

    def wrong_axis(self, wrong: eager.WrongAxis) -> None: ...

    def projects(self, tag: Read, given: Tensor, weight: Tensor | None) -> None: ...

    def slow_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None: ...


class Mode(TorchFunctionMode):
    """Calls go through unchanged; attention is told to ``sees`` after it ran."""

    def __init__(self, sees: Sees) -> None:
        super().__init__()
        self.sees = sees
        self.trail = Trail()
        self._handlers: dict[str, Callable[..., Any]] = {
            "scaled_dot_product_attention": self._sdpa,
            "flex_attention": self._flex,
            "multi_head_attention_forward": self._multi_head,
            "attend": self._attend,
            "read": self._read,
            **dict.fromkeys(eager.LINEAR, self._linear),
            **dict.fromkeys(eager.PRODUCTS, self._product),
            **dict.fromkeys(eager.SOFTMAXES, self._softmax),
        }

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "").split(".")[0]
        if name == "__get__":
            return self._property(func, args)
        if name in self._handlers:
            return self._handlers[name](func, args, kwargs)
        out = func(*args, **kwargs)
        if name in steps.KNOWN and not self._carry(name, args, kwargs, out) and name in steps.MASKING:
            with self.sees.aside(name):
                tag = steps.masked(name, args, kwargs) if isinstance(out, Tensor) and out.is_floating_point() else None
                if tag is not None:
                    self.trail[out] = tag
        return out

    def _property(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """x.mT and its like move axes; the other properties say nothing of what is in a tensor."""
        out = func(*args)
        name = _MOVED.get(getattr(func, "__self__", None))
        if name:
            self._carry("transpose", (args[0], -2, -1), {}, out)
        return out

    def _carry(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> bool:
        """What is known of an argument goes on to the result; False where nothing is known."""
        if not self.trail:
            return False
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        given += [x for group in args[:1] if isinstance(group, list | tuple) for x in group if isinstance(x, Tensor)]
        source, tag = next(((x, found) for x in given if (found := self.trail[x]) is not None), (None, None))
        if source is None or tag is None:
            return False
        target = args[0] if name == "__setitem__" else out
        with self.sees.aside(name):
            for result in target if isinstance(target, list | tuple) else (target,):
                found = steps.carried(name, tag, source, args, kwargs, result) if isinstance(result, Tensor) else None
                if found is not None:
                    self.trail[result] = found
        return True

    def _linear(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        name = func.__name__.split(".")[0]
        place = 1 if name == "addmm" else 0
        source = args[place] if len(args) > place else kwargs.get("input")
        tag = self.trail[source]
        with self.sees.aside(name):
            if isinstance(tag, Read) and isinstance(source, Tensor):
                weight = kwargs.get("weight", args[place + 1] if len(args) > place + 1 else None)
                self.sees.projects(tag, source, weight if name == "linear" or weight is None else weight.mT)
            made = eager.linear_tag(name, args, out)
            if made is not None:
                self.trail[out] = made
        return out

    def _product(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        with self.sees.aside("product"):
            p = eager.product(func.__name__.split(".")[0], args, kwargs)
            if p is None:
                return out
            for mine, left in ((p.a, True), (p.b, False)):
                tag = self.trail[mine]
                if isinstance(tag, Weights):
                    self._complete(p, tag, left, out)
                    return out
            made = eager.scores_tag(p, self.trail)
            if made is not None:
                self.trail[out] = made
        return out

    def _complete(self, p: eager.Product, tag: Weights, left: bool, out: Tensor) -> None:
        """Weights meet values: the softmax was attention."""
        try:
            call = eager.read_call(p, tag, left, out, self.sees.heads_hint())
        except eager.WrongAxis as wrong:
            self.sees.wrong_axis(wrong)
            return
        if call is not None:
            self.sees.record(lambda: call)
            moved = not p.out.endswith("lr")
            self.trail[out] = Read(call, moved=moved)

    def _softmax(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        x = args[0] if args else kwargs.get("input")
        if isinstance(x, Tensor) and isinstance(out, Tensor) and x.dim() > 1 and x.is_floating_point():
            with self.sees.aside("softmax"):
                self.trail[out] = eager.softmax_tag(x, args[:2], kwargs, self.trail[x], self.sees.place())
        return out

    def _multi_head(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function's own body, with this mode on: what it calls is seen as if it were written in the model."""
        body = _body(func)
        if body is None:
            return func(*args, **kwargs)
        self.sees.slow_path(args, kwargs)
        with self:
            return body(*args, **kwargs)

    def _flex(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        place = self.sees.place()
        known = self._known(fused.by_name(fused.FLEX, args, kwargs))

        def make() -> Call:
            call = fused.flex_call(args, kwargs, place)
            return replace(call, output=out[0], **known, factors=(*call.factors, *_factors(known)))

        self.sees.record(make)
        return out

    def _known(self, given: dict[str, Any]) -> dict[str, Any]:
        """What is known of where the queries and keys of a fused call came from."""
        tags = [self.trail[given.get(name)] for name in ("query", "key")]
        of_q, of_k = (tag if isinstance(tag, Projected) else None for tag in tags)
        return {"of_q": of_q, "of_k": of_k, "factors_known": of_q is not None and of_k is not None}

    def _sdpa(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        place, heads = self.sees.place(), self.sees.heads_hint()
        known = self._known(fused.by_name(fused.SDPA, args, kwargs))
        made: list[Call] = []

        def make() -> Call:
            call = fused.sdpa_call(args, kwargs, place, heads)
            made.append(replace(call, output=out, **known, factors=(*call.factors, *_factors(known))))
            return made[0]

        self.sees.record(make)
        if made:
            self.trail[out] = Read(made[0])
        return out

    def _attend(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """On ``tiled`` the statistics come from the same pass; elsewhere from a second one beside it."""
        if func is not operator.attend:
            return func(*args, **kwargs)
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

    def _read(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not operator.read:
            return func(*args, **kwargs)
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


def _factors(known: dict[str, Any]) -> tuple[float, ...]:
    """The numbers that queries and keys were multiplied by before the call."""
    tags = (known["of_q"], known["of_k"])
    return tuple(x for tag in tags if tag is not None for x in tag.factors)


def _with(call: Call, output: Tensor) -> Call:
    return replace(call, output=output)


def _detached(r: Reading) -> Reading:
    values = {one.name: getattr(r, one.name) for one in fields(r)}
    plain: dict[str, Any] = {name: x.detach() for name, x in values.items() if isinstance(x, Tensor)}
    return replace(r, **plain, mass={name: m.detach() for name, m in r.mass.items()})


def _body(func: Callable[..., Any]) -> Callable[..., Any] | None:
    """A function of torch.nn.functional that doesn't ask whether a mode wants it: the mode already has it."""
    if not isinstance(func, FunctionType) or "has_torch_function" not in func.__code__.co_names:
        return None
    known = {**func.__globals__, "has_torch_function": lambda tensors: False}
    body = FunctionType(func.__code__, known, func.__name__, func.__defaults__, func.__closure__)
    body.__kwdefaults__ = func.__kwdefaults__
    return body
