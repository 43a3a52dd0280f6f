"""The threshold family as a PyTorch operator, with fakes and gradients, α among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.engines.tiled.ops import DISTANCE, ENTROPY, PEAK, operator, twice

_Found = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
_BUFFER = 1 << 20  # bytes of scores that are held together


def _threshold(
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
    alpha: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """output, entropy, peak, its place, distance, mass, and of each row its largest score and its threshold.

    ``alpha`` (H,) is float64. What ``want`` does not ask for has size 0. ``tile`` is the most rows a block has, and how
    closely the keys it sees are cut where there are gaps; the rest is as in ops.tiled_softmax.
    """
    from regard.engines.tiled import calls, threshold
    from regard.kernels.workers import cut, share

    found = _empty(q, v, tags, want)
    B, H, L, _ = q.shape
    sc, held = calls.scores_of(q, k, kind, scale, energy, table, row, numbers, steps, seed)
    sight, more = calls.sight_of(lo, hi, allowed, first, L)
    va, values = calls.values_of(v, tags, rate, seed, shift)
    R, W = _block(sight.lo, sight.hi, tile[0], q.element_size())
    out, entropy, peak, at, distance, mass, top, t = found
    results = threshold.Found(  # type: ignore[call-arg]
        out.view(B * H, L, -1).numpy() if out.numel() else np.empty((B * H, L, v.shape[-1]), sc.numbers.dtype),
        *(calls.flat(x, q, L) for x in (entropy, peak, at, distance)),
        mass.view(-1, B * H, L).numpy() if mass.numel() else np.empty((0, B * H, L), sc.numbers.dtype),
        *(calls.flat(x, q, L) for x in (top, t)),
    )
    runs = cut(B * H * -(-L // R), B * H * L * W * sc.sizes[5])
    share(threshold.forward, runs, sc, va, sight, calls.array(alpha), results, R, W, tile[1])
    del held, more, values
    return found


def _fake(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> _Found:
    return _empty(q, v, tags=rest[6], want=rest[15])


def _empty(q: Tensor, v: Tensor, tags: Tensor, want: int) -> _Found:
    B, H, L, _ = q.shape

    def measured(bit: int, dtype: torch.dtype = q.dtype) -> Tensor:
        return q.new_empty((B, H, L) if want & bit else (0,), dtype=dtype)

    return (
        q.new_empty(B, H, L, v.shape[-1]),
        measured(ENTROPY),
        measured(PEAK),
        measured(PEAK, torch.int32),
        measured(DISTANCE),
        q.new_empty(tags.shape[0], B, H, L),
        q.new_empty(B, H, L),
        q.new_empty(B, H, L, dtype=torch.float64),
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


def _threshold_backward(
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
    alpha: Tensor,
    at: Tensor,
    top: Tensor,
    t: Tensor,
    out: Tensor,
    by_entropy: Tensor | None,
    by_peak: Tensor | None,
    by_distance: Tensor | None,
    by_mass: Tensor | None,
    learns: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, energy, table, row, v and alpha from those of the output and the statistics."""
    from regard.engines.tiled import calls, scores, threshold
    from regard.kernels.workers import cut, share, splits_of

    B, H, L, A = q.shape
    G, S, E = k.shape[1], *v.shape[2:]
    sc, held = calls.scores_of(q, k, kind, scale, energy, table, row, numbers, steps, seed)
    sight, more = calls.sight_of(lo, hi, allowed, first, L)
    va, values = calls.values_of(v, tags if by_mass is not None else tags[:0], rate, seed, shift)
    away = calls.rows_apart(out)
    slopes = threshold.Slopes(  # type: ignore[call-arg]
        away.data_ptr(),
        calls.strides(away),
        *(calls.flat(x, q, L) for x in (by_entropy, by_distance)),
        calls.array(q.new_empty(0, B * H, L) if by_mass is None else by_mass.reshape(-1, B * H, L)),
        *(calls.flat(x, q, L) for x in (by_peak, at)),
    )
    R, W = _block(sight.lo, sight.hi, tile[0], q.element_size())
    splits = splits_of(B * G, -(-L // R))
    units = B * G * splits
    pulled, grads = calls.pulled_like(sc, q, splits, units)
    dv = q.new_zeros(splits, B * G, S, E)
    dalpha = alpha.new_zeros(B * H if learns else 0, L)
    caps = sum(code == scores.CAP for code in steps[::4])
    share(
        threshold.backward, cut(units, 3 * B * H * L * W * sc.sizes[5]), sc, va, sight, calls.array(alpha),
        calls.flat(top, q, L), calls.flat(t, q, L), slopes, pulled, dv.numpy(), dalpha.numpy(), caps, splits, R, W,
        tile[1],
    )  # fmt: skip
    del held, more, values, away
    dq, dk, denergy, dtable, drow = calls.pulled_back(sc, grads, A, energy)
    by_head = dalpha.view(B, H, L).sum((0, 2)) if learns else dalpha.new_empty(0)
    return dq, dk, denergy, dtable, drow, calls.together(dv).view(B, G, S, E), by_head


def _fake_backward(
    q: Tensor, k: Tensor, v: Tensor, energy: Tensor | None, table: Tensor | None, row: Tensor | None, *rest: Any
) -> Any:
    alpha, learns = rest[14], rest[-1]
    given = [torch.empty_like(x) if x is not None else q.new_empty(0) for x in (q, k, energy, table, row, v)]
    return *given, alpha.new_empty(alpha.shape if learns else (0,))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: _Found) -> None:
    ctx.set_materialize_grads(False)
    ctx.given = [x for x in inputs if not isinstance(x, Tensor)]
    ctx.holes = [isinstance(x, Tensor) for x in inputs]
    _, _, _, at, _, _, top, t = output
    ctx.save_for_backward(*(x for x in inputs if isinstance(x, Tensor)), at, top, t)
    ctx.mark_non_differentiable(at, top, t)


def _back(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    *saved, at, top, t = ctx.saved_tensors
    tensors, plain = iter(saved), iter(ctx.given)
    inputs = [next(tensors) if hole else next(plain) for hole in ctx.holes]
    by_out, by_entropy, by_peak, _, by_distance, by_mass, _, _ = grads
    q, v = inputs[0], inputs[2]
    out = q.new_zeros(*q.shape[:3], v.shape[-1]) if by_out is None else by_out
    learns = ctx.needs_input_grad[-1]
    dq, dk, denergy, dtable, drow, dv, dalpha = tiled_threshold_backward(
        *inputs, at, top, t, out, by_entropy, by_peak, by_distance, by_mass, learns
    )
    given = [dq, dk, dv, denergy, dtable, drow]
    found = [x if has else None for x, has in zip(given, ctx.holes, strict=False)]
    return *found, *(None for _ in ctx.holes[6:-1]), dalpha if learns else None


tiled_threshold = operator("tiled_threshold", _threshold, _fake)
tiled_threshold_backward = operator("tiled_threshold_backward", _threshold_backward, _fake_backward)
torch.library.register_autograd("regard::tiled_threshold", _back, setup_context=_keep)
torch.library.register_autograd("regard::tiled_threshold_backward", twice)
