"""The likeliest place of each generated word by its posteriors, NULL where that is likelier than any."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.align.places import Found
from regard.align.view import Block, View
from regard.kernels.compile import kernel
from regard.kernels.workers import share

__all__ = ["likeliest"]

Array = np.ndarray[Any, Any]


def likeliest(view: View, block: Block, found: Found, threads: int | None = None) -> Array:
    """int32, for each generated word of the block: argmax_i p(i|j), the first of equals; −1 for NULL.

    Where words look independently of each other (Models 1 and 2) this is the likeliest alignment; elsewhere it is the
    one with the fewest expected errors."""
    _, gives, _, gets, _, starts, turned = view.layout()
    places = np.empty(int(gets[block.last] - gets[block.first]), np.int32)
    share(
        _argmax, block.runs, gives, gets, starts, turned, block.base, gets[block.first], found.post, found.null, places,
        threads=threads,
    )  # fmt: skip
    return places


@kernel
def _argmax(gives, gets, starts, turned, base, origin, post, null, places, first, last):
    for s in range(first, last):
        l, m = gives[s + 1] - gives[s], gets[s + 1] - gets[s]
        along, across = (1, l) if turned else (m, 1)
        for j in range(m):
            cell = starts[s] - base + j * across
            best, place = null[gets[s] + j], -1
            for i in range(l):
                if post[cell + i * along] > best:
                    best, place = post[cell + i * along], i
            places[gets[s] + j - origin] = place
