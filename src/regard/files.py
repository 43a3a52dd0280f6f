"""A file is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from regard.errors import RegardError

__all__ = ["replace"]


def replace(path: Path, data: bytes | Iterable[bytes | memoryview], argument: str = "out") -> None:
    """Puts ``data``, bytes or parts of them, at ``path``: written beside, flushed to the disk, renamed, so that an
    interrupt or a full disk leaves what stood there. ``argument`` is what asked for the file, for the error.

    Raises:
        RegardError: the disk is full or the place cannot be written; what stood at ``path`` still stands.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     replace(Path(folder, "note"), b"old")
    ...     replace(Path(folder, "note"), b"new")
    ...     print(Path(folder, "note").read_bytes(), len(list(Path(folder).iterdir())))
    b'new' 1
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        try:
            with open(beside, "wb") as file:
                parts = (data,) if isinstance(data, bytes) else data
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:  # an interrupt too leaves nothing beside
            beside.unlink(missing_ok=True)
            raise
        _flush_folder(path.parent)
    except OSError as error:
        raise RegardError(
            f"{argument}: cannot write {path}: {error.strerror}; the file of before is untouched: "
            "make room, or name a place that can be written, and run again"
        ) from error


def _flush_folder(folder: Path) -> None:
    """The rename itself reaches the disk, where a folder can be opened."""
    if os.name == "nt":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
