"""Law 9, prime shapes: a swapped axis does not pass."""

from __future__ import annotations

import pytest

import regard
from regard import RegardError
from regard.grid import Grid
from tests.laws.every import every_score
from tests.laws.scores import SCORES
from tests.laws.shapes import EVEN, A, B, D, E, G, H, L, S
from tests.laws.truth import inputs, score_part


def test_law_9_no_two_axes_have_the_same_size() -> None:
    sizes = [B, G, H, L, S, D, E, A, EVEN]
    assert len(set(sizes)) == len(sizes)
    assert all(all(n % d for d in range(2, n)) for n in (B, G, L, S, D, E, A))


@every_score
def test_law_9_a_swapped_axis_does_not_pass(scored: str) -> None:
    q, k, v = inputs(scored)
    part = score_part(scored)
    swaps = [
        (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)),  # (B, L, H, D)
        (q.transpose(2, 3), k, v),
        (q, k.transpose(2, 3), v),
        (q, k, v.transpose(2, 3)),
        (q, k.transpose(1, 2), v.transpose(1, 2)),
        (q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)),
    ]
    for number, swapped in enumerate(swaps):
        if number == 5 and not SCORES[scored].placed and "per head" not in scored:
            continue  # (H, B, …): two heads over two heads are a read of their own
        with pytest.raises((RegardError, RuntimeError)):
            regard.attend(*swapped, score=part)


def test_the_grid_of_the_tests_is_the_grid_of_the_package() -> None:
    assert Grid.of(B, H, L, S).shape == (B, H, L, S)
