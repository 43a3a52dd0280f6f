"""What every pass does to a tile of (queries × keys): which pairs are seen, what they score, what they weigh."""

# mypy: ignore-errors
# Triton's language looks like Python and is not typed like it.

from __future__ import annotations

import triton
import triton.language as tl

DOT, TANH = tl.constexpr(0), tl.constexpr(1)  # scale · q·k, and energyᵀ tanh(q + k)
SOFTMAX, ENTMAX = tl.constexpr(0), tl.constexpr(1)
# What is done to a score after its product, by the codes of a recipe.
ROW_STEP, CAP_STEP, SLOPE_STEP, TABLE_STEP = (tl.constexpr(n) for n in range(4))
# Statistics of a row, in the order in which they lie in memory.
LSE, TOP, THRESHOLD, ENTROPY, PEAK, DISTANCE, MEAN, SQUARES, COUNT = (tl.constexpr(n) for n in range(9))


@triton.jit
def rows_of(X, at, i, c, length, width, dtype: tl.constexpr):
    """X[i, c] of a matrix (length, width) that begins at ``at``, zeros outside of it."""
    inside = (i < length)[:, None] & (c < width)[None, :]
    return tl.load(X + at + i[:, None] * width + c[None, :], mask=inside, other=0.0).to(dtype)


@triton.jit
def seen_by(LO, HI, ALLOWED, span_at, allowed_at, allowed_i, allowed_j, i, j, L, DENSE: tl.constexpr):
    """Whether query i may look at key j; queries and keys past the last are seen by nobody."""
    lo = tl.load(LO + span_at + i, mask=i < L, other=0)
    hi = tl.load(HI + span_at + i, mask=i < L, other=0)
    seen = (j[None, :] >= lo[:, None]) & (j[None, :] < hi[:, None])
    if DENSE:
        cell = ALLOWED + allowed_at + i[:, None] * allowed_i + j[None, :] * allowed_j
        seen = seen & (tl.load(cell, mask=seen, other=0) != 0)
    return seen


@triton.jit
def tanh(x):
    """tanh x without an overflow on the way."""
    shrunk = tl.exp(-2.0 * tl.abs(x))
    positive = (1.0 - shrunk) / (1.0 + shrunk)
    return tl.where(x < 0, -positive, positive)


@triton.jit
def product(
    Q, K, ENERGY, SCALE, q_at, k_at, i, j, L, S, width,
    SCORE: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """r[i, j], a score before its steps. A dot product takes C ≥ width columns at once, a tanh-sum C at a time."""
    c = tl.arange(0, C)
    if SCORE == DOT:
        q = rows_of(Q, q_at, i, c, L, width, ACC)
        k = rows_of(K, k_at, j, c, S, width, ACC)
        r = tl.dot(q, tl.trans(k), input_precision=PRECISION, out_dtype=ACC) * tl.load(SCALE)
    else:
        r = tl.zeros((i.shape[0], j.shape[0]), ACC)
        for start in range(0, width, C):
            q = rows_of(Q, q_at, i, start + c, L, width, ACC)
            k = rows_of(K, k_at, j, start + c, S, width, ACC)
            energy = tl.load(ENERGY + start + c, mask=start + c < width, other=0.0)
            r += tl.sum(tanh(q[:, None, :] + k[None, :, :]) * energy[None, None, :], 2)
    return r


@triton.jit
def cell_of(h, i, j, L, S, columns, END: tl.constexpr, OFFSET: tl.constexpr, REACH: tl.constexpr):
    """Where a table (H, columns) of numbers by j − i keeps that of head h, clipped to ± REACH."""
    place = i
    if END:
        place = i + (S - L)
    step = tl.minimum(tl.maximum(j[None, :] - place[:, None], -REACH), REACH)
    return h * columns + OFFSET + REACH + step


@triton.jit
def stepped(
    r, ROW, TABLE, NUMBERS, row_at, h, H, i, j, L, S, columns, STEPS: tl.constexpr, FROM: tl.constexpr,
):  # fmt: skip
    """(s, ds / ds′): the score after all its STEPS, and its slope in what it is before step number FROM.

    A step is (code, whether the last query stands at the last key, offset, reach); NUMBERS (steps, H).
    """
    s, slope = r, r * 0.0 + 1.0
    for n in tl.static_range(len(STEPS)):
        number = tl.load(NUMBERS + n * H + h)
        if STEPS[n][0] == ROW_STEP:
            s += tl.load(ROW + row_at + i, mask=i < L, other=0.0)[:, None]
        elif STEPS[n][0] == CAP_STEP:
            t = tanh(s / number)
            s = number * t
            if n >= FROM:
                slope *= 1.0 - t * t
        elif STEPS[n][0] == SLOPE_STEP:
            place = i
            if STEPS[n][1]:
                place = i + (S - L)
            s -= number * tl.abs(place[:, None] - j[None, :])
        elif STEPS[n][0] == TABLE_STEP:
            s += tl.load(TABLE + cell_of(h, i, j, L, S, columns, STEPS[n][1], STEPS[n][2], STEPS[n][3]))
        else:
            s *= number
            if n >= FROM:
                slope *= number
    return s, slope


@triton.jit
def weights(s, seen, lse, top, threshold, alpha, NORMAL: tl.constexpr):
    """(p, log p, u), with dp = u · (ds − Σ u ds / Σ u); log p is 0 where p is.

    Softmax: p = exp(s − lse), u = p. Entmax: p = [(α−1)(s − top) − t]₊^{1/(α−1)}, u = p^{2−α}.
    """
    if NORMAL == SOFTMAX:
        log_p = tl.where(seen, s - lse[:, None], 0.0)
        p = tl.where(seen, tl.exp(log_p), 0.0)
        u = p
    else:
        power = 1.0 / (alpha - 1.0)
        above = (alpha - 1.0) * (s - top[:, None]) - threshold[:, None]
        inside = seen & (above > 0)
        log_above = tl.log(tl.where(inside, above, 1.0))
        log_p = power * log_above
        p = tl.where(inside, tl.exp(log_p), 0.0)
        u = tl.where(inside, tl.exp((power - 1.0) * log_above), 0.0)
    return p, log_p, u


@triton.jit
def places_apart(i, j, L, S):
    """|i − j|, the last query standing at the last key."""
    return tl.abs((i + (S - L))[:, None] - j[None, :])
