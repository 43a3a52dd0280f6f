"""Where a source line lies, said without naming the machine: below the working directory, or in a package."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path, PurePath

PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Place:
    """A file and a line. ``base`` says what ``path`` starts from: "SRCROOT" is the working directory, "PYTHONPATH" a
    folder that Python imports from, "" the root of the disk."""

    path: str
    line: int
    base: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


def place(source: str, here: Path | None = None) -> Place | None:
    """The place that ``source``, a ``file:line``, names; None where it names none.

    >>> print(place("/opt/lib/python3.11/site-packages/transformers/models/bert/modeling_bert.py:120"))
    transformers/models/bert/modeling_bert.py:120
    >>> place("")
    """
    if not source:
        return None
    name, _, number = source.rpartition(":")
    if not name or not number.isdigit():
        name, number = source, "0"
    file = PurePath(name)
    for at, part in enumerate(file.parts):
        if part in PACKAGES and at + 1 < len(file.parts):
            return Place(PurePath(*file.parts[at + 1 :]).as_posix(), int(number), "PYTHONPATH")
    if not file.is_absolute():
        return Place(file.as_posix(), int(number), "SRCROOT")
    roots = [("SRCROOT", here or Path.cwd()), *(("PYTHONPATH", Path(each)) for each in sys.path if each)]
    for base, root in roots:
        if file.is_relative_to(root) and root != Path(root.anchor):
            return Place(file.relative_to(root).as_posix(), int(number), base)
    return Place(file.as_posix(), int(number), "")
