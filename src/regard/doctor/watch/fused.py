"""Calls that say what they mean: scaled_dot_product_attention by any name, flex_attention, and regard's own verbs."""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from torch import Tensor

from regard import mask as masks
from regard.doctor.watch.call import Call
from regard.doctor.watch.parts import HIDDEN, Above, Lent, Modified, Modular, Times, four_axes
from regard.doctor.watch.place import Place
from regard.mask import Mask
from regard.plan import Composition
from regard.score import ScaledDot, Score

SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
FLEX = ("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options")


def by_name(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(names, args, strict=False)), **kwargs}


def sdpa_call(args: tuple[Any, ...], kwargs: dict[str, Any], place: Place, heads: int | None = None) -> Call:
    """softmax(c q kᵀ + mask) v; three axes are (N, L, D), N = B·H where the number of heads is known."""
    given = by_name(SDPA, args, kwargs)
    q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    scale, is_causal = given.get("scale"), bool(given.get("is_causal", False))
    q, mask = _unpacked(q, k, mask, place)
    lead, L, S = tuple(q.shape[:-2]), q.shape[-2], k.shape[-2]
    if len(lead) == 2 and k.dim() == 4:  # a batch of one query for all
        lead = (max(q.shape[0], k.shape[0]), lead[1])
    bias: Lent | None = None
    allowed: Mask | None = masks.causal(anchor="start") if is_causal else None
    anchored = _anchored(mask)
    if anchored is not None:
        allowed = masks.causal(anchor=anchored)
    elif mask is not None:
        mask = _over(mask, lead, L, S, heads)
        hides, bias = mask_parts(mask)
        allowed = hides if allowed is None else hides if hides is None else allowed & hides
    score: Score = ScaledDot() if scale is None else Times(float(scale))
    return Call(
        "sdpa",
        _folded(q, lead, heads),
        _folded(k, lead, heads),
        _folded(v, lead, heads),
        score=score if bias is None else score + bias,
        normalize="softmax",
        mask=allowed,
        place=place,
        given=None if anchored is not None else mask,
        is_causal=is_causal or anchored == "start",
        dropout=float(given.get("dropout_p", 0.0)),
        scale=None if scale is None else float(scale),
        factors=(1 / math.sqrt(q.shape[-1]) if scale is None else float(scale),),
        expanded=_expanded(q, k, v),
        heads=len(lead) > 1 or heads is not None,
        queries_keys=(q.detach(), k.detach()),
        width=q.shape[-1],
        asked=tuple(q.shape),
    )


def flex_call(args: tuple[Any, ...], kwargs: dict[str, Any], place: Place) -> Call:
    """The higher-order operator's arguments: score_mod and, last in the block mask, mask_mod."""
    given = by_name(FLEX, args, kwargs)
    q, k, v = given["query"], given["key"], given["value"]
    change, mask_mod = given["score_mod"], given["block_mask"][-1]
    scale = float(given["scale"])
    plain = getattr(change, "__name__", "") == "_identity"
    free = getattr(mask_mod, "__name__", "") == "noop_mask"
    return Call(
        "flex",
        q,
        k,
        v,
        score=Times(scale) if plain else Modified(scale, change),
        normalize="softmax",
        mask=None if free else Modular(mask_mod),
        place=place,
        scale=scale,
        factors=(scale,),
        expanded=_expanded(q, k, v),
        queries_keys=(q.detach(), k.detach()),
        width=q.shape[-1],
        asked=tuple(q.shape),
    )


def own_call(c: Composition, place: Place) -> Call:
    return Call("regard", c.q, c.k, c.v, c.score, c.normalize, c.mask, place, dropout=c.dropout)


def _unpacked(q: Tensor, k: Tensor, mask: Any, place: Place) -> tuple[Tensor, Any]:
    """Hugging Face lays the query heads that share a key head along the queries when decoding: (B, G, H/G, D)."""
    groups = getattr(place.module, "num_key_value_groups", 1)
    heads = getattr(getattr(place.module, "config", None), "num_attention_heads", 0)
    if groups == 1 or q.dim() != 4 or tuple(q.shape[1:3]) != (k.shape[1], groups) or k.shape[1] * groups != heads:
        return q, mask
    if isinstance(mask, Tensor) and mask.dim() == 4 and mask.shape[2] == groups:
        mask = mask[:, :, :1] if mask.shape[1] == 1 else mask.flatten(1, 2).unsqueeze(2)
    return q.flatten(1, 2).unsqueeze(2), mask


def mask_parts(mask: Tensor) -> tuple[Mask | None, Lent | None]:
    """A mask that is added (or booleans, True = may look), (b, h, i, j), as what it hides and what it adds besides."""
    if mask.dtype == torch.bool:
        return masks.dense(mask), None
    hidden, added = False, False
    for start in range(0, mask.shape[2], 512):  # no second matrix
        part = mask[:, :, start : start + 512]
        shows = part > HIDDEN
        hidden = hidden or not bool(shows.all())
        added = added or bool((shows & (part != 0)).any())
    return Above(mask) if hidden else None, Lent(mask) if added else None


def _anchored(mask: Any) -> Any:
    """Which end the triangle of a torch.nn.attention.bias.CausalBias hangs at; None for anything else."""
    known = sys.modules.get("torch.nn.attention.bias")
    if known is None or not isinstance(mask, known.CausalBias):
        return None
    return "start" if mask.variant == known.CausalVariant.UPPER_LEFT else "end"


def _over(mask: Tensor, lead: tuple[int, ...], L: int, S: int, heads: int | None) -> Tensor:
    """A mask that broadcasts from the right to (*lead, L, S), as (b, h, i, j)."""
    mask = mask.detach()
    if len(lead) == 2 or mask.dim() <= 2:
        return four_axes(mask)
    if len(lead) == 1:
        return mask.unsqueeze(1) if heads is None or mask.shape[0] == 1 else mask.unflatten(0, (-1, heads))
    return _folded(mask.expand(*lead, *mask.shape[-2:]), lead, None)


def _folded(x: Tensor, lead: tuple[int, ...], heads: int | None) -> Tensor:
    """(*lead, L, D) as (B, H, L, D)."""
    x = x.detach()
    if x.dim() == 4:
        return x if x.shape[0] == lead[0] else x.expand(lead[0], -1, -1, -1)
    if x.dim() == 2:
        return x[None, None]
    if x.dim() == 3:
        return x.unsqueeze(1) if heads is None else x.unflatten(0, (-1, heads))
    return x.expand(*lead[:-1], *x.shape[-3:]).flatten(0, len(lead) - 2)


def _expanded(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor] | None:
    return (k, v) if q.dim() == 4 and q.shape[1] == k.shape[1] > 1 else None
