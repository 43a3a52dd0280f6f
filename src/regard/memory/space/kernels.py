"""The selective scan h_t = Ā_t ∘ h_{t−1} + B̄_t x_t, y_t = C_t h_t, over time, channels next to each other in a vector.

A task is a run of channels of one head of one batch row; it walks through time with their states in its cache. Nothing
of size (L, E, N) is made: backward starts from states kept every so many steps, and makes those between again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from regard.kernels.compile import kernel
from regard.kernels.vector import exp, like, wide_vectors


class Given(NamedTuple):
    """A scan as arrays; units U are heads of batch rows, b · H + h."""

    q: Any  # C (U, L, N)
    k: Any  # B (U, L, N)
    v: Any  # x (U, L, E)
    delta: Any  # Δ (U, L, E)
    A: Any  # (H, N, E), below 0
    h: Any  # the state before (U, N, E)
    kept: Any  # states before steps 0, every, 2 · every, … (U, steps, N, E)
    every: Any  # 0 where none are kept
    hold: Any  # zero-order hold, else B̄ = ΔB
    width: Any  # channels of a task


class Slopes(NamedTuple):
    """Gradients: of what forward gave, and room for those of what it was given."""

    y: Any
    last: Any
    q: Any  # (tasks of a unit, U, L, N): each with sums of its own
    k: Any
    v: Any
    delta: Any
    A: Any  # (U, N, E)
    h: Any


@kernel
def forward(g, y, last, first, stop):
    """Writes y (U, L, E), the state after the last step (U, N, E), and what is to be kept."""
    wide_vectors()
    L, E = g.v.shape[1:]
    blocks = (E + g.width - 1) // g.width
    for task in range(first, stop):
        n, a, e = task // blocks, task % blocks * g.width, min((task % blocks + 1) * g.width, E)
        A = g.A[n % g.A.shape[0], :, a:e].copy()
        h, u, zero = g.h[n, :, a:e].copy(), np.empty(e - a, g.v.dtype), like(g.v[0, 0, 0], 0)
        for t in range(L):
            if g.every > 0 and t % g.every == 0:
                g.kept[n, t // g.every, :, a:e] = h
            d, x, out = g.delta[n, t, a:e], g.v[n, t, a:e], y[n, t, a:e]
            for c in range(out.shape[0]):
                out[c] = zero
                u[c] = d[c] * x[c]
            if g.hold:
                _hold(h, d, x, A, g.k[n, t], g.q[n, t], out)
            else:
                _euler(h, d, u, A, g.k[n, t], g.q[n, t], out)
        last[n, :, a:e] = h


# What follows does a step for all states of a run of channels: h, A (N, channels), B and C (N,), the rest (channels,).


@kernel
def _euler(h, d, u, A, B, C, out):
    wide_vectors()
    for n in range(h.shape[0]):
        b, q = B[n], C[n]
        for c in range(h.shape[1]):
            h[n, c] = exp(d[c] * A[n, c]) * h[n, c] + b * u[c]
            out[c] += q * h[n, c]


@kernel
def _hold(h, d, x, A, B, C, out):
    wide_vectors()
    for n in range(h.shape[0]):
        b, q = B[n], C[n]
        for c in range(h.shape[1]):
            z = d[c] * A[n, c]
            decay = exp(z)
            h[n, c] = decay * h[n, c] + b * x[c] * _gain(z, decay, d[c], A[n, c])
            out[c] += q * h[n, c]


@kernel
def backward(g, s, first, stop):
    """Writes all gradients. States between two that were kept are made again, with their decays."""
    wide_vectors()
    L, N = g.k.shape[1:]
    E = g.v.shape[2]
    blocks = (E + g.width - 1) // g.width
    for task in range(first, stop):
        n, part = task // blocks, task % blocks
        a, e = part * g.width, min((part + 1) * g.width, E)
        A = g.A[n % g.A.shape[0], :, a:e].copy()
        pull, to_A = s.last[n, :, a:e].copy(), np.zeros((N, e - a), A.dtype)  # pull: what comes from the steps after
        states, decays = np.empty((g.every + 1, N, e - a), A.dtype), np.empty((g.every, N, e - a), A.dtype)
        through, zero = np.empty(e - a, A.dtype), like(A[0, 0], 0)
        for run in range((L + g.every - 1) // g.every - 1, -1, -1):
            start, end = run * g.every, min((run + 1) * g.every, L)
            states[0] = g.kept[n, run, :, a:e]
            for t in range(start, end):
                i, d, x = t - start, g.delta[n, t, a:e], g.v[n, t, a:e]
                if g.hold:
                    _again_hold(states[i], states[i + 1], decays[i], d, x, A, g.k[n, t])
                else:
                    _again_euler(states[i], states[i + 1], decays[i], d, x, A, g.k[n, t])
            for t in range(end - 1, start - 1, -1):
                i, d, x, dy = t - start, g.delta[n, t, a:e], g.v[n, t, a:e], s.y[n, t, a:e]
                to_d, to_x = s.delta[n, t, a:e], s.v[n, t, a:e]
                for c in range(through.shape[0]):
                    to_d[c] = zero
                    through[c] = zero
                here, before, decay, B, C = states[i + 1], states[i], decays[i], g.k[n, t], g.q[n, t]
                to_B, to_C = s.k[part, n, t], s.q[part, n, t]
                if g.hold:
                    _back_hold(pull, here, before, decay, d, x, dy, A, B, C, through, to_d, to_A, to_B, to_C)
                    to_x[:] = through
                else:
                    _back_euler(pull, here, before, decay, d, x, dy, A, B, C, through, to_d, to_A, to_B, to_C)
                    for c in range(through.shape[0]):
                        to_x[c] = through[c] * d[c]
                        to_d[c] += through[c] * x[c]
        s.A[n, :, a:e] = to_A
        s.h[n, :, a:e] = pull


@kernel
def _again_euler(before, here, decay, d, x, A, B):
    wide_vectors()
    for n in range(here.shape[0]):
        b = B[n]
        for c in range(here.shape[1]):
            decay[n, c] = exp(d[c] * A[n, c])
            here[n, c] = decay[n, c] * before[n, c] + b * d[c] * x[c]


@kernel
def _again_hold(before, here, decay, d, x, A, B):
    wide_vectors()
    for n in range(here.shape[0]):
        b = B[n]
        for c in range(here.shape[1]):
            z = d[c] * A[n, c]
            decay[n, c] = exp(z)
            here[n, c] = decay[n, c] * before[n, c] + b * x[c] * _gain(z, decay[n, c], d[c], A[n, c])


@kernel
def _back_euler(pull, here, before, decay, d, x, dy, A, B, C, through, to_d, to_A, to_B, to_C):
    """One step back; ``through`` gathers Σ_n g B, which both x and Δ take."""
    wide_vectors()
    for n in range(pull.shape[0]):
        b, q, of_b, of_q = B[n], C[n], like(B[n], 0), like(B[n], 0)
        for c in range(pull.shape[1]):
            g = pull[n, c] + q * dy[c]  # ∂/∂h_t
            of_q += dy[c] * here[n, c]
            of_b += g * d[c] * x[c]
            through[c] += g * b
            z = g * decay[n, c] * before[n, c]  # ∂/∂(ΔA)
            to_d[c] += z * A[n, c]
            to_A[n, c] += z * d[c]
            pull[n, c] = g * decay[n, c]
        to_B[n], to_C[n] = of_b, of_q


@kernel
def _back_hold(pull, here, before, decay, d, x, dy, A, B, C, through, to_d, to_A, to_B, to_C):
    """The same with B̄ = w B: ∂w/∂Δ = Ā and ∂w/∂A = (ΔĀ − w)/A; ``through`` is the gradient of x."""
    wide_vectors()
    for n in range(pull.shape[0]):
        b, q, of_b, of_q = B[n], C[n], like(B[n], 0), like(B[n], 0)
        for c in range(pull.shape[1]):
            step = d[c] * A[n, c]
            w = _gain(step, decay[n, c], d[c], A[n, c])
            g = pull[n, c] + q * dy[c]
            of_q += dy[c] * here[n, c]
            of_b += g * w * x[c]
            through[c] += g * b * w
            z = g * decay[n, c] * before[n, c]
            to_d[c] += z * A[n, c] + g * b * x[c] * decay[n, c]
            near, far = d[c] * d[c] * _slope(step), (d[c] * decay[n, c] - w) / A[n, c]
            to_A[n, c] += z * d[c] + g * b * x[c] * (near if step > like(step, -0.5) else far)
            pull[n, c] = g * decay[n, c]
        to_B[n], to_C[n] = of_b, of_q


def _gain(z, decay, d, A):
    """w = (Ā − 1)/A = Δ φ(ΔA), φ(z) = (eᶻ − 1)/z; where Ā is near 1 the difference would lose its digits."""


@overload(_gain, inline="always")
def _gain_of(z, decay, d, A):
    def code(z, decay, d, A):
        return d * _ratio(z) if z > like(z, -0.5) else (decay - like(z, 1)) / A

    return code


def _ratio(z):
    """φ(z) = Σ zᵏ/(k+1)! for −½ ≤ z ≤ 0."""


@overload(_ratio, inline="always")
def _ratio_of(z):
    return _ratio32 if z == types.float32 else _ratio64


def _slope(z):
    """φ′(z) = Σ (k+1) zᵏ/(k+2)! for −½ ≤ z ≤ 0."""


@overload(_slope, inline="always")
def _slope_of(z):
    return _slope32 if z == types.float32 else _slope64


def _ratio32(z):
    p = np.float32(1 / 40320)
    p = p * z + np.float32(1 / 5040)
    p = p * z + np.float32(1 / 720)
    p = p * z + np.float32(1 / 120)
    p = p * z + np.float32(1 / 24)
    p = p * z + np.float32(1 / 6)
    p = p * z + np.float32(1 / 2)
    return p * z + np.float32(1)


def _ratio64(z):
    p = 1 / 87178291200
    p = p * z + 1 / 6227020800
    p = p * z + 1 / 479001600
    p = p * z + 1 / 39916800
    p = p * z + 1 / 3628800
    p = p * z + 1 / 362880
    p = p * z + 1 / 40320
    p = p * z + 1 / 5040
    p = p * z + 1 / 720
    p = p * z + 1 / 120
    p = p * z + 1 / 24
    p = p * z + 1 / 6
    p = p * z + 1 / 2
    return p * z + 1.0


def _slope32(z):
    p = np.float32(7 / 40320)
    p = p * z + np.float32(6 / 5040)
    p = p * z + np.float32(5 / 720)
    p = p * z + np.float32(4 / 120)
    p = p * z + np.float32(3 / 24)
    p = p * z + np.float32(2 / 6)
    return p * z + np.float32(1 / 2)


def _slope64(z):
    p = 13 / 87178291200
    p = p * z + 12 / 6227020800
    p = p * z + 11 / 479001600
    p = p * z + 10 / 39916800
    p = p * z + 9 / 3628800
    p = p * z + 8 / 362880
    p = p * z + 7 / 40320
    p = p * z + 6 / 5040
    p = p * z + 5 / 720
    p = p * z + 4 / 120
    p = p * z + 3 / 24
    p = p * z + 2 / 6
    return p * z + 1 / 2
