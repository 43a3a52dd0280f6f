"""What somebody asked to be trained, as it was written on the command line, checked before anything slow begins."""

from __future__ import annotations

from collections.abc import Iterable

from regard.errors import RegardError, unknown_name

__all__ = ["at_least_one", "names", "seeds_of"]


def names(option: str, text: str | None, known: Iterable[str]) -> list[str]:
    """Names with commas between, each of them known; all that are known where nothing was asked.

    Raises:
        RegardError: one is not known (lists those that are).

    >>> names("--model", "cho,luong", ["cho", "luong", "bahdanau"])
    ['cho', 'luong']
    """
    table = list(known)
    asked = table if text is None else text.split(",")
    for name in asked:
        if name not in table:
            raise unknown_name(option, name, table)
    return asked


def seeds_of(text: str) -> list[int]:
    """Whole numbers with commas between.

    Raises:
        RegardError: something else, a number twice, or one below 0.

    >>> seeds_of("0,1,2")
    [0, 1, 2]
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise RegardError(f"--seeds: found {text!r}, wanted whole numbers with commas between, as 0,1,2") from None
    if len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise RegardError(f"--seeds: found {text!r}, wanted each number once, none below 0")
    return numbers


def at_least_one(option: str, number: int | None) -> None:
    """Passes over what was not asked.

    Raises:
        RegardError: a number below 1.
    """
    if number is not None and number < 1:
        raise RegardError(f"{option}: found {number}, wanted at least 1")
