"""Tests that measure time, or must act in time, run while no other does; several workers run the rest side by side."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


class Room:
    """Any number of workers may be in it together, or one that is alone.

    Who wants to be alone holds the door until those inside have left, so that others entering do not make it wait for
    ever. Both are locks on files: a worker that dies lets go of them.
    """

    def __init__(self, folder: Path) -> None:
        self.inside, self.door = (os.open(folder / name, os.O_CREAT | os.O_RDWR, 0o600) for name in ("inside", "door"))

    @contextlib.contextmanager
    def entered(self, alone: bool) -> Iterator[None]:
        import fcntl  # where there is none, there are no workers either

        fcntl.flock(self.door, fcntl.LOCK_EX)
        try:
            fcntl.flock(self.inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        finally:
            fcntl.flock(self.door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self.inside, fcntl.LOCK_UN)
