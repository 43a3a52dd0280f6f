"""The backward pass: scores are computed again, from rows for the queries' gradients and from keys for the keys'."""

# mypy: ignore-errors
# Triton's language looks like Python and is not typed like it.

from __future__ import annotations

import triton
import triton.language as tl

from regard.engines.triton.kernels.tiles import (
    DOT,
    ENTMAX,
    LSE,
    MEAN,
    ROW_STEP,
    TABLE_STEP,
    THRESHOLD,
    TOP,
    cell_of,
    places_apart,
    product,
    rows_of,
    seen_by,
    stepped,
    tanh,
    weights,
)

# Gradients of a row, in the order in which they lie in memory; OF_MEAN and OF_SQUARES are already per pair.
DELTA, OF_LSE, OF_ENTROPY, OF_DISTANCE, OF_PEAK, OF_MEAN, OF_SQUARES = (tl.constexpr(n) for n in range(7))


@triton.jit
def pull(
    log_p, i, j, do, v, GRADS, AT, row, rows, L, S, STATS: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr
):
    """x[i, j], what one unit of the weight of key j would add to the loss through query i."""
    x = tl.dot(do, tl.trans(v), input_precision=PRECISION, out_dtype=ACC)
    if STATS:
        x -= tl.load(GRADS + OF_ENTROPY * rows + row, mask=i < L, other=0.0)[:, None] * log_p
        x += tl.load(GRADS + OF_DISTANCE * rows + row, mask=i < L, other=0.0)[:, None] * places_apart(i, j, L, S)
        at = tl.load(AT + row, mask=i < L, other=-1)
        of_peak = tl.load(GRADS + OF_PEAK * rows + row, mask=i < L, other=0.0)
        x += tl.where(j[None, :] == at[:, None], of_peak[:, None], 0.0)
    return x


@triton.jit
def slopes(
    s, seen, u, x, delta, lse, i, ROWS, GRADS, row, rows, L, NORMAL: tl.constexpr, STATS: tl.constexpr,
):  # fmt: skip
    """ds = u (x − Σ u x / Σ u), and what comes through lse and spread, which are no functions of the weights."""
    ds = u * (x - delta[:, None])
    if STATS:
        mean = tl.load(ROWS + MEAN * rows + row, mask=i < L, other=0.0)
        of_mean = tl.load(GRADS + OF_MEAN * rows + row, mask=i < L, other=0.0)
        of_squares = tl.load(GRADS + OF_SQUARES * rows + row, mask=i < L, other=0.0)
        ds += tl.where(seen, of_mean[:, None] + of_squares[:, None] * (s - mean[:, None]), 0.0)
        if NORMAL == ENTMAX:
            of_lse = tl.load(GRADS + OF_LSE * rows + row, mask=i < L, other=0.0)
            ds += tl.where(seen, of_lse[:, None] * tl.exp(tl.where(seen, s - lse[:, None], 0.0)), 0.0)
    return ds


@triton.jit(do_not_specialize=["L", "S"])  # new lengths are no new kernel
def backward_rows(
    Q, K, V, ENERGY, SCALE, ALPHA, ROW, TABLE, NUMBERS, LO, HI, FIRST, LAST, ALLOWED, TILES, ROWS, AT, DO, GRADS,
    DQ, DENERGY, DALPHA, DROW, DTABLE,
    H, GROUP, L, S, width, E, columns, allowed_b, allowed_h, allowed_i, allowed_j,
    SCORE: tl.constexpr, NORMAL: tl.constexpr, DENSE: tl.constexpr, STATS: tl.constexpr,
    I: tl.constexpr, J: tl.constexpr, C: tl.constexpr, EP: tl.constexpr,
    STEPS: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """DQ of one block of queries of one head, its part of DENERGY (programs, width), DALPHA and DROW (B, H, L).

    DTABLE (H, columns) is added to by all programs, in no order.

    Entmax has a pass of its own for Σ u x / Σ u, which it leaves in GRADS for the other kernel.
    """
    block, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    memory = b * (H // GROUP) + h // GROUP
    i, e, c = block * I + tl.arange(0, I), tl.arange(0, EP), tl.arange(0, C)
    q_at, k_at, v_at, span_at = head * L * width, memory * S * width, memory * S * E, head * L
    allowed_at = b * allowed_b + h * allowed_h
    blocks, tiles = tl.cdiv(L, I), tl.cdiv(S, J)
    first = tl.load(FIRST + head * blocks + block) // J * J
    last = tl.load(LAST + head * blocks + block)
    live_at = TILES + (head * blocks + block) * tiles
    alpha = tl.load(ALPHA + h)
    row, rows = head * L + i, tl.num_programs(1).to(tl.int64) * L
    lse = tl.load(ROWS + LSE * rows + row, mask=i < L, other=0.0)
    top = tl.load(ROWS + TOP * rows + row, mask=i < L, other=0.0)
    threshold = tl.load(ROWS + THRESHOLD * rows + row, mask=i < L, other=-1.0)
    do = rows_of(DO, head * L * E, i, e, L, E, ACC)
    delta = tl.load(GRADS + DELTA * rows + row, mask=i < L, other=0.0)
    if NORMAL == ENTMAX:
        drawn, open_ = tl.zeros((I,), ACC), tl.zeros((I,), ACC)
        for start in range(first, last, J):
            live = 1
            if DENSE:
                live = tl.load(live_at + start // J).to(tl.int32)
            if live != 0:
                j = start + tl.arange(0, J)
                seen = seen_by(LO, HI, ALLOWED, span_at, allowed_at, allowed_i, allowed_j, i, j, L, DENSE)
                r = product(Q, K, ENERGY, SCALE, q_at, k_at, i, j, L, S, width, SCORE, C, PRECISION, ACC)
                s, _ = stepped(r, ROW, TABLE, NUMBERS, span_at, h, H, i, j, L, S, columns, STEPS, 0)
                _, log_p, u = weights(s, seen, lse, top, threshold, alpha, NORMAL)
                if tl.max(tl.max(u, 1), 0) > 0:
                    v = rows_of(V, v_at, j, e, S, E, ACC)
                    x = pull(log_p, i, j, do, v, GRADS, AT, row, rows, L, S, STATS, PRECISION, ACC)
                    drawn += tl.sum(u * x, 1)
                    open_ += tl.sum(u, 1)
        delta = drawn / tl.where(open_ > 0, open_, 1.0)
        tl.store(GRADS + DELTA * rows + row, delta, mask=i < L)

    dq = tl.zeros((I, C), ACC)  # of a dot product; a tanh-sum has no room for all its columns here
    dalpha, drow = tl.zeros((I,), ACC), tl.zeros((I,), ACC)
    for start in range(first, last, J):
        live = 1
        if DENSE:
            live = tl.load(live_at + start // J).to(tl.int32)
        if live != 0:
            j = start + tl.arange(0, J)
            seen = seen_by(LO, HI, ALLOWED, span_at, allowed_at, allowed_i, allowed_j, i, j, L, DENSE)
            r = product(Q, K, ENERGY, SCALE, q_at, k_at, i, j, L, S, width, SCORE, C, PRECISION, ACC)
            s, slope = stepped(r, ROW, TABLE, NUMBERS, span_at, h, H, i, j, L, S, columns, STEPS, 0)
            p, log_p, u = weights(s, seen, lse, top, threshold, alpha, NORMAL)
            v = rows_of(V, v_at, j, e, S, E, ACC)
            x = pull(log_p, i, j, do, v, GRADS, AT, row, rows, L, S, STATS, PRECISION, ACC)
            ds = slopes(s, seen, u, x, delta, lse, i, ROWS, GRADS, row, rows, L, NORMAL, STATS)
            if NORMAL == ENTMAX:
                below = tl.where(seen, s - top[:, None], 0.0)
                dalpha += tl.sum((x - delta[:, None]) * (below * u - p * log_p), 1) / (alpha - 1.0)
            for n in tl.static_range(len(STEPS)):
                if STEPS[n][0] == ROW_STEP or STEPS[n][0] == TABLE_STEP:
                    _, later = stepped(r, ROW, TABLE, NUMBERS, span_at, h, H, i, j, L, S, columns, STEPS, n + 1)
                    if STEPS[n][0] == ROW_STEP:
                        drow += tl.sum(ds * later, 1)
                    else:
                        cell = cell_of(h, i, j, L, S, columns, STEPS[n][1], STEPS[n][2], STEPS[n][3])
                        tl.atomic_add(DTABLE + cell, ds * later, mask=seen)
            ds *= slope
            if SCORE == DOT:
                k = rows_of(K, k_at, j, c, S, width, ACC)
                dq += tl.dot(ds, k, input_precision=PRECISION, out_dtype=ACC)
            else:
                part = DENERGY + (head * blocks + block) * width
                for column in range(0, width, C):
                    a = column + c
                    q = rows_of(Q, q_at, i, a, L, width, ACC)
                    k = rows_of(K, k_at, j, a, S, width, ACC)
                    t = tanh(q[:, None, :] + k[None, :, :])
                    energy = tl.load(ENERGY + a, mask=a < width, other=0.0)
                    bent = tl.sum(ds[:, :, None] * (1.0 - t * t), 1) * energy[None, :]
                    # Nobody else adds here: an atomic is only an addition that is seen by the next one.
                    inside = (i < L)[:, None] & (a < width)[None, :]
                    tl.atomic_add(DQ + q_at + i[:, None] * width + a[None, :], bent, mask=inside)
                    tl.atomic_add(part + a, tl.sum(tl.sum(ds[:, :, None] * t, 0), 0), mask=a < width)
    if SCORE == DOT:
        inside = (i < L)[:, None] & (c < width)[None, :]
        tl.store(DQ + q_at + i[:, None] * width + c[None, :], dq * tl.load(SCALE), mask=inside)
    if NORMAL == ENTMAX:
        tl.store(DALPHA + row, dalpha, mask=i < L)
    for n in tl.static_range(len(STEPS)):
        if STEPS[n][0] == ROW_STEP:
            tl.store(DROW + row, drow, mask=i < L)


@triton.jit(do_not_specialize=["L", "S"])  # new lengths are no new kernel
def backward_keys(
    Q, K, V, ENERGY, SCALE, ALPHA, ROW, TABLE, NUMBERS, LO, HI, FIRST, LAST, ALLOWED, TILES, ROWS, AT, DO, GRADS,
    DK, DV,
    H, GROUP, L, S, width, E, columns, allowed_b, allowed_h, allowed_i, allowed_j,
    SCORE: tl.constexpr, NORMAL: tl.constexpr, DENSE: tl.constexpr, STATS: tl.constexpr,
    I: tl.constexpr, J: tl.constexpr, C: tl.constexpr, EP: tl.constexpr,
    STEPS: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """DK and DV of one block of keys of one key head, over all query heads that share it."""
    tile, memory = tl.program_id(0), tl.program_id(1).to(tl.int64)
    G = H // GROUP
    b = memory // G
    start = tile * J
    j, e, c = start + tl.arange(0, J), tl.arange(0, EP), tl.arange(0, C)
    k_at, v_at = memory * S * width, memory * S * E
    blocks, tiles = tl.cdiv(L, I), tl.cdiv(S, J)
    rows = tl.num_programs(1).to(tl.int64) * GROUP * L
    v = rows_of(V, v_at, j, e, S, E, ACC)
    dk, dv = tl.zeros((J, C), ACC), tl.zeros((J, EP), ACC)
    for share in range(GROUP):
        h = (memory % G) * GROUP + share
        head = b * H + h
        alpha = tl.load(ALPHA + h)
        q_at, span_at, allowed_at = head * L * width, head * L, b * allowed_b + h * allowed_h
        for block in range(blocks):
            first, last = tl.load(FIRST + head * blocks + block), tl.load(LAST + head * blocks + block)
            live = ((first < start + J) & (last > start)).to(tl.int32)
            if DENSE:
                live = live * tl.load(TILES + (head * blocks + block) * tiles + tile).to(tl.int32)
            if live != 0:
                i = block * I + tl.arange(0, I)
                row = head * L + i
                lse = tl.load(ROWS + LSE * rows + row, mask=i < L, other=0.0)
                top = tl.load(ROWS + TOP * rows + row, mask=i < L, other=0.0)
                threshold = tl.load(ROWS + THRESHOLD * rows + row, mask=i < L, other=-1.0)
                delta = tl.load(GRADS + DELTA * rows + row, mask=i < L, other=0.0)
                do = rows_of(DO, head * L * E, i, e, L, E, ACC)
                seen = seen_by(LO, HI, ALLOWED, span_at, allowed_at, allowed_i, allowed_j, i, j, L, DENSE)
                r = product(Q, K, ENERGY, SCALE, q_at, k_at, i, j, L, S, width, SCORE, C, PRECISION, ACC)
                s, slope = stepped(r, ROW, TABLE, NUMBERS, span_at, h, H, i, j, L, S, columns, STEPS, 0)
                p, log_p, u = weights(s, seen, lse, top, threshold, alpha, NORMAL)
                x = pull(log_p, i, j, do, v, GRADS, AT, row, rows, L, S, STATS, PRECISION, ACC)
                ds = slopes(s, seen, u, x, delta, lse, i, ROWS, GRADS, row, rows, L, NORMAL, STATS)
                ds *= slope
                dv += tl.dot(tl.trans(p), do, input_precision=PRECISION, out_dtype=ACC)
                if SCORE == DOT:
                    q = rows_of(Q, q_at, i, c, L, width, ACC)
                    dk += tl.dot(tl.trans(ds), q, input_precision=PRECISION, out_dtype=ACC)
                else:
                    for column in range(0, width, C):
                        a = column + c
                        q = rows_of(Q, q_at, i, a, L, width, ACC)
                        k = rows_of(K, k_at, j, a, S, width, ACC)
                        t = tanh(q[:, None, :] + k[None, :, :])
                        energy = tl.load(ENERGY + a, mask=a < width, other=0.0)
                        bent = tl.sum(ds[:, :, None] * (1.0 - t * t), 0) * energy[None, :]
                        inside = (j < S)[:, None] & (a < width)[None, :]
                        tl.atomic_add(DK + k_at + j[:, None] * width + a[None, :], bent, mask=inside)
    if SCORE == DOT:
        inside = (j < S)[:, None] & (c < width)[None, :]
        tl.store(DK + k_at + j[:, None] * width + c[None, :], dk * tl.load(SCALE), mask=inside)
    tl.store(DV + v_at + j[:, None] * E + e[None, :], dv, mask=(j < S)[:, None] & (e < E)[None, :])
