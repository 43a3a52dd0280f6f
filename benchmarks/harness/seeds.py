"""The seeds that somebody asked for."""

from __future__ import annotations

from regard.errors import RegardError

__all__ = ["numbers_of"]


def numbers_of(text: str) -> list[int]:
    """Whole numbers with commas between.

    Raises:
        RegardError: something else, a number twice, or one below 0.

    >>> numbers_of("0,1,2")
    [0, 1, 2]
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise RegardError(f"--seeds: found {text!r}, wanted whole numbers with commas between, as 0,1,2") from None
    if len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise RegardError(f"--seeds: found {text!r}, wanted each number once, none below 0")
    return numbers
