"""Batches: every pair once, bounded, and in an order that depends on seed and epoch alone."""

from __future__ import annotations

import random

import pytest

from regard.errors import RegardError
from regard.translate.text.batches import collate, plan
from regard.translate.text.vocabulary import BOS, EOS, PAD


def lengths(count: int) -> list[tuple[int, int]]:
    draw = random.Random(7)
    return [(draw.randint(1, 29), draw.randint(1, 31)) for _ in range(count)]


def test_every_pair_once_and_within_bounds() -> None:
    sizes = lengths(997)
    batches = plan(sizes, tokens=211, seed=3, epoch=0)
    assert sorted(n for batch in batches for n in batch) == list(range(997))
    for batch in batches:
        assert len(batch) * (max(sizes[n][0] for n in batch) + max(sizes[n][1] for n in batch)) <= 211


def test_targets_in_a_batch_are_of_like_length() -> None:
    sizes = lengths(9973)
    batches = plan(sizes, tokens=1009, seed=3, epoch=0)
    padding = sum(max(sizes[n][1] for n in b) * len(b) - sum(sizes[n][1] for n in b) for b in batches)
    assert padding < 0.02 * sum(b for _, b in sizes)


def test_order_is_a_pure_function_of_seed_and_epoch() -> None:
    sizes = lengths(97)
    first = plan(sizes, tokens=211, seed=3, epoch=2)
    random.seed(99)
    assert plan(sizes, tokens=211, seed=3, epoch=2) == first
    assert plan(sizes, tokens=211, seed=3, epoch=3) != first
    assert plan(sizes, tokens=211, seed=4, epoch=2) != first


def test_a_pair_longer_than_a_batch() -> None:
    with pytest.raises(RegardError, match=r"batch tokens: 10 is less than pair 2 alone needs \(5 \+ 7\)"):
        plan([(2, 3), (5, 7)], tokens=10, seed=0, epoch=0)


def test_collate_pads_and_shifts() -> None:
    batch = collate([[5, 6, EOS], [7, EOS]], [[8, EOS], [9, 10, 11, EOS]])
    assert batch.source.tolist() == [[5, 6, EOS], [7, EOS, PAD]]
    assert batch.previous.tolist() == [[BOS, 8, EOS, PAD], [BOS, 9, 10, 11]]
    assert batch.target.tolist() == [[8, EOS, PAD, PAD], [9, 10, 11, EOS]]
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.target_lengths.tolist() == [2, 4]
