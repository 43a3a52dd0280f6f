"""What regard raises and warns: one sentence with what was found, what was wanted and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RegardError(ValueError):
    """A mistake in what was asked for: a shape, a name, a file. The message is one line."""


class RegardWarning(UserWarning):
    """Something is probably wrong in what was given, though it can be run."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> RegardError:
    """The error for a name that is not in a table: lists the table and suggests the nearest entry.

    >>> print(unknown_name("score", "scaled-dot", ["dot", "scaled_dot"]))
    score: unknown name 'scaled-dot'; did you mean 'scaled_dot'? Known: dot, scaled_dot
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return RegardError(f"{kind}: unknown name {name!r}{hint} Known: {', '.join(names)}")
