"""Tables and alignments as the innermost loops see them: addresses and sizes, and nothing that counts who holds them.

An array that is passed on is counted, and two threads that count the same table wait for each other at every look into
it. Whoever calls holds the arrays; here are only where they begin.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import errors
from numba.extending import intrinsic

from regard.align.fertility.tables import TAIL
from regard.kernels.compile import kernel

_HALF = math.log(0.5)
_FIRST = math.log(1.0 - TAIL)
_NEXT = math.log(TAIL)


@intrinsic
def begin_of(typing, array):
    """Where an array's numbers begin; ``begin_of(a)[k]`` is its k-th. It must lie row by row."""
    if array.layout != "C":
        raise errors.TypingError("an array that lies row by row is wanted")

    def code(context, builder, signature, args):
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), code


class State(NamedTuple):
    """``Cepts``, bare."""

    m: Any
    l: Any
    of: Any
    after: Any
    first: Any
    total: Any
    size: Any


class Steps(NamedTuple):
    """Model 4's tables, and the classes of the words at hand."""

    source: Any
    target: Any
    start: Any  # the class of no word
    kinds: Any  # B
    most: Any  # K
    head: Any
    wide: Any  # K + 1
    body: Any


class Gaps(NamedTuple):
    """Model 5's tables, and the classes of the words at hand."""

    target: Any
    free: Any  # V
    opening: Any
    onward: Any
    reach: Any  # M
    lean: Any
    leans: Any
    stride: Any
    strides: Any


class Sums(NamedTuple):
    """``Counts`` of Models 4 and 5, bare, and the classes of the words at hand."""

    source: Any
    target: Any
    start: Any
    kinds: Any
    most: Any
    head: Any
    wide: Any
    body: Any
    free: Any
    opening: Any
    onward: Any
    near: Any  # K of Model 5's differences
    lean: Any
    far: Any
    stride: Any


@kernel
def state_of(cepts):
    return State(
        np.int64(len(cepts.of)), np.int64(len(cepts.size) - 1), begin_of(cepts.of), begin_of(cepts.after),
        begin_of(cepts.first), begin_of(cepts.total), begin_of(cepts.size),
    )  # fmt: skip


@kernel
def steps_of(sentence, tables):
    return Steps(
        begin_of(sentence.source), begin_of(sentence.target), np.int64(tables.head.shape[0] - 1),
        np.int64(tables.head.shape[1]), np.int64((tables.head.shape[2] - 1) // 2), begin_of(tables.head),
        np.int64(tables.body.shape[1]), begin_of(tables.body),
    )  # fmt: skip


@kernel
def gaps_of(sentence, tables):
    return Gaps(
        begin_of(sentence.target), np.int64(tables.onward.shape[1] - 1), begin_of(tables.opening),
        begin_of(tables.onward), np.int64((tables.lean.shape[1] - 1) // 2), begin_of(tables.lean),
        begin_of(tables.leans), begin_of(tables.stride), begin_of(tables.strides),
    )  # fmt: skip


@kernel
def sums_of(sentence, counts):
    return Sums(
        begin_of(sentence.source), begin_of(sentence.target), np.int64(counts.head.shape[0] - 1),
        np.int64(counts.head.shape[1]), np.int64((counts.head.shape[2] - 1) // 2), begin_of(counts.head),
        np.int64(counts.body.shape[1]), begin_of(counts.body), np.int64(counts.onward.shape[1] - 1),
        begin_of(counts.opening), begin_of(counts.onward), np.int64((counts.lean.shape[1] - 1) // 2),
        begin_of(counts.lean), np.int64(counts.stride.shape[1]), begin_of(counts.stride),
    )  # fmt: skip


@kernel
def log_fertility(row, last, phi):
    """log n(φ|e) from the ``last`` + 1 logarithms of e's table."""
    return np.float64(row[phi]) if phi < last else np.float64(row[last]) + (phi - last + 1) * _HALF


@kernel
def log_head(steps, a, b, step):
    """log d_1(Δ|A, B)."""
    most = steps.most
    near = min(max(step, -most), most)
    x = np.float64(steps.head[(a * steps.kinds + b) * (2 * most + 1) + near + most])
    return x if abs(step) < most else x + _FIRST + (abs(step) - most) * _NEXT


@kernel
def log_body(steps, b, step):
    """log d_>1(Δ|B)."""
    most = steps.wide - 1
    x = np.float64(steps.body[b * steps.wide + min(step, most)])
    return x if step < most else x + _FIRST + (step - most) * _NEXT


@kernel
def log_opening(gaps, b, room, before, v):
    """log d_1(v|B, v_c, max)."""
    wide = gaps.free + 1
    if room < wide and before < wide:
        return np.float64(gaps.opening[((b * wide + room) * wide + before) * wide + v])
    zero = gaps.reach - before
    start = b * (2 * gaps.reach + 2) + zero + 1
    possible = gaps.leans[start + room] - gaps.leans[start]
    return np.float64(gaps.lean[b * (2 * gaps.reach + 1) + v + zero]) - math.log(possible)


@kernel
def log_onward(gaps, b, room, step):
    """log d_>1(Δv|B, max)."""
    wide = gaps.free + 1
    if room < wide:
        return np.float64(gaps.onward[(b * wide + room) * wide + step])
    start = b * (gaps.reach + 2) + 1
    possible = gaps.strides[start + room] - gaps.strides[start]
    return np.float64(gaps.stride[b * (gaps.reach + 1) + step]) - math.log(possible)


@kernel
def add_head(sums, a, b, step, weight):
    """One more d_1(Δ|A, B), of Model 4."""
    most = sums.most
    sums.head[(a * sums.kinds + b) * (2 * most + 1) + min(max(step, -most), most) + most] += weight


@kernel
def add_body(sums, b, step, weight):
    """One more d_>1(Δ|B)."""
    sums.body[b * sums.wide + min(step, sums.wide - 1)] += weight


@kernel
def add_opening(sums, b, room, before, v, weight):
    """One more d_1(v|B, v_c, max), of Model 5."""
    wide, near = sums.free + 1, sums.near
    if room < wide and before < wide:
        sums.opening[((b * wide + room) * wide + before) * wide + v] += weight
    sums.lean[b * (2 * near + 1) + min(max(v - before, -near), near) + near] += weight


@kernel
def add_onward(sums, b, room, step, weight):
    """One more d_>1(Δv|B, max)."""
    wide = sums.free + 1
    if room < wide:
        sums.onward[(b * wide + room) * wide + step] += weight
    sums.stride[b * sums.far + min(step, sums.far - 1)] += weight
