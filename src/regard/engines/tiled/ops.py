"""The softmax family as a PyTorch operator, with fakes and gradients, so that the compiler and autograd know it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.engines.tiled.given import DISTANCE, ENTROPY, MOMENTS, PEAK, Given, differentiable, measured, operator

_Found = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _softmax(*given: Any) -> _Found:
    from regard.engines.tiled.chunks import forward

    found: _Found = forward(Given(*given), _read, _empty, (0, 0, 0, 0, 0, 0, 1, 0))
    return found


def _read(g: Given, before: int) -> _Found:
    """output, lse, entropy, peak, its place, distance, mass, and (B, H, 3) count, mean and spread of the scores."""
    from regard.engines.tiled import calls, softmax
    from regard.engines.tiled.loops import merge_moments
    from regard.kernels.workers import cut, share

    B, H, _, L, S, _, _ = g.sizes
    R, C = g.tile
    found, call = _empty(g), calls.Call(g, before)
    blocks = np.empty((B * H, -(-L // R), 3) if g.want & MOMENTS else (0, 0, 3))
    out, lse, entropy, peak, at, distance, mass, moments = found
    results = softmax.Found(  # type: ignore[call-arg]
        out.view(B * H, L, -1).numpy(),
        *(calls.flat(x, g) for x in (lse, entropy, peak, at, distance)),
        mass.view(-1, B * H, L).numpy(),
        blocks,
    )
    runs = cut(B * H * -(-L // R), B * H * L * S * call.scores.sizes[5])
    share(softmax.forward, runs, call.scores, call.values, call.sight, results, R, C)
    if g.want & MOMENTS:
        merge_moments(blocks, moments.view(B * H, 3).numpy())
    return found


def _empty(g: Given) -> _Found:
    B, H, _, L, _, _, E = g.sizes
    return (
        g.v.new_empty(B, H, L, E),
        g.q.new_empty(B, H, L, dtype=g.real),
        measured(g, ENTROPY, B, H, L),
        measured(g, PEAK, B, H, L),
        measured(g, PEAK, B, H, L, dtype=torch.int32),
        measured(g, DISTANCE, B, H, L),
        g.q.new_empty(g.tags.shape[0], B, H, L, dtype=g.real),
        measured(g, MOMENTS, B, H, 3, dtype=torch.float64),
    )


_MORE = (
    ", Tensor lse, Tensor at, Tensor out, Tensor? read, Tensor delta, Tensor? by_score, Tensor? by_distance, "
    "Tensor? by_mass, Tensor? by_peak, Tensor? by_moments"
)


def _softmax_backward(*given: Any) -> tuple[Tensor, ...]:
    """Gradients of q, k, energy, table, row and v; ``out`` is that of what was ``read``, the rest as softmax.Slopes."""
    from regard.engines.tiled.chunks import chunks, widens

    g, rest = Given(*given[:20]), given[20:]
    if not widens(g):
        return _slopes(g, 0, *rest)
    found = tuple(torch.zeros_like(x) for x in g.missing())
    for chunk in chunks(g):
        part = [chunk.widened(x, axis) for x, axis in zip(rest, (0, 0, 0, 0, 0, 0, 0, 1, 0, 0), strict=True)]
        chunk.gradients(found, _slopes(chunk.of(g), chunk.before, *part))
    return found


def _slopes(
    g: Given, before: int, lse: Any, at: Any, out: Any, read: Any, delta: Any, by_score: Any, by_distance: Any,
    by_mass: Any, by_peak: Any, by_moments: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    from regard.engines.tiled import calls, softmax
    from regard.kernels.workers import share

    B, H, L, _ = g.q.shape
    call = calls.Call(g if by_mass is not None else g._replace(tags=g.tags[:0]), before)
    if read is not None:
        delta = delta + (out * read).sum(-1)
    away = calls.rows_apart(out)
    slopes = softmax.Slopes(  # type: ignore[call-arg]
        away.data_ptr(),
        calls.strides(away),
        *(calls.flat(x, g) for x in (delta, by_score, by_distance)),
        calls.array(g.q.new_empty(0, B * H, L) if by_mass is None else by_mass.reshape(-1, B * H, L)),
        calls.flat(by_peak, g),
        calls.flat(at, g),
        calls.array(g.q.new_empty(0, 2) if by_moments is None else by_moments.reshape(B * H, 2)),
    )
    R, C = g.tile
    room = calls.Room(call, -(-L // R))
    share(
        softmax.backward, room.runs, call.scores, call.values, call.sight, calls.flat(lse, g), slopes, room.pulled,
        room.v.numpy(), call.caps, room.splits, R, C,
    )  # fmt: skip
    return room.gradients()


def _keep(ctx: Any, inputs: tuple[Any, ...], output: _Found) -> None:
    ctx.set_materialize_grads(False)
    tensors, ctx.places = Given(*inputs).apart()
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[4])


def _back(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, out, lse, entropy, peak, at, distance, mass, moments = ctx.saved_tensors
    g = Given.joined(tensors, ctx.places)
    g_out, g_lse, g_entropy, g_peak, _, g_distance, g_mass, g_moments = grads
    # ds_j = w_j (x_j − Σ w x): Σ w x is known from what forward found, and is one number a row. What the output says of
    # it is added by the operator, a chunk at a time.
    delta = torch.zeros_like(lse)
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
    away = torch.zeros_like(out) if g_out is None else g_out
    by_score = None if g_entropy is None else -g_entropy
    found = tiled_softmax_backward(
        *g, lse, at, away, None if g_out is None else out, delta, by_score, g_distance, g_mass, g_peak, by_moments
    )
    return tuple(g.sorted(*found))


tiled_softmax = operator("tiled_softmax", "", 8, _softmax, lambda *given: _empty(Given(*given)))
tiled_softmax_backward = operator(
    "tiled_softmax_backward", _MORE, 6, _softmax_backward, lambda *given: tuple(Given(*given[:20]).missing())
)
differentiable("tiled_softmax", _keep, _back)
