"""Whether every number is finite, asked by the kernels' own threads.

torch's sum would do, but the threads it wakes go on spinning for a while after it, on the cores the kernels then need.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from regard.kernels.compile import kernel
from regard.kernels.vector import like, wide_vectors
from regard.kernels.workers import cut, share


def all_finite(x: Tensor) -> bool:
    flat = x.detach().contiguous().view(-1).numpy()
    if not flat.size:
        return True
    runs = cut(flat.size, flat.size)
    bad = np.zeros(len(runs), np.bool_)
    share(_look, runs, flat, bad, np.int64(-(-flat.size // len(runs))))
    return not bad.any()


@kernel
def _look(x, bad, run, first, last):
    wide_vectors()
    largest = like(x[0], np.inf)
    wrong = np.int32(0)
    part = x[first:last]
    for j in range(part.shape[0]):
        wrong += np.int32(0) if abs(part[j]) < largest else np.int32(1)
    if wrong > 0:
        bad[min(first // run, bad.shape[0] - 1)] = True
