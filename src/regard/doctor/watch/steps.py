"""How a tag goes on from one operation to the next: views, moves of axes, numbers multiplied in, masks put on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.doctor.watch.call import Fill
from regard.doctor.watch.trail import Masked, Projected, Read, Scores, Tag, Weights

VIEWS = frozenset(
    {
        "view",
        "reshape",
        "unflatten",
        "flatten",
        "unsqueeze",
        "squeeze",
        "contiguous",
        "clone",
        "detach",
        "to",
        "type",
        "type_as",
        "float",
        "half",
        "bfloat16",
        "double",
        "expand",
        "expand_as",
        "repeat",
        "repeat_interleave",
        "narrow",
        "select",
        "alias",
        "view_as",
        "reshape_as",
        "chunk",
        "split",
        "tensor_split",
        "unbind",
        "__getitem__",
        "roll",
        "flip",
        "cat",
        "concat",
        "stack",
        "neg",
        "__neg__",
        "nan_to_num",
        "clamp",
    }
)
MOVES = frozenset({"transpose", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "transpose_", "rot90"})
TIMES = frozenset({"mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"})
OVER = frozenset({"div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__"})
PLUS = frozenset({"add", "add_", "__add__", "__radd__", "__iadd__", "sub", "sub_", "subtract", "__sub__", "__isub__"})
FILLS = frozenset({"masked_fill", "masked_fill_"})
NORMS = frozenset({"layer_norm", "rms_norm", "normalize", "group_norm"})
KEEPS = frozenset(
    {
        "max",
        "min",
        "tanh",
        "tanh_",
        "maximum",
        "minimum",
        "where",
        "dropout",
        "dropout_",
        "softcap",
        "clamp_",
        "clip",
        "__setitem__",
    }
)
MASKING = FILLS | {"where"}
KNOWN = VIEWS | MOVES | TIMES | OVER | PLUS | FILLS | NORMS | KEEPS

#: A number added to hide keys is at least this low; a bias is not.
_LOW = -5.0


def carried(name: str, tag: Tag, source: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Any:
    """The tag of ``out`` = name(…), ``source`` being the argument that has ``tag``; None where it ends."""
    other = _other(source, args, kwargs)
    if isinstance(tag, Projected):
        return _projected(name, tag, source, other, args, kwargs, out)
    if isinstance(tag, Scores):
        return _scores(name, tag, source, other, args, kwargs, out)
    if isinstance(tag, Masked):
        return _masked(name, tag, args, kwargs)
    if isinstance(tag, Weights):
        return _weights(name, tag, other, args, kwargs, out)
    return _read(name, tag, source, out)


def _projected(
    name: str, tag: Projected, source: Tensor, other: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
) -> Projected | None:
    if name in MOVES:
        at = None if tag.tokens is None else _axis_after(name, tag.tokens, args, kwargs, out.dim())
        return replace(tag, moved=True, tokens=at)
    if name in VIEWS:
        return _viewed(name, tag, source, out)
    number = single(other)
    if name in TIMES or name in OVER:
        if number is not None:
            return replace(tag, factors=(*tag.factors, number if name in TIMES else _inverse(number)))
        column = isinstance(other, Tensor) and other.dim() > 1 and other.shape[-1] == 1 and out.shape[-1] > 1
        return replace(tag, normed=True) if column else tag  # x · rsqrt(mean x²), as a norm by hand
    if name in NORMS:
        return replace(tag, normed=True)
    return tag if name in PLUS or name == "dropout" else None


def _viewed(name: str, tag: Projected, source: Tensor, out: Tensor) -> Projected | None:
    if tag.split:
        same = out.dim() == source.dim() and name not in ("view", "reshape")
        return tag if same else replace(tag, tokens=None)
    if not out.dim():
        return None
    if out.shape[-1] == tag.width:
        return replace(tag, frame=tuple(out.shape[:-1]))
    if out.numel() != math.prod(tag.frame) * tag.width or name in ("chunk", "split"):
        return replace(tag, width=out.shape[-1])  # a part of the width
    whole = len(tag.frame) == 2 and out.dim() == 4 and tuple(out.shape[:2]) == tag.frame
    return replace(tag, split=True, tokens=-3 if whole else None)


def _scores(
    name: str, tag: Scores, source: Tensor, other: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
) -> Scores | None:
    number = single(other)
    if name in ("cat", "concat"):
        return replace(tag, widened=True)
    if name in MOVES:
        return _moved(name, tag, args, kwargs, out)
    if name in VIEWS:
        return tag if out.shape[-2:] == source.shape[-2:] else replace(tag, changed=True)
    if name in TIMES and number is None and isinstance(other, Tensor) and zero_one(other):
        return tag.then(Fill("times", 0.0, True, values=other))
    if name in TIMES or name in OVER:
        if number is None:
            return replace(tag, changed=True)
        return replace(tag, factors=(*tag.factors, number if name in TIMES else _inverse(number)))
    if name in PLUS:
        if not isinstance(other, Tensor) or number is not None:
            return tag
        values = other if "sub" not in name else -other
        return tag.then(added(values, float(kwargs.get("alpha", 1))))
    if name in FILLS:
        where, value = _argument("mask", 1, args, kwargs), single(_argument("value", 2, args, kwargs))
        if value is None or not isinstance(where, Tensor):
            return tag
        return tag.then(Fill("fill", value, kept=~where))
    if name == "where":
        return _where(tag, source, args)
    if name == "__setitem__":
        value = single(args[2]) if len(args) > 2 else None
        return tag if value is None else tag.then(Fill("fill", value))
    return replace(tag, changed=True) if name in KEEPS else None


def _where(tag: Scores, source: Tensor, args: tuple[Any, ...]) -> Scores:
    """torch.where(mask, scores, c), either way round, and scores.where(mask, c)."""
    if len(args) != 3:
        return tag
    if args[0] is source:
        kept, value = args[1], single(args[2])
    else:
        kept = args[0] if args[1] is source else ~args[0]
        value = single(args[2] if args[1] is source else args[1])
    return replace(tag, changed=True) if value is None else tag.then(Fill("fill", value, kept=kept))


def masked(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Masked | None:
    """A tag for numbers without one that a mask was put on; None for anything else."""
    fill = None
    if name in FILLS:
        where, value = _argument("mask", 1, args, kwargs), single(_argument("value", 2, args, kwargs))
        fill = Fill("fill", value, kept=~where) if value is not None and isinstance(where, Tensor) else None
    elif name == "where" and len(args) == 3 and isinstance(args[0], Tensor):
        numbers = [single(x) for x in args[1:]]
        if numbers[0] is None and numbers[1] is not None and args[0].dtype == torch.bool:
            fill = Fill("fill", numbers[1], kept=args[0])
    return None if fill is None else Masked((fill,))


def _masked(name: str, tag: Masked, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Masked | None:
    more = masked(name, args, kwargs)
    if more is not None:
        return Masked((*tag.fills, *more.fills))
    return tag if name in VIEWS or name in KEEPS else None


def _weights(
    name: str, tag: Weights, other: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
) -> Weights | None:
    if name in MOVES:
        return replace(tag, dim=_axis_after(name, tag.dim, args, kwargs, out.dim()))
    if name == "__getitem__":
        return replace(tag, cut=True)
    if name in VIEWS:
        return tag
    if name in ("dropout", "dropout_"):
        p, training = _argument("p", 1, args, kwargs, 0.5), _argument("training", 2, args, kwargs, True)
        return replace(tag, dropout=max(tag.dropout, float(p))) if training else tag
    if name in OVER or name in NORMS:
        return replace(tag, rescaled=True)
    if name in TIMES and isinstance(other, Tensor) and single(other) is None:
        mask = zero_one(other)
        return replace(tag, after=(*tag.after, Fill("times", 0.0, mask, values=other, sums=_sums(out, tag.dim))))
    if name in FILLS and single(_argument("value", 2, args, kwargs)) == 0.0:
        where = _argument("mask", 1, args, kwargs)
        return replace(tag, after=(*tag.after, Fill("fill", 0.0, True, kept=~where, sums=_sums(out, tag.dim))))
    if name == "where":
        return replace(tag, after=(*tag.after, Fill("fill", 0.0, True, sums=_sums(out, tag.dim))))
    return tag if name in TIMES or name in PLUS or name in KEEPS else None


def _read(name: str, tag: Read, source: Tensor, out: Tensor) -> Read | None:
    if name in MOVES:
        return replace(tag, moved=True)
    if name in VIEWS:
        _, H, _, _ = tag.call.shape
        E = tag.call.v.shape[-1]
        return replace(tag, merged=True) if out.shape[-1] == H * E != E else tag
    return tag if name == "dropout" else None


def added(values: Tensor, alpha: float = 1.0) -> Fill:
    """What adding ``values`` to scores does: whether they are 0 and 1, or 0 and one low number that hides."""
    if zero_one(values):
        return Fill("add", 0.0, zero_one=bool(values.any()) and not bool(values.all()), values=values)
    least = float(values.min()) * alpha if values.numel() else 0.0
    if least > _LOW or not bool(((values == 0) | (values < 0.99 * least / alpha)).all() or least < -1e3):
        return Fill("add", 0.0, values=values)  # a bias
    return Fill("add", least, values=values, kept=values > max(0.5 * least / alpha, -5e3))


def zero_one(x: Tensor) -> bool:
    """Whether there are only 0 and 1 in it, as in a mask."""
    if x.dtype == torch.bool:
        return True
    return x.numel() > 1 and bool(((x == 0) | (x == 1)).all())


def single(x: Any) -> float | None:
    """One number, as a number or a tensor of one; None for anything else."""
    if isinstance(x, bool) or x is None:
        return None
    if isinstance(x, int | float):
        return float(x)
    return float(x) if isinstance(x, Tensor) and x.numel() == 1 and x.dim() < 2 else None


def _inverse(x: float) -> float:
    return 1 / x if x else math.inf


def _sums(weights: Tensor, dim: int) -> tuple[float, float]:
    """Least and largest sum of the rows that kept anything."""
    total = weights.sum(dim)
    total = total[total > 1e-3]
    return (float(total.min()), float(total.max())) if total.numel() else (1.0, 1.0)


def _other(source: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operand of two beside ``source``."""
    rest = [x for x in (*args[:2], kwargs.get("other")) if x is not source and x is not None]
    return rest[0] if rest else source


def _argument(name: str, place: int, args: tuple[Any, ...], kwargs: dict[str, Any], default: Any = None) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def _moved(name: str, tag: Scores, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> Scores:
    after: Callable[[int], int] = lambda axis: _axis_after(name, axis, args, kwargs, out.dim())  # noqa: E731
    return replace(tag, query=after(tag.query), key=after(tag.key))


def _axis_after(name: str, axis: int, args: tuple[Any, ...], kwargs: dict[str, Any], dims: int) -> int:
    """Where an axis, counted from the end, is after axes changed places."""
    if -axis > dims:
        return axis
    probe = torch.empty(tuple(range(2, dims + 2)), device="meta")  # every axis of its own length
    moved = getattr(probe, name.rstrip("_"))(*args[1:], **kwargs)
    return int(list(moved.shape).index(probe.shape[axis])) - dims
