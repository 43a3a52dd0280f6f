"""Attention written out: a product of queries and keys, a softmax, and a product with the values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from regard.doctor.watch.call import Call
from regard.doctor.watch.parts import Above, Held
from regard.doctor.watch.place import Place
from regard.doctor.watch.steps import added
from regard.doctor.watch.trail import Masked, Projected, Scores, Tag, Trail, Weights
from regard.normalize import Softmax

PRODUCTS = frozenset({"matmul", "bmm", "__matmul__", "__rmatmul__", "baddbmm", "baddbmm_", "einsum"})
SOFTMAXES = frozenset({"softmax", "special_softmax", "_softmax"})
LINEAR = frozenset({"linear", "addmm"})


class WrongAxis(Exception):
    """The softmax ran over an axis that the product with the values does not sum over."""

    def __init__(self, weights: Weights, length: int, wanted: int) -> None:
        super().__init__(f"softmax over an axis of {length}, the values are summed over one of {wanted}")
        self.weights, self.length, self.wanted = weights, length, wanted


@dataclass(frozen=True)
class Product:
    """A product of two tensors as letters: which of each are summed over, and where the result has the others."""

    a: Tensor
    b: Tensor
    left: str
    right: str
    out: str
    bias: Tensor | None = None
    beta: float = 1.0
    alpha: float = 1.0

    @property
    def summed(self) -> str:
        return "".join(x for x in self.left if x in self.right and x not in self.out)


def product(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Product | None:
    """The two tensors of a product, with a letter for each axis; None for what is no product of two."""
    bias, beta, alpha = None, 1.0, 1.0
    if name == "einsum":
        return _einsum(args)
    if name.startswith("baddbmm"):
        bias, args = args[0], args[1:]
        beta, alpha = float(kwargs.get("beta", 1)), float(kwargs.get("alpha", 1))
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    if len(tensors) != 2 or min(x.dim() for x in tensors) < 2:
        return None
    a, b = tensors if name != "__rmatmul__" else tensors[::-1]
    dims = max(a.dim(), b.dim())
    lead = "abcdefgh"[: dims - 2]
    return Product(
        a, b, lead[dims - a.dim() :] + "lx", lead[dims - b.dim() :] + "xr", lead + "lr", bias, beta, alpha
    )  # fmt: skip


def _einsum(args: tuple[Any, ...]) -> Product | None:
    tensors = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    if not isinstance(args[0], str) or len(tensors) != 2 or "." in args[0] or "->" not in args[0]:
        return None
    inputs, out = args[0].replace(" ", "").split("->")
    left, right = inputs.split(",")
    a, b = tensors
    return Product(a, b, left, right, out) if len(left) == a.dim() and len(right) == b.dim() else None


def learnt(x: Tensor) -> bool:
    """A weight, or a view of one."""
    return isinstance(x, nn.Parameter) or isinstance(getattr(x, "_base", None), nn.Parameter)


def linear_tag(name: str, args: tuple[Any, ...], out: Tensor) -> Projected | None:
    if name == "addmm" and not (len(args) > 2 and learnt(args[2])):
        return None
    return Projected(tuple(out.shape[:-1]), out.shape[-1])


def scores_tag(p: Product, trail: Trail) -> Tag | None:
    """What a product of two computed tensors is: scores, if a softmax comes. With a weight it is a projection."""
    if learnt(p.a) or learnt(p.b):
        out = p.a.shape[:-1]
        return Projected(tuple(out), p.b.shape[-1]) if p.out.endswith("lr") and learnt(p.b) else None
    own, other = [x for x in p.out if x not in p.right], [x for x in p.out if x not in p.left]
    if len(own) != 1 or len(other) != 1:
        return None
    of_q, of_k = (tag if isinstance(tag, Projected) else None for tag in (trail[p.a], trail[p.b]))
    n, width = len(p.out), p.summed
    if len(width) != 1:
        return None
    q = _ordered(p.a, p.left, [*(x for x in p.out if x in p.left and x != own[0]), own[0], width])
    k = _ordered(p.b, p.right, [*(x for x in p.out if x in p.right and x != other[0]), other[0], width])
    made = Scores(q, k, of_q, of_k, p.out.index(own[0]) - n, p.out.index(other[0]) - n)
    made = replace(made, asked=tuple(p.a.shape), query_axis=p.left.index(own[0]))
    if p.alpha != 1:
        made = replace(made, factors=(p.alpha,))
    return made.then(added(p.bias, p.beta)) if p.bias is not None and p.beta != 0 else made


def _ordered(x: Tensor, letters: str, wanted: list[str]) -> Tensor:
    return x.detach().permute(*(letters.index(letter) for letter in wanted))


def softmax_tag(x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any], tag: Tag | None, place: Place) -> Weights:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if dim is None:
        dim = 0 if x.dim() in (0, 1, 3) else 1  # what F.softmax takes when nobody says
    axis = int(dim) % x.dim() - x.dim()
    of = tag if isinstance(tag, Scores) else None
    fills = tag.fills if isinstance(tag, Scores | Masked) else ()
    return Weights(x.detach(), of, axis, place, axis, fills)


def read_call(p: Product, tag: Weights, weights_left: bool, out: Tensor, heads: int | None) -> Call | None:
    """The call that a product of weights and values completes; None where it isn't one."""
    mine, theirs = (p.left, p.right) if weights_left else (p.right, p.left)
    v = p.b if weights_left else p.a
    summed = p.summed
    if len(summed) != 1:
        return None
    contracted = mine.index(summed) - len(mine)
    w = p.a if weights_left else p.b
    if tag.dim != contracted and not tag.rescaled:
        raise WrongAxis(tag, w.shape[tag.dim] if -tag.dim <= w.dim() else 0, w.shape[contracted])
    if tag.dim != contracted:
        return None  # normalised over the keys by hand after it, as slot attention does
    x, sink = _without_sink(tag, v.shape[theirs.index(summed)])
    if x is None:
        return None
    of = tag.of
    key = tag.key_axis
    query = (of.query if key == of.key else of.key) if of is not None and not of.changed else (-2 if key == -1 else -1)
    held = _four(x, query, key, _heads(of, x, heads))
    B, H, L, S = held.shape
    column = None if sink is None else _four(sink, query, key, _heads(of, x, heads))
    folded = _values(v, theirs, summed, mine, B, H, S)
    return Call(
        "softmax",
        held.new_zeros(B, H, L, 1),
        held.new_zeros(B, folded.shape[1], S, 1),
        folded,
        score=Held(held, column),
        normalize="softmax" if column is None else Softmax(sink=0.0),
        mask=Above(held),
        place=tag.place,
        output=out,
        dropout=tag.dropout,
        factors=() if of is None else factors(of),
        fills=tag.fills,
        after=tag.after,
        expanded=_expanded(of, folded, B, H),
        heads=H > 1,
        of_q=None if of is None else of.of_q,
        of_k=None if of is None else of.of_k,
        **_known(of),
    )


def _known(of: Scores | None) -> dict[str, Any]:
    """What the product says of widths and scales, where it was seen."""
    if of is None:
        return {}
    return {
        "queries_keys": (of.q, of.k),
        "width": of.q.shape[-1],
        "asked": of.asked,
        "query_axis": of.query_axis,
        "after_product": of.factors,
        "factors_known": of.of_q is not None and of.of_k is not None and not of.changed,
    }


def factors(of: Scores) -> tuple[float, ...]:
    parts = [tag.factors for tag in (of.of_q, of.of_k) if tag is not None]
    return (*of.factors, *(x for part in parts for x in part))


def _without_sink(tag: Weights, S: int) -> tuple[Tensor | None, Tensor | None]:
    x, key = tag.scores, tag.key_axis
    if x.shape[key] == S:
        return x, None
    if x.shape[key] == S + 1 and tag.cut:
        return x.narrow(key, 0, S), x.narrow(key, S, 1)
    return None, None


def _heads(of: Scores | None, x: Tensor, hint: int | None) -> int | None:
    """H where three axes are (B·H, L, S): as the module says, or as the batch of the projection tells."""
    if x.dim() != 3:
        return None
    if hint is not None and x.shape[0] % hint == 0:
        return hint
    tag = None if of is None else of.of_q
    if tag is not None and tag.split and len(tag.frame) == 2 and x.shape[0] % tag.frame[0] == 0:
        return x.shape[0] // tag.frame[0]
    return None


def _four(x: Tensor, query: int, key: int, heads: int | None) -> Tensor:
    """(B, H, L, S), queries and keys at the end, whatever order they had."""
    rest = [n for n in range(x.dim()) if n not in (query % x.dim(), key % x.dim())]
    x = x.permute(*rest, query % x.dim(), key % x.dim())
    if x.dim() == 2:
        return x[None, None]
    if x.dim() == 3:
        split: Tensor = x.unsqueeze(1) if heads is None else x.unflatten(0, (-1, heads))
        return split
    folded: Tensor = x.flatten(1, x.dim() - 3)  # of more than one axis before heads, all but the first are heads
    return folded


def _values(v: Tensor, letters: str, summed: str, mine: str, B: int, H: int, S: int) -> Tensor:
    """v as (B, G, S, E), or ones where its axes can't be told apart: only whether it is 0 is asked of it."""
    v = v.detach()
    rest = [x for x in letters if x in mine and x != summed]
    own = [x for x in letters if x not in mine]
    if len(own) == 1 and 1 <= len(rest) <= 2:
        v = v.permute(*(letters.index(x) for x in (*rest, summed, *own)))
        if v.dim() == 4 and v.shape[1] in (1, H) and v.shape[0] in (1, B):
            return v.expand(B, -1, -1, -1)
        if v.dim() == 3 and v.shape[0] == B * H:
            return v.reshape(B, H, *v.shape[1:])
    return v.new_ones(B, 1, S, 1)


def _expanded(of: Scores | None, v: Tensor, B: int, H: int) -> tuple[Tensor, Tensor] | None:
    """k and v as the products had them, where they had a head for each query head."""
    if of is None or H < 2 or v.shape[1] != H:
        return None
    k = of.k
    if k.dim() == 3 and k.shape[0] == B * H:
        k = k.unflatten(0, (B, H))
    return (k, v) if k.dim() == 4 and k.shape[:2] == (B, H) else None
