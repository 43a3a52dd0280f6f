"""A causal read of sums over features: products inside chunks, and the sums before each.

Sums are kept divided by e^top, top (B, G, F) the largest logarithm each feature of a key has had. So the largest
term of every sum is 1: nothing overflows, and no denominator is lost. Inside a chunk the same is done with what is
known at its first key, never with a later one: a row does not depend on what comes after it, not even in its rounding.
Should the keys of a chunk grow by more than a number can hold from there, it is halved.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.linear.features import FeatureMap
from regard.numerics import finite

Sums = tuple[Tensor, Tensor, Tensor]
"""Σ φ(k) vᵀ e^{−top} (B, G, F, E), Σ φ(k) e^{−top} (B, G, F), and top (B, G, F)."""

Given = tuple[Tensor, Tensor, Tensor, "Tensor | None"]
"""log φ(q) (B, H, T, F), log φ(k) (B, G, T, F), v (B, G, T, E), and which are there, (B, 1, T)."""


def added(state: Sums, a: Tensor, v: Tensor) -> Sums:
    """The sums with the pairs of log φ(k) = a (B, G, T, F), −∞ where there is none, and v."""
    sums, total, before = state
    top = torch.maximum(before, a.detach().amax(2))
    near = finite(top)
    old, new = torch.exp(before - near), torch.exp(a - near.unsqueeze(2))
    return sums * old.unsqueeze(-1) + new.mT @ v, total * old + new.sum(2), top


def asked(state: Sums, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Σ φ(q)·φ(k) v, Σ φ(q)·φ(k), both divided by e^c, and c, for log φ(q) = b (B, G, R, F)."""
    sums, total, top = state
    phi, c = lifted(b + finite(top).unsqueeze(2))
    return phi @ sums, (phi @ total.unsqueeze(-1)).squeeze(-1), c


def lifted(b: Tensor) -> tuple[Tensor, Tensor]:
    """e^{b − c} and c (…), the largest b of each row: any factor of a query's features leaves its read alone."""
    c = finite(b.detach().amax(-1, keepdim=True))
    return torch.exp(b - c), c.squeeze(-1)


def causal(state: Sums, given: Given, size: int) -> tuple[tuple[Tensor, Tensor, Tensor], Sums]:
    """Numerators, denominators and c of T queries, each after its own pair, and the sums after all; in chunks."""
    b, a, v, valid = given
    T = a.shape[2]
    size = min(size, T)
    whole = T - T % size
    if whole < T:  # the chunk at the end is shorter
        return _in_two(state, given, whole, size)
    n, lead = T // size, a.shape[:2]
    a, v = a.reshape(*lead, n, size, -1), v.reshape(*lead, n, size, -1)
    there = None if valid is None else valid.view(valid.shape[0], 1, n, size)
    with torch.no_grad():
        before, shift, after, growth = _shifts(state[2], a, there)
    if size > 1 and growth > 0.7 * math.log(torch.finfo(a.dtype).max):
        return _in_two(state, given, n // 2 * size if n > 1 else size // 2, size)
    new = torch.exp(a - shift.unsqueeze(3))  # (B, G, n, C, F)
    b = b.reshape(*lead, -1, n, size, b.shape[-1]).transpose(2, 3).reshape(*lead, n, -1, b.shape[-1])
    phi, c = lifted(b + shift.unsqueeze(3))  # (B, G, n, R·C, F)
    pairs = phi @ new.mT
    pairs = pairs.view(*lead, n, -1, size, size).tril().view_as(pairs)
    kept, carried, last = _chunks((state[0], state[1]), (before, shift, after), new.mT @ v, new.sum(3))
    num = pairs @ v + phi @ kept
    den = pairs.sum(-1) + (phi @ carried.unsqueeze(-1)).squeeze(-1)
    found = tuple(_in_order(x, size) for x in (num, den.unsqueeze(-1), c.unsqueeze(-1)))
    return (found[0], found[1].squeeze(-1), found[2].squeeze(-1)), (*last, after[:, :, -1])


def _shifts(top: Tensor, a: Tensor, there: Tensor | None) -> tuple[Tensor, Tensor, Tensor, float]:
    """Tops before, at the first key of, and after each chunk (B, G, n, F); by how much its keys rise over its first."""
    tops = a.amax(3)
    seen = torch.cat([top.unsqueeze(2), tops], 2).cummax(2).values
    before, after = seen[:, :, :-1], seen[:, :, 1:]
    if there is None:
        first = a[:, :, :, 0]
    else:
        at = there.to(torch.uint8).argmax(-1)[..., None, None].expand(*a.shape[:3], 1, a.shape[-1])
        first = a.gather(3, at).squeeze(3)
    shift = finite(torch.maximum(before, first))
    return before, shift, after, float((tops - shift).max())


def _chunks(
    state: tuple[Tensor, Tensor], tops: tuple[Tensor, Tensor, Tensor], sums: Tensor, total: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """The sums before each chunk, divided as the chunk's own are, and those after the last."""
    before, shift, after = tops
    into, out = torch.exp(before - shift), torch.exp(shift - finite(after))
    kept, carried = [], []
    s, z = state
    for n in range(sums.shape[2]):
        s, z = s * into[:, :, n].unsqueeze(-1), z * into[:, :, n]
        kept.append(s)
        carried.append(z)
        s, z = (s + sums[:, :, n]) * out[:, :, n].unsqueeze(-1), (z + total[:, :, n]) * out[:, :, n]
    return torch.stack(kept, 2), torch.stack(carried, 2), (s, z)


def _in_order(x: Tensor, size: int) -> Tensor:
    """(B, G, n, R·C, ·) as (B, H, T, ·)."""
    B, G, n, _, E = x.shape
    return x.view(B, G, n, -1, size, E).transpose(2, 3).reshape(B, -1, n * size, E)


def _in_two(state: Sums, given: Given, at: int, size: int) -> tuple[tuple[Tensor, Tensor, Tensor], Sums]:
    parts = []
    for here in (slice(at), slice(at, None)):
        b, a, v, valid = given
        cut = (b[:, :, here], a[:, :, here], v[:, :, here], None if valid is None else valid[:, :, here])
        found, state = causal(state, cut, size)
        parts.append(found)
    (n0, d0, c0), (n1, d1, c1) = parts
    return (torch.cat([n0, n1], 2), torch.cat([d0, d1], 2), torch.cat([c0, c1], 2)), state


def averaged(who: str, num: Tensor, den: Tensor, c: Tensor, there: Tensor | None) -> tuple[Tensor, Tensor]:
    """The read num/den and its lse = log den + c; 0 and −∞ where ``there`` is False: nothing was there to see."""
    if there is not None and bool(there.all()):
        there = None
    lost = den == 0 if there is None else (den == 0) & there
    refused(who, lost)
    if there is None:
        return num / den.unsqueeze(-1), den.log() + c
    den = torch.where(there, den, 1.0)
    return num / den.unsqueeze(-1) * there.unsqueeze(-1), torch.where(there, den.log() + c, -math.inf)


def refused(who: str, lost: Tensor) -> None:
    """Raises where a query lost all keys."""
    if bool(lost.any()):
        raise RegardError(
            f"{who}: {int(lost.sum())} queries share no feature with any key, so that their weights are 0/0; use "
            "features that are above 0 everywhere, such as EluPlusOne() or SquaredReLU(floor=0.1)"
        )


def log_features(features: FeatureMap, k: Tensor, valid: Tensor | None) -> Tensor:
    """log φ(k) (B, G, L, F), −∞ for the keys that are not there."""
    a = features.log(k)
    return a if valid is None else torch.where(valid[:, None, :, None], a, -math.inf)
