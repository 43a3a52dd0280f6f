"""Loops over one row of a tile, each written so that LLVM turns it into vector code; a row is a slice."""

from __future__ import annotations

import math

import numpy as np

from regard.kernels.compile import kernel
from regard.kernels.vector import dice, exp, larger, like, wide_vectors


@kernel
def top_of(row, low):
    wide_vectors()
    top = low
    for j in range(row.shape[0]):
        top = larger(top, row[j])
    return top


@kernel
def first_at(row, top, places):
    """Where ``top`` stands first, without a branch in the loop; ``places`` holds 0, 1, 2, …"""
    wide_vectors()
    back = -like(top, row.shape[0])
    for j in range(row.shape[0]):
        back = larger(back, -places[j] if row[j] == top else -like(top, row.shape[0]))
    return min(np.int64(-back), row.shape[0] - 1)  # a row of NaN has no top


@kernel
def powers(row, top):
    """row ← e = exp(s − m); Σ e and Σ e (s − m)."""
    wide_vectors()
    total, spent = like(top, 0), like(top, 0)
    for j in range(row.shape[0]):
        x = row[j] - top
        p = exp(x)
        total += p
        spent += p * x
        row[j] = p
    return total, spent


@kernel
def powers_and_distance(row, top, here, places):
    """The same, and Σ e |here − j|, in one loop: the row is read once. ``places`` holds 0, 1, 2, …"""
    wide_vectors()
    total, spent, far = like(top, 0), like(top, 0), like(top, 0)
    last = like(top, row.shape[0] - 1)
    if here >= last or here <= like(top, 0):  # all on one side: Σ e |here − j| = |here Σ e − Σ e j|
        for j in range(row.shape[0]):
            x = row[j] - top
            p = exp(x)
            total += p
            spent += p * x
            far += p * places[j]
            row[j] = p
        return total, spent, abs(here * total - far)
    for j in range(row.shape[0]):
        x = row[j] - top
        p = exp(x)
        total += p
        spent += p * x
        far += p * abs(here - places[j])
        row[j] = p
    return total, spent, far


@kernel
def inside_of(row, tags):
    wide_vectors()
    inside = like(row[0], 0)
    for j in range(row.shape[0]):
        inside += row[j] * tags[j]
    return inside


@kernel
def drop(row, rate, seed, i, j0):
    """Each number of row i with probability ``rate`` made 0 and the others made up for it; the row begins at key j0."""
    wide_vectors()
    limit = np.uint32(np.float64(rate) * 4294967296.0)
    kept = like(row[0], 1.0 / (1.0 - rate))
    for j in range(row.shape[0]):
        row[j] *= kept if dice(seed, np.uint32(i), np.uint32(j0 + j)) >= limit else like(kept, 0)


@kernel
def drop_at(weights, places, rate, seed):
    """What ``drop`` does to the one number of each row that stands at ``places``."""
    for i in range(places.shape[0]):
        drop(weights[i : i + 1], rate, seed, i, places[i])


@kernel
def moments_of(row, low, seen, moments):
    """The count, mean and summed squared deviation of a head's scores with this row's ``seen`` ones added, and its top.

    Parts are joined as Chan et al. (1979) do.
    """
    wide_vectors()
    origin, top, one, two = row[0], low, like(low, 0), like(low, 0)
    if seen == row.shape[0]:
        for j in range(row.shape[0]):
            x = row[j]
            top = larger(top, x)
            x -= origin
            one += x
            two += x * x
    else:
        for j in range(row.shape[0]):
            if row[j] > low:
                origin = row[j]
                break
        for j in range(row.shape[0]):
            x = row[j]
            top = larger(top, x)
            x = x - origin if x > low else like(low, 0)
            one += x
            two += x * x
    mean = one / seen
    count = moments[0] + seen
    off = origin + mean - moments[1]
    deviation = moments[2] + (two - one * mean) + off * off * (moments[0] * seen / count)
    return (count, moments[1] + off * (seen / count), deviation), top


@kernel
def merge_moments(blocks, out):
    """(N, blocks, 3) of count, mean and summed squared deviation → (N, 3) of count, mean and standard deviation."""
    for n in range(blocks.shape[0]):
        count, mean, deviation = 0.0, 0.0, 0.0
        for x in range(blocks.shape[1]):
            more = blocks[n, x, 0]
            if more > 0:
                off = blocks[n, x, 1] - mean
                deviation += blocks[n, x, 2] + off * off * (count * more / (count + more))
                mean += off * (more / (count + more))
                count += more
        out[n, 0], out[n, 1], out[n, 2] = count, mean, math.sqrt(max(deviation, 0.0) / max(count, 1.0))


@kernel
def add_distance(grad, c, here):
    wide_vectors()
    for j in range(grad.shape[0]):
        grad[j] += c * abs(here - like(c, j))


@kernel
def add(grad, c, x, level):
    wide_vectors()
    for j in range(grad.shape[0]):
        grad[j] += c * (x[j] - level)


@kernel
def weigh(row, grad, level, delta):
    """row ← w, grad ← w (x − Σ w x)."""
    wide_vectors()
    for j in range(row.shape[0]):
        p = exp(row[j] - level)
        grad[j] = p * (grad[j] - delta)
        row[j] = p


@kernel
def weigh_and_spread(row, grad, level, delta, flat, steep, low):
    """The same, and the spread's own gradient over what is seen, which is no weight's."""
    wide_vectors()
    for j in range(row.shape[0]):
        x = row[j]
        p = exp(x - level)
        grad[j] = p * (grad[j] - delta) + (flat + steep * x if x > low else like(low, 0))
        row[j] = p
