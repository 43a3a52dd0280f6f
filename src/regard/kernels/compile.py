"""How kernels are compiled: without the GIL, once for a machine, and again when any of them was edited."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core import event
from numba.core.ccallback import CFunc

from regard.errors import RegardWarning

if sys.platform != "win32":
    import fcntl

#: Sums may be taken in any order; NaN and ±inf keep their meaning. Division by zero is as in NumPy.
#: A loop that writes one array and reads another is compiled twice, and which runs hangs on how far apart they lie.
#: So where bits are promised, a loop that writes takes no sum: each of the two would take it in another order.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz", "arcp", "afn"},
    "error_model": "numpy",
}


def kernel(function: Callable[..., Any]) -> Any:
    """Compiled at its first call with each precision, and kept on disk.

    Numba takes what it kept for good while the function's own file is unchanged. Kernels inline each other across
    files, so here it is good while nothing has changed in the rooms that share kernels, nor in the function's own
    folder. Where nothing can be kept (no folder that may be written, a full disk) it is compiled anew in each process.
    """
    try:
        made = njit(**_OPTIONS, cache=True)(function)
    except RuntimeError:  # no folder for it
        return njit(**_OPTIONS)(function)
    _keep(made, function)
    return made


def entry(function: Callable[[int], None]) -> Any:
    """What C calls with one address: ``function`` compiled at once, and kept as kernels are; ``.address`` is where.

    Nothing in it may raise: who calls it could not hear of it.
    """
    made = CFunc(function, ((types.int64,), types.void), {}, dict(_OPTIONS))
    try:
        made.enable_caching()
    except RuntimeError:  # no folder for it
        made.compile()
        return made
    _keep(made, function)
    made.compile()
    return made


def _keep(made: Any, function: Callable[..., Any]) -> None:
    """What is kept of it is good until a file changes that it may have inlined."""
    kept: Any = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if hasattr(kept, "_source_stamp"):
        kept._source_stamp = _stamp(Path(function.__code__.co_filename).resolve().parent)
        made._cache.save_overload = _saved(made._cache.save_overload, Path(made._cache.cache_path))


def _saved(save: Callable[..., None], folder: Path) -> Callable[..., None]:
    def saved(*args: Any) -> None:
        try:
            with _one_at_a_time(folder):
                save(*args)
        except OSError as error:
            warnings.warn(
                f"compiled kernels could not be kept ({error}); they are compiled again in every process until they "
                "can: free space, or name another folder in NUMBA_CACHE_DIR",
                RegardWarning,
                stacklevel=2,
            )

    return saved


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Numba looks which files there are, then takes the next number. Of two processes that do so at once one would
    overwrite what the other kept, and whoever asked for the first kernel later would be given the second.
    """
    if sys.platform == "win32":
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "regard.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing it would not, while a process that was forked now has it open


def inline(function: Callable[..., Any]) -> Any:
    """Part of whatever kernel calls it."""
    return njit(**_OPTIONS, inline="always")(function)


@functools.cache
def _stamp(folder: Path) -> str:
    """Of what a kernel in ``folder`` may have inlined: a memory's kernels leave all others as they are."""
    here = Path(__file__).resolve().parent
    rooms = (here, here.parent / "engines" / "tiled", here.parent / "align", folder)
    files = sorted({path for room in rooms for path in room.rglob("*.py")})
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


class _Word(event.Listener):  # type: ignore[misc]
    """Says once why the first call takes its time."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        if not self.said and getattr(function, "__module__", "").startswith("regard."):
            self.said = True
            print("regard: compiling kernels for this machine, once; some seconds", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nothing: the next kernel may follow at once."""


event.register("numba:compile", _Word())
