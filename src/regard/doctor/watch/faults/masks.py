"""MSK: a mask the wrong way round, added as 0 and 1, a constant for −inf, after the softmax, or hiding everything."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from regard.doctor.finding import Finding
from regard.doctor.watch.call import Fill
from regard.doctor.watch.faults.seen import Seen
from regard.doctor.watch.measure import composition
from regard.doctor.watch.parts import HIDDEN, four_axes, taken
from regard.doctor.watch.steps import added
from regard.engines import Reference
from regard.grid import Grid

#: A mask's constant above this is within reach of real scores.
_SMALL = -1e3
#: The largest number of float16.
_HALF = 65504.0


def mask_findings(seen: Seen) -> Iterator[Finding]:
    call = seen.call
    if call.is_causal and call.given is not None:
        yield seen.finding("MSK006", "scaled_dot_product_attention is given both attn_mask and is_causal=True")
    fills = _fills(seen)
    for fill in fills:
        if fill.how == "add" and fill.zero_one:
            yield seen.finding(
                "MSK002",
                "a mask of 0 and 1 is added to the scores: what it should hide loses at most one unit of score",
            )
    constants = [fill for fill in fills if fill.how != "times" and fill.lowest < 0]
    yield from _constant(seen, constants)
    yield from _kept_high(seen, [fill for fill in fills if fill.how == "fill" and fill.lowest >= 0])
    yield from _multiplied(seen, fills)
    turned = _inverted(seen)
    yield from turned
    if not turned:
        yield from _empty(seen, constants)


def _fills(seen: Seen) -> list[Fill]:
    given = seen.call.given
    if given is None or given.dtype == torch.bool:
        return list(seen.call.fills)
    return [added(given), *seen.call.fills]


def _constant(seen: Seen, constants: list[Fill]) -> Iterator[Finding]:
    finite = [fill for fill in constants if math.isfinite(fill.lowest)]
    if not finite:
        return
    worst = max(finite, key=lambda fill: fill.lowest)
    c = worst.lowest
    m = seen.m
    nothing = (m.seen == 0) & seen.tokens[:, None, :]
    if c <= HIDDEN and bool(nothing.any()):
        share = float(nothing.double().mean())
        yield seen.finding(
            "MSK003",
            f"{share:.0%} of the rows are hidden whole by the constant {c:.3g}, and read the average of every value, "
            "padding and future included",
            constant=c,
            rows=int(nothing.sum()),
        )
        return
    if c > _SMALL and c < 0:
        mass = _hidden_mass(seen, worst)
        message = (
            f"the constant {c:.3g} hides keys only from larger scores; now it leaves them up to {mass:.2g} of a row"
        )
        yield seen.finding("MSK003", message, constant=c, mass=mass)
        if mass > 1e-3:
            message = f"keys hidden by the constant {c:.3g} keep up to {mass:.2%} of a row's weight"
            yield seen.finding("MSK004", message, constant=c, mass=mass)
    elif c > 0.5 * torch.finfo(torch.float16).min:
        message = f"the constant {c:.3g} stands for −inf; a row hidden whole would read as if nothing were hidden"
        yield seen.finding("MSK003", message, "note", constant=c)
    elif 0.5 * torch.finfo(torch.float32).min < c < -_HALF:
        message = f"the constant {c:.3g} stands for −inf, and float16 ends at −65504"
        yield seen.finding("MSK003", message, "note", constant=c)


def _kept_high(seen: Seen, fills: list[Fill]) -> Iterator[Finding]:
    """A number that is not low, put where a mask says: the sign was lost, or 0 was taken for nothing."""
    for fill in fills:
        mass = _hidden_mass(seen, fill)
        if mass > 1e-3:
            message = (
                f"scores that a mask hides are put to {fill.lowest:.3g} and keep up to {mass:.1%} of a row's weight"
            )
            yield seen.finding("MSK004", message, constant=fill.lowest, mass=mass)
            return


def _hidden_mass(seen: Seen, fill: Fill) -> float:
    """The most weight that a row leaves on the keys that ``fill`` hides, over sampled rows that see something."""
    if fill.kept is None:
        return 0.0
    c = composition(seen.call)
    L = c.grid.L
    at = torch.linspace(0, L - 1, min(L, 16), device=c.q.device).long()
    sampled = replace(c, q=c.q[:, :, at], grid=replace(c.grid, i=c.grid.i[:, :, at]))
    w = Reference().weights(sampled)
    kept = four_axes(fill.kept)
    if any(size not in (1, whole) for size, whole in zip(kept.shape, seen.call.shape, strict=True)):
        return 0.0
    kept = taken(kept, sampled.grid).expand(w.shape)
    looks = kept.any(-1) & seen.tokens[:, None, at]
    return float(torch.where(looks, torch.where(kept, 0.0, w).sum(-1), 0.0).max())


def _multiplied(seen: Seen, fills: list[Fill]) -> Iterator[Finding]:
    for n, fill in enumerate(fills):
        hides = fill.how == "times" and fill.values is not None and fill.values.numel() > 1
        mended = any(later.lowest < -5 for later in fills[n + 1 :])
        if hides and not mended and fill.zero_one and fill.values is not None and not bool(fill.values.all()):
            yield seen.finding("MSK004", "scores are multiplied by a mask of 0 and 1: a score of 0 still takes weight")
    if seen.training:
        return
    for fill in seen.call.after:
        if fill.zero_one and fill.sums is not None and fill.sums[0] < 1 - 1e-3:
            yield seen.finding(
                "MSK007",
                f"weights are put to 0 after the softmax: rows then sum to as little as {fill.sums[0]:.3f}",
                least_sum=fill.sums[0],
            )
            return


def _empty(seen: Seen, constants: list[Fill]) -> Iterator[Finding]:
    nothing = seen.m.seen == 0
    if not bool(nothing.any()):
        return
    _, _, L, S = seen.call.shape
    real = nothing & seen.tokens[:, None, :]
    if bool(real.any()) and any(math.isfinite(fill.lowest) for fill in constants):
        return  # told as MSK003
    if bool(real.any()):  # that padding sees nothing is policy
        rows = int(real.any(1).sum())
        policy = seen.call.kind == "regard" or L > S
        yield seen.finding("MSK005", f"{rows} queries may see no key", "note" if policy else None, rows=rows)


def _inverted(seen: Seen) -> list[Finding]:
    if seen.call.mask is None:
        return []
    _, _, L, S = seen.call.shape
    if seen.padding is not None:
        keys = seen.seen_keys.any(1)  # (B|1, S)
        padding = seen.padding
        mixed = padding.any(-1) & ~padding.all(-1)
        tokens, pads = (keys & ~padding).any(-1) & mixed, (keys & padding).any(-1) & mixed
        if bool(mixed.any()) and not bool(tokens.any()) and bool(pads.any()):
            message = "only padding may be seen: every real token is hidden"
            return [seen.finding("MSK001", message, rows=int(mixed.sum()))]
    if L == S > 2 and not seen.crosses and _only_the_future(seen):
        return [
            seen.finding("MSK001", "each query sees what comes after it and nothing else: the triangle is inverted")
        ]
    return []


def _only_the_future(seen: Seen) -> bool:
    """Whether no sampled query sees itself or what came before, and each sees all that comes after it."""
    grid, L = seen.grid, seen.call.shape[2]
    at = torch.linspace(0, L - 1, min(L, 32), device=seen.call.q.device).long()
    assert seen.call.mask is not None
    rows = Grid(grid.b, grid.h, grid.i[:, :, at], grid.j, grid.L, grid.S)
    allowed = seen.call.mask.allows(rows)
    future: Tensor = rows.j > rows.i
    known = torch.ones_like(future)
    if seen.padding is not None:
        known = ~seen.padding[:, None, None, :] & seen.tokens[:, None, at, None]
    return bool((~known | (allowed == future)).all()) and bool((known & future).any())
