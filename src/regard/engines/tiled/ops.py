"""The softmax family as a PyTorch operator, with fakes and gradients, so that the compiler and autograd know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError

#: What a read is asked to measure, as bits of one number.
ENTROPY, PEAK, DISTANCE, MOMENTS = 1, 2, 4, 8

_Found = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def operator(name: str, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """``run`` as torch.ops.regard.name, known to the compiler by ``fake``.

    ``torch.library.custom_op`` does the same and imports the compiler for it, which takes a second at the first call.
    """
    known = f"regard::{name}"
    torch.library.define(known, torch.library.infer_schema(run, mutates_args=()), tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(known, "CPU", run)
    torch.library.register_fake(known, fake)
    return getattr(torch.ops.regard, name).default


def _softmax(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    energy: Tensor | None,
    table: Tensor | None,
    row: Tensor | None,
    lo: Tensor,
    hi: Tensor,
    allowed: Tensor | None,
    tags: Tensor,
    numbers: Tensor,
    steps: list[int],
    kind: int,
    scale: float,
    rate: float,
    seed: int,
    shift: int,
    first: int,
    want: int,
    tile: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """output, lse, entropy, peak, its place, distance, mass, and (B, H, 3) count, mean and spread of the scores.

    What ``want`` does not ask for has size 0. The arguments are those of recipe.Recipe, sight.Sight and softmax.Values.
    """
    from regard.engines.tiled import calls, softmax
    from regard.engines.tiled.loops import merge_moments
    from regard.kernels.workers import cut, share

    found = _empty(q, v, tags, want)
    B, H, L, _ = q.shape
    R, C = tile
    sc, held = calls.scores_of(q, k, kind, scale, energy, table, row, numbers, steps, seed)
    sight, more = calls.sight_of(lo, hi, allowed, first, L)
    va, values = calls.values_of(v, tags, rate, seed, shift)
    blocks = np.empty((B * H, -(-L // R), 3) if want & MOMENTS else (0, 0, 3))
    out, lse, entropy, peak, at, distance, mass, _ = found
    results = softmax.Found(  # type: ignore[call-arg]
        out.view(B * H, L, -1).numpy(),
        *(calls.flat(x, q, L) for x in (lse, entropy, peak, at, distance)),
        mass.view(-1, B * H, L).numpy(),
        blocks,
    )
    runs = cut(B * H * -(-L // R), B * H * L * k.shape[2] * sc.sizes[5])
    share(softmax.forward, runs, sc, va, sight, results, R, C)
    if want & MOMENTS:
        merge_moments(blocks, found[7].view(B * H, 3).numpy())
    del held, more, values
    return found


def _fake(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> _Found:
    return _empty(q, v, tags=rest[6], want=rest[15])


def _empty(q: Tensor, v: Tensor, tags: Tensor, want: int) -> _Found:
    B, H, L, _ = q.shape

    def measured(bit: int, *shape: int, dtype: torch.dtype = q.dtype) -> Tensor:
        return q.new_empty(shape if want & bit else (0,), dtype=dtype)

    return (
        q.new_empty(B, H, L, v.shape[-1]),
        q.new_empty(B, H, L),
        measured(ENTROPY, B, H, L),
        measured(PEAK, B, H, L),
        measured(PEAK, B, H, L, dtype=torch.int32),
        measured(DISTANCE, B, H, L),
        q.new_empty(tags.shape[0], B, H, L),
        measured(MOMENTS, B, H, 3, dtype=torch.float64),
    )


def _softmax_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    energy: Tensor | None,
    table: Tensor | None,
    row: Tensor | None,
    lo: Tensor,
    hi: Tensor,
    allowed: Tensor | None,
    tags: Tensor,
    numbers: Tensor,
    steps: list[int],
    kind: int,
    scale: float,
    rate: float,
    seed: int,
    shift: int,
    first: int,
    want: int,
    tile: list[int],
    lse: Tensor,
    at: Tensor,
    out: Tensor,
    delta: Tensor,
    by_score: Tensor | None,
    by_distance: Tensor | None,
    by_mass: Tensor | None,
    by_peak: Tensor | None,
    by_moments: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, energy, table, row and v; ``out`` is that of the output, the rest as in softmax.Slopes."""
    from regard.engines.tiled import calls, scores, softmax
    from regard.kernels.workers import cut, share, splits_of

    B, H, L, A = q.shape
    G, S, E = k.shape[1], *v.shape[2:]
    R, C = tile
    sc, held = calls.scores_of(q, k, kind, scale, energy, table, row, numbers, steps, seed)
    sight, more = calls.sight_of(lo, hi, allowed, first, L)
    va, values = calls.values_of(v, tags if by_mass is not None else tags[:0], rate, seed, shift)
    away = calls.rows_apart(out)
    slopes = softmax.Slopes(  # type: ignore[call-arg]
        away.data_ptr(),
        calls.strides(away),
        calls.flat(delta, q, L),
        *(calls.flat(x, q, L) for x in (by_score, by_distance)),
        calls.array(q.new_empty(0, B * H, L) if by_mass is None else by_mass.reshape(-1, B * H, L)),
        calls.flat(by_peak, q, L),
        calls.flat(at, q, L),
        calls.array(q.new_empty(0, 2) if by_moments is None else by_moments.reshape(B * H, 2)),
    )
    splits = splits_of(B * G, -(-L // R))
    units, width = B * G * splits, sc.sizes[5]
    pulled, grads = calls.pulled_like(sc, q, splits, units)
    dv = q.new_zeros(splits, B * G, S, E)
    runs = cut(units, 3 * B * H * L * S * width)
    caps = sum(code == scores.CAP for code in steps[::4])
    share(softmax.backward, runs, sc, va, sight, calls.flat(lse, q, L), slopes, pulled, dv.numpy(), caps, splits, R, C)
    del held, more, values, away
    dq, dk, denergy, dtable, drow = calls.pulled_back(sc, grads, A, energy)
    return dq, dk, denergy, dtable, drow, calls.together(dv).view(B, G, S, E)


def _fake_backward(
    q: Tensor, k: Tensor, v: Tensor, energy: Tensor | None, table: Tensor | None, row: Tensor | None, *rest: Any
) -> Any:
    return tuple(torch.empty_like(x) if x is not None else q.new_empty(0) for x in (q, k, energy, table, row, v))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: _Found) -> None:
    ctx.set_materialize_grads(False)
    ctx.given = [x for x in inputs if not isinstance(x, Tensor)]
    ctx.holes = [isinstance(x, Tensor) for x in inputs]
    ctx.save_for_backward(*(x for x in inputs if isinstance(x, Tensor)), *output)
    ctx.mark_non_differentiable(output[4])


def _back(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = list(ctx.saved_tensors)
    out, lse, entropy, peak, at, distance, mass, moments = saved[-8:]
    tensors, plain = iter(saved[:-8]), iter(ctx.given)
    inputs = [next(tensors) if hole else next(plain) for hole in ctx.holes]
    g_out, g_lse, g_entropy, g_peak, _, g_distance, g_mass, g_moments = grads
    # ds_j = w_j (x_j − Σ w x): Σ w x is known from what forward found, and is one number a row.
    delta = torch.zeros_like(lse) if g_out is None else (g_out * out).sum(-1)
    if g_lse is not None:
        delta = delta - g_lse
    if g_entropy is not None:  # x_j = −g (s_j − Λ), up to what is the same for all j
        delta = delta + g_entropy * entropy
    if g_peak is not None:
        delta = delta + g_peak * peak
    if g_distance is not None:
        delta = delta + g_distance * distance
    if g_mass is not None:
        delta = delta + (g_mass * mass).sum(0)
    by_moments = None
    if g_moments is not None:  # of the mean: 1/n; of the spread: (s − mean) / (n · spread)
        count, mean, spread = moments.unbind(-1)
        count = count.clamp(min=1)
        steep = torch.where(spread > 0, g_moments[..., 2] / (count * torch.where(spread > 0, spread, 1.0)), 0.0)
        by_moments = torch.stack([g_moments[..., 1] / count - steep * mean, steep], -1).to(lse.dtype)
    dq, dk, denergy, dtable, drow, dv = tiled_softmax_backward(
        *inputs,
        lse,
        at,
        torch.zeros_like(out) if g_out is None else g_out,
        delta,
        None if g_entropy is None else -g_entropy,
        g_distance,
        g_mass,
        g_peak,
        by_moments,
    )
    given = [dq, dk, dv, denergy, dtable, drow]
    return *(x if has else None for x, has in zip(given, ctx.holes, strict=False)), *(None for _ in ctx.holes[6:])


def twice(ctx: Any, *grads: Tensor | None) -> None:
    """A gradient of a gradient is refused, because the kernels' would silently be zero."""
    raise RegardError('engine "tiled" has no second derivative; engine="reference" has one')


tiled_softmax = operator("tiled_softmax", _softmax, _fake)
tiled_softmax_backward = operator("tiled_softmax_backward", _softmax_backward, _fake_backward)
torch.library.register_autograd("regard::tiled_softmax", _back, setup_context=_keep)
torch.library.register_autograd("regard::tiled_softmax_backward", twice)
