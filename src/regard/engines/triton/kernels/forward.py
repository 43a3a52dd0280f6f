"""The forward pass: one program reads the memory for one block of queries of one head."""

# mypy: ignore-errors
# Triton's language looks like Python and is not typed like it.

from __future__ import annotations

import triton
import triton.language as tl

from regard.engines.triton.kernels.tiles import (
    COUNT,
    DISTANCE,
    ENTROPY,
    LSE,
    MEAN,
    PEAK,
    SOFTMAX,
    SQUARES,
    THRESHOLD,
    TOP,
    places_apart,
    product,
    rows_of,
    seen_by,
    stepped,
    weights,
)


@triton.jit(do_not_specialize=["L", "S"])  # new lengths are no new kernel
def forward(
    Q, K, V, ENERGY, SCALE, ALPHA, ROW, TABLE, NUMBERS, LO, HI, FIRST, LAST, ALLOWED, TILES, OUT, ROWS, AT,
    H, GROUP, L, S, width, E, columns, allowed_b, allowed_h, allowed_i, allowed_j, ROUNDS, CLOSE,
    SCORE: tl.constexpr, NORMAL: tl.constexpr, DENSE: tl.constexpr, STATS: tl.constexpr,
    I: tl.constexpr, J: tl.constexpr, C: tl.constexpr, EP: tl.constexpr,
    STEPS: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """o = Σ p v with its statistics: softmax in one pass; entmax in one for the top, some for the threshold, and one.

    Q (B, H, L, width), K (B, G, S, width), V (B, G, S, E), ROW (B, H, L), TABLE (H, columns); LO, HI (B, H, L), and
    FIRST, LAST of each block of queries; where DENSE, ALLOWED by its strides and its live TILES. OUT (B, H, L, E), ROWS
    (9, B, H, L), AT (B, H, L). An empty row writes 0, lse −∞ and peak at −1.
    """
    block, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    memory = b * (H // GROUP) + h // GROUP
    i, e = block * I + tl.arange(0, I), tl.arange(0, EP)
    q_at, k_at, v_at, span_at = head * L * width, memory * S * width, memory * S * E, head * L
    allowed_at = b * allowed_b + h * allowed_h
    blocks, tiles = tl.cdiv(L, I), tl.cdiv(S, J)
    first = tl.load(FIRST + head * blocks + block) // J * J
    last = tl.load(LAST + head * blocks + block)
    live_at = TILES + (head * blocks + block) * tiles
    alpha = tl.load(ALPHA + h)

    top = tl.full((I,), float("-inf"), ACC)
    total = tl.zeros((I,), ACC)  # Σ exp(s − top)
    tilt = tl.zeros((I,), ACC)  # Σ exp(s − top) (s − top), which is the entropy's
    apart = tl.zeros((I,), ACC)
    count, mean, squares = tl.zeros((I,), ACC), tl.zeros((I,), ACC), tl.zeros((I,), ACC)
    at = tl.full((I,), -1, tl.int32)
    out = tl.zeros((I, EP), ACC)
    for start in range(first, last, J):
        live = 1
        if DENSE:
            live = tl.load(live_at + start // J).to(tl.int32)
        if live != 0:
            j = start + tl.arange(0, J)
            seen = seen_by(LO, HI, ALLOWED, span_at, allowed_at, allowed_i, allowed_j, i, j, L, DENSE)
            r = product(Q, K, ENERGY, SCALE, q_at, k_at, i, j, L, S, width, SCORE, C, PRECISION, ACC)
            s, _ = stepped(r, ROW, TABLE, NUMBERS, span_at, h, H, i, j, L, S, columns, STEPS, 0)
            here = tl.max(tl.where(seen, s, float("-inf")), 1)
            if STATS:
                place = tl.min(tl.where(seen & (s == here[:, None]), j[None, :], S), 1)
                at = tl.where(here > top, place, at)
                # Mean and squared deviations of two parts (Chan et al. 1979).
                more = tl.sum(seen.to(ACC), 1)
                both = tl.maximum(count + more, 1.0)
                own = tl.sum(tl.where(seen, s, 0.0), 1) / tl.maximum(more, 1.0)
                off = tl.where(seen, s - own[:, None], 0.0)
                squares += tl.sum(off * off, 1) + (own - mean) * (own - mean) * (count * more / both)
                mean += (own - mean) * (more / both)
                count += more
            higher = tl.maximum(top, here)
            base = tl.where(higher == float("-inf"), 0.0, higher)
            shrink = tl.exp(top - base)
            below = tl.where(seen, s - base[:, None], 0.0)
            x = tl.where(seen, tl.exp(below), 0.0)
            if NORMAL == SOFTMAX:
                if STATS:
                    fallen = tl.where(top == float("-inf"), 0.0, top - base)
                    tilt = shrink * (tilt + fallen * total) + tl.sum(x * below, 1)
                    apart = shrink * apart + tl.sum(x * places_apart(i, j, L, S), 1)
                v = rows_of(V, v_at, j, e, S, E, ACC)
                out = out * shrink[:, None] + tl.dot(x, v, input_precision=PRECISION, out_dtype=ACC)
            total = total * shrink + tl.sum(x, 1)
            top = higher

    empty = total == 0
    over = tl.where(empty, 1.0, total)
    lse = tl.where(empty, float("-inf"), top + tl.log(over))
    top = tl.where(empty, 0.0, top)
    threshold = tl.full((I,), -1.0, ACC)
    if NORMAL == SOFTMAX:
        out = out / over[:, None]
        entropy = tl.maximum(tl.log(over) - tilt / over, 0.0)
        peak = 1.0 / over
        apart = apart / over
    else:
        # t with Σ [(α−1)(s − top) − t]₊^power = 1 lies in [−1, 0]. Newton's steps are for the root of that sum, a norm,
        # which is nearly straight in t (for equal scores it is); they stay in a bracket, and after a few every third
        # halves it, because for α > 2 the norm is bent both ways.
        power = 1.0 / (alpha - 1.0)
        lo, hi = tl.full((I,), -1.0, ACC), tl.zeros((I,), ACC)
        moving, turn = 1, 0
        while (moving > 0) & (turn < ROUNDS):
            mass, slope = tl.zeros((I,), ACC), tl.zeros((I,), ACC)
            for start in range(first, last, J):
                live = 1
                if DENSE:
                    live = tl.load(live_at + start // J).to(tl.int32)
                if live != 0:
                    j = start + tl.arange(0, J)
                    seen = seen_by(LO, HI, ALLOWED, span_at, allowed_at, allowed_i, allowed_j, i, j, L, DENSE)
                    r = product(Q, K, ENERGY, SCALE, q_at, k_at, i, j, L, S, width, SCORE, C, PRECISION, ACC)
                    s, _ = stepped(r, ROW, TABLE, NUMBERS, span_at, h, H, i, j, L, S, columns, STEPS, 0)
                    p, _, u = weights(s, seen, lse, top, threshold, alpha, NORMAL)
                    mass += tl.sum(p, 1)
                    slope += tl.sum(u, 1)
            heavy = mass >= 1.0
            lo, hi = tl.where(heavy, threshold, lo), tl.where(heavy, hi, threshold)
            norm = tl.exp((alpha - 1.0) * tl.log(tl.where(mass > 0, mass, 1.0)))
            move = (norm - 1.0) * mass / tl.where(slope > 0, norm * slope, 1.0)
            step = threshold + move
            good = (step >= lo) & (step <= hi) & (slope > 0) & ((turn < 8) | (turn % 3 != 2))
            arrived = empty | (tl.abs(mass - 1.0) <= CLOSE) | (hi - lo <= 0.125 * CLOSE)
            done = arrived | (good & (tl.abs(move) <= CLOSE))
            threshold = tl.where(arrived, threshold, tl.where(good, step, 0.5 * (lo + hi)))
            moving = tl.sum((done == 0).to(tl.int32), 0)
            turn += 1
        entropy = tl.zeros((I,), ACC)
        peak = tl.exp(power * tl.log(tl.where(threshold < 0, -threshold, 1.0)))
        for start in range(first, last, J):
            live = 1
            if DENSE:
                live = tl.load(live_at + start // J).to(tl.int32)
            if live != 0:
                j = start + tl.arange(0, J)
                seen = seen_by(LO, HI, ALLOWED, span_at, allowed_at, allowed_i, allowed_j, i, j, L, DENSE)
                r = product(Q, K, ENERGY, SCALE, q_at, k_at, i, j, L, S, width, SCORE, C, PRECISION, ACC)
                s, _ = stepped(r, ROW, TABLE, NUMBERS, span_at, h, H, i, j, L, S, columns, STEPS, 0)
                p, log_p, _ = weights(s, seen, lse, top, threshold, alpha, NORMAL)
                if tl.max(tl.max(p, 1), 0) > 0:  # values that nobody supports are not loaded
                    if STATS:
                        entropy -= tl.sum(p * log_p, 1)
                        apart += tl.sum(p * places_apart(i, j, L, S), 1)
                    v = rows_of(V, v_at, j, e, S, E, ACC)
                    out += tl.dot(p, v, input_precision=PRECISION, out_dtype=ACC)

    inside = i < L
    cells = head * L * E + i[:, None] * E + e[None, :]
    tl.store(OUT + cells, out, mask=inside[:, None] & (e < E)[None, :])
    rows = tl.num_programs(1).to(tl.int64) * L
    to = ROWS + head * L + i
    tl.store(to + LSE * rows, lse, mask=inside)
    tl.store(to + TOP * rows, top, mask=inside)
    tl.store(to + THRESHOLD * rows, threshold, mask=inside)
    if STATS:
        tl.store(to + ENTROPY * rows, tl.where(empty, 0.0, entropy), mask=inside)
        tl.store(to + PEAK * rows, tl.where(empty, 0.0, peak), mask=inside)
        tl.store(to + DISTANCE * rows, tl.where(empty, 0.0, apart), mask=inside)
        tl.store(to + MEAN * rows, mean, mask=inside)
        tl.store(to + SQUARES * rows, squares, mask=inside)
        tl.store(to + COUNT * rows, count, mask=inside)
        tl.store(AT + head * L + i, tl.where(empty, -1, at), mask=inside)
