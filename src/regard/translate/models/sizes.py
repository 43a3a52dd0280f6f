"""What the sizes of a model are made of: numbers, names and choices that a command line can ask for by themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypeAlias

from regard.errors import RegardError

__all__ = ["Described", "Size", "Sizes", "choice", "flag", "sizes_of", "whole"]

Size: TypeAlias = int | str | bool


@dataclass(frozen=True, kw_only=True)
class Sizes(ABC):
    """The sizes of a translator; each architecture adds its own, made by :func:`whole`, :func:`choice` or :func:`flag`.

    Raises:
        RegardError: a size that cannot be (names it, what was found and what was wanted).
    """

    source_vocabulary: int
    target_vocabulary: int
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("source_vocabulary", "target_vocabulary"):
            _whole(name, getattr(self, name), 1)
        if not 0.0 <= self.dropout < 1.0:
            raise RegardError(f"dropout: found {self.dropout}, wanted a number in [0, 1)")
        for each in sizes_of(type(self)):
            found = getattr(self, each.name)
            if each.names and found not in each.names:
                raise RegardError(f"{each.name}: found {found!r}, wanted {' or '.join(each.names)}")
            if isinstance(each.default, bool):
                if not isinstance(found, bool):
                    raise RegardError(f"{each.name}: found {found!r}, wanted True or False")
            elif isinstance(each.default, int):
                _whole(each.name, found, each.least)

    @property
    @abstractmethod
    def parameters(self) -> int:
        """How many numbers a model of these sizes learns."""


def whole(default: int, says: str, least: int = 1) -> Any:
    """A size that is a whole number of at least ``least``; ``says`` is what it is, as a help text has it."""
    return field(default=default, metadata=_told(says, least=least))


def choice(default: str, says: str, *names: str) -> Any:
    """One of ``names``."""
    return field(default=default, metadata=_told(says, names=names))


def flag(default: bool, says: str) -> Any:
    """True or False."""
    return field(default=default, metadata=_told(says))


def _told(says: str, least: int = 1, names: tuple[str, ...] = ()) -> Mapping[str, Any]:
    return MappingProxyType({"says": says, "least": least, "names": names})


@dataclass(frozen=True)
class Described:
    """A size as a person asks for it: what it ``says``, its ``default``, its ``least`` if a number, its ``names`` if a
    choice."""

    name: str
    default: Size
    says: str
    least: int
    names: tuple[str, ...]


def sizes_of(config: type[Sizes]) -> list[Described]:
    """The sizes an architecture has of its own, in their order."""
    own = [each for each in fields(config) if "says" in each.metadata]
    # whole, choice and flag always give a default
    return [Described(name=each.name, default=each.default, **each.metadata) for each in own]  # type: ignore[arg-type]


def _whole(name: str, found: object, least: int) -> None:
    if not isinstance(found, int) or isinstance(found, bool) or found < least:
        raise RegardError(f"{name}: found {found!r}, wanted a whole number of at least {least}")
