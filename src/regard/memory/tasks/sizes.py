"""Sizes: their bounds, one drawn from a range, and things drawn so that no two are the same."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.errors import RegardError


def check_least(who: str, name: str, value: int, least: int) -> None:
    """Raises unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RegardError(f"{who}: {name} is {value!r}, wanted a whole number of at least {least}")


def check_range(who: str, name: str, value: tuple[int, int], least: int) -> None:
    """Raises unless ``value`` is (smallest, largest), whole numbers, the smallest at least ``least``."""
    pair = isinstance(value, tuple) and len(value) == 2 and all(type(n) is int for n in value)
    if not pair or not least <= value[0] <= value[1]:
        raise RegardError(f"{who}: {name} is {value!r}, wanted (smallest, largest) with {least} ≤ smallest ≤ largest")


def one_of(sizes: tuple[int, int], generator: torch.Generator) -> int:
    """A size between the smallest and the largest, both included, each as likely."""
    return int(torch.randint(sizes[0], sizes[1] + 1, (), generator=generator))


def bits(*shape: int, generator: torch.Generator) -> Tensor:
    """Fair bits as numbers 0 and 1."""
    return torch.randint(0, 2, shape, generator=generator).float()


def distinct(rows: int, count: int, kinds: int, generator: torch.Generator) -> Tensor:
    """In each row ``count`` different numbers below ``kinds``, every choice and order as likely: (rows, count)."""
    if kinds <= 4096 or kinds < 4 * count:
        return torch.rand(rows, kinds, generator=generator, dtype=torch.float64).argsort(-1)[:, :count]
    found = torch.randint(kinds, (rows, count), generator=generator)
    while True:  # few rows hold a number twice, and whole rows are drawn anew, so that none is likelier than another
        ordered = found.sort(-1).values
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(-1)
        if not bool(twice.any()):
            return found
        found[twice] = torch.randint(kinds, (int(twice.sum()), count), generator=generator)
