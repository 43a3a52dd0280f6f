"""Sentences as vectors, and time: the paper's formula, the authors' code, and ages with gaps."""

from __future__ import annotations

import pytest
import torch

from regard.errors import RegardError
from regard.memory.episodic import Linear, TimeTable, bag_of_words, position_encoding, with_empty


@pytest.mark.parametrize(("J", "d"), [(1, 1), (2, 3), (5, 7), (11, 2)])
def test_position_encoding_is_the_papers(J: int, d: int) -> None:
    """Section 4.1, equation of l_kj, in Python's own numbers."""
    torch.set_default_dtype(torch.float64)
    found = position_encoding(torch.ones(J, dtype=torch.bool), d)
    for j in range(1, J + 1):
        for k in range(1, d + 1):
            assert abs(float(found[j - 1, k - 1]) - ((1 - j / J) - (k / d) * (1 - 2 * j / J))) < 1e-14


@pytest.mark.parametrize(("J", "d"), [(2, 3), (5, 7), (7, 20)])
def test_the_authors_code_is_twice_that_at_half_shifted_indices(J: int, d: int) -> None:
    """1 + 4 (k − (d+1)/2) (j − (J+1)/2) / (dJ) = 2 l at j − ½ and k − ½. On a grid of halves, l is what we compute."""
    torch.set_default_dtype(torch.float64)
    halves = position_encoding(torch.ones(2 * J, dtype=torch.bool), 2 * d)[::2, ::2]  # j = ½, 3⁄2, … of J; k of d
    for j in range(1, J + 1):
        for k in range(1, d + 1):
            code = 1 + 4 * (k - (d + 1) / 2) * (j - (J + 1) / 2) / (d * J)
            assert abs(2 * float(halves[j - 1, k - 1]) - code) < 1e-14


def test_a_sentence_is_as_long_as_it_is_not_as_it_is_padded() -> None:
    words = torch.tensor([[True, True, True, False, False], [True] * 5, [False] * 5])
    found = position_encoding(words, 7)
    assert torch.equal(found[0, :3], position_encoding(torch.ones(3, dtype=torch.bool), 7))
    assert found[0, 3:].abs().max() == 0
    assert not torch.equal(found[0, :3], found[1, :3])
    assert found[2].abs().max() == 0
    bag = bag_of_words(words, 3)
    assert torch.equal(bag, words.unsqueeze(-1).expand(-1, -1, 3).float())


def test_order_counts_by_position_and_not_in_a_bag() -> None:
    a, b = torch.randn(2, 3, 5)  # the same three words in two orders
    b = a.flip(0)
    words = torch.ones(3, dtype=torch.bool)
    assert not torch.allclose((position_encoding(words, 5) * a).sum(0), (position_encoding(words, 5) * b).sum(0))
    torch.testing.assert_close((bag_of_words(words, 5) * a).sum(0), (bag_of_words(words, 5) * b).sum(0))


def test_a_time_table_adds_by_age() -> None:
    table = TimeTable(torch.randn(3, 7, 2), torch.randn(3, 7, 2))
    k, v = table.at(torch.tensor([4, 1, 0]))
    assert k.shape == v.shape == (1, 3, 3, 2)
    assert torch.equal(k[0, 1], table.keys[1, [4, 1, 0]])
    rows = torch.tensor([[6, 5, 0], [2, 1, 0]])
    k, v = table.at(rows)
    assert torch.equal(v[1, 2], table.values[2, [2, 1, 0]])
    with pytest.raises(RegardError, match="a fact of age 7, the table has ages 0 to 6"):
        table.at(torch.tensor([7, 0]))
    with pytest.raises(RegardError, match="wanted both"):
        TimeTable(torch.randn(3, 7, 2), torch.randn(3, 7, 3))


def test_empty_memories_take_places_in_time() -> None:
    ages = torch.arange(12, -1, -1).expand(5000, -1)
    found = with_empty(ages, 0.25, torch.Generator().manual_seed(0))
    gaps = found - ages
    assert bool((gaps.diff(dim=1) <= 0).all())
    # each of the 13 − i facts from i on has an empty memory behind it with probability ¼
    wanted = 0.25 * torch.arange(13, 0, -1)
    spread = (0.25 * 0.75 * torch.arange(13, 0, -1) / 5000).sqrt()
    assert bool(((gaps.double().mean(0) - wanted).abs() < 4.5 * spread).all())
    assert torch.equal(with_empty(ages, 0.0), ages)
    with pytest.raises(RegardError, match="share is 1"):
        with_empty(ages, 1.0)


def test_linear_weights_are_the_scores() -> None:
    s = torch.tensor([3.0, -2.0, -torch.inf], requires_grad=True)
    w = Linear()(s)
    assert w.tolist() == [3.0, -2.0, 0.0]
    assert torch.autograd.grad(w.sum(), s)[0].tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(RegardError, match="wanted booleans"):
        position_encoding(torch.ones(3), 2)
