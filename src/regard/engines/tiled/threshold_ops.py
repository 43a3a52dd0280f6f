"""The threshold family as a PyTorch operator, with fakes and gradients, α among them.

After what every operator is given stand α (H,) and ``keep``: the k of top-k, or 0 for α-entmax.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.engines.tiled.given import DISTANCE, ENTROPY, PEAK, Given, differentiable, measured, operator

_Found = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
_BUFFER = 1 << 20  # bytes of scores that are held together


def _threshold(*given: Any) -> _Found:
    from regard.engines.tiled.chunks import forward

    alpha, keep = given[20], given[21]

    def read(g: Given, before: int) -> _Found:
        return _read(g, before, alpha[before % max(1, alpha.numel()) :][: g.q.shape[1]], keep)

    found: _Found = forward(Given(*given[:20]), read, _empty, (0, 0, 0, 0, 0, 1, 0, 0))
    return found


def _read(g: Given, before: int, alpha: Tensor, keep: int) -> _Found:
    """output, entropy, peak, its place, distance, mass, and of each row its largest score and its threshold.

    ``tile`` is the most rows a block has, and how closely the keys it sees are cut where there are gaps.
    """
    from regard.engines.tiled import calls, threshold
    from regard.kernels.workers import cut, share

    B, H, _, L, _, _, E = g.sizes
    found, call = _empty(g), calls.Call(g, before)
    R, W = _block(call.sight.lo, call.sight.hi, g.tile[0], g.q.element_size())
    out, entropy, peak, at, distance, mass, top, t = found
    real = call.scores.numbers.dtype
    results = threshold.Found(  # type: ignore[call-arg]
        out.view(B * H, L, -1).numpy() if out.numel() else np.empty((B * H, L, E), real),
        *(calls.flat(x, g) for x in (entropy, peak, at, distance)),
        mass.view(-1, B * H, L).numpy() if mass.numel() else np.empty((0, B * H, L), real),
        *(calls.flat(x, g) for x in (top, t)),
    )
    runs = cut(B * H * -(-L // R), B * H * L * W * call.scores.sizes[5])
    rule = calls.array(alpha), keep
    share(threshold.forward, runs, call.scores, call.values, call.sight, *rule, results, R, W, g.tile[1])
    return found


def _empty(g: Given) -> _Found:
    B, H, _, L, _, _, E = g.sizes
    return (
        g.v.new_empty(B, H, L, E),
        measured(g, ENTROPY, B, H, L),
        measured(g, PEAK, B, H, L),
        measured(g, PEAK, B, H, L, dtype=torch.int32),
        measured(g, DISTANCE, B, H, L),
        g.q.new_empty(g.tags.shape[0], B, H, L, dtype=g.real),
        g.q.new_empty(B, H, L, dtype=g.real),
        g.q.new_empty(B, H, L, dtype=torch.float64),
    )


def _block(lo: Any, hi: Any, most: int, item: int) -> tuple[int, int]:
    """How many queries go together so that their scores stay in cache, and the most keys that a block of them sees."""
    L = lo.shape[1]
    span = max(1, int((hi - lo).max())) if lo.size else 1
    # Under a window a block sees its own length beside the window's; but a product of few rows is slow.
    R = min(most, max(8, _BUFFER // (item * span)), max(32, span // 2))
    if not lo.size:
        return R, 0
    edges = np.arange(0, L, R)
    some = hi > lo
    low = np.minimum.reduceat(np.where(some, lo, np.iinfo(np.int64).max), edges, axis=1)
    high = np.maximum.reduceat(np.where(some, hi, 0), edges, axis=1)
    return R, max(0, int(np.where(high > low, high - low, 0).max()))


_MORE = (
    ", Tensor alpha, SymInt keep, Tensor at, Tensor top, Tensor t, Tensor out, Tensor? by_entropy, Tensor? by_peak, "
    "Tensor? by_distance, Tensor? by_mass, bool learns"
)


def _threshold_backward(*given: Any) -> tuple[Tensor, ...]:
    """Gradients of q, k, energy, table, row, v and alpha from those of the output and the statistics."""
    from regard.engines.tiled.chunks import chunks, widens

    g, (alpha, keep, *rest, learns) = Given(*given[:20]), given[20:]
    if not widens(g):
        return _slopes(g, 0, alpha, keep, learns, *rest)
    found, dalpha = tuple(torch.zeros_like(x) for x in g.missing()), alpha.new_zeros(alpha.shape if learns else 0)
    for chunk in chunks(g):
        part = [chunk.widened(x, axis) for x, axis in zip(rest, (0, 0, 0, 0, 0, 0, 0, 1), strict=True)]
        *gradients, by_head = _slopes(chunk.of(g), chunk.before, alpha[chunk.h], keep, learns, *part)
        chunk.gradients(found, gradients)
        if learns:
            dalpha[chunk.h] += by_head
    return *found, dalpha


def _slopes(
    g: Given, before: int, alpha: Tensor, keep: int, learns: bool, at: Any, top: Any, t: Any, out: Any,
    by_entropy: Any, by_peak: Any, by_distance: Any, by_mass: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    from regard.engines.tiled import calls, threshold
    from regard.kernels.workers import share

    B, H, L, _ = g.q.shape
    call = calls.Call(g if by_mass is not None else g._replace(tags=g.tags[:0]), before)
    away = calls.rows_apart(out)
    slopes = threshold.Slopes(  # type: ignore[call-arg]
        away.data_ptr(),
        calls.strides(away),
        *(calls.flat(x, g) for x in (by_entropy, by_distance)),
        calls.array(g.q.new_empty(0, B * H, L) if by_mass is None else by_mass.reshape(-1, B * H, L)),
        *(calls.flat(x, g) for x in (by_peak, at)),
    )
    R, W = _block(call.sight.lo, call.sight.hi, g.tile[0], g.q.element_size())
    room = calls.Room(call, -(-L // R))
    dalpha = alpha.new_zeros(B * H if learns else 0, L)
    share(
        threshold.backward, room.runs, call.scores, call.values, call.sight, calls.array(alpha), keep,
        calls.flat(top, g), calls.flat(t, g), slopes, room.pulled, room.v.numpy(), dalpha.numpy(), call.caps,
        room.splits, R, W, g.tile[1],
    )  # fmt: skip
    by_head = dalpha.view(B, H, L).sum((0, 2)) if learns else dalpha.new_empty(0)
    return *room.gradients(), by_head


def _fake_backward(*given: Any) -> tuple[Tensor, ...]:
    alpha, learns = given[20], given[-1]
    return *Given(*given[:20]).missing(), alpha.new_empty(alpha.shape if learns else (0,))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: _Found) -> None:
    ctx.set_materialize_grads(False)
    tensors, ctx.places = Given(*inputs[:20]).apart()
    ctx.keep = inputs[21]
    _, _, _, at, _, _, top, t = output
    ctx.save_for_backward(*tensors, inputs[20], at, top, t)
    ctx.mark_non_differentiable(at, top, t)


def _back(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, alpha, at, top, t = ctx.saved_tensors
    g = Given.joined(tensors, ctx.places)
    by_out, by_entropy, by_peak, _, by_distance, by_mass, _, _ = grads
    out = g.v.new_zeros(*g.q.shape[:3], g.v.shape[-1]) if by_out is None else by_out
    learns = ctx.needs_input_grad[20]
    *found, dalpha = tiled_threshold_backward(
        *g, alpha, ctx.keep, at, top, t, out, by_entropy, by_peak, by_distance, by_mass, learns
    )
    return *g.sorted(*found), dalpha if learns else None, None


tiled_threshold = operator(
    "tiled_threshold", ", Tensor alpha, SymInt keep", 8, _threshold, lambda *given: _empty(Given(*given[:20]))
)
tiled_threshold_backward = operator("tiled_threshold_backward", _MORE, 7, _threshold_backward, _fake_backward)
differentiable("tiled_threshold", _keep, _back)
