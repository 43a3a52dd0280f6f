"""How kernels are kept: until a file with kernels changes, and not at all where nothing can be written."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import RegardWarning
from regard.kernels import compile as compiling


def double(x):
    return x + x


def test_a_full_disk_costs_the_kept_kernel_and_not_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.caching import IndexDataCacheFile

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", full)
    made = compiling.kernel(double)
    with pytest.warns(RegardWarning, match=r"could not be kept \(.*No space left.*NUMBA_CACHE_DIR"):
        assert made(21.0) == 42.0


def test_where_no_folder_can_be_written_kernels_are_compiled_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import njit

    def nowhere(**options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(compiling, "njit", nowhere)
    assert compiling.kernel(double)(1.5) == 3.0


def test_a_kernel_is_kept_until_any_file_with_kernels_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    one = compiling.kernel(double)._cache._cache_file._source_stamp
    monkeypatch.setattr(compiling, "_stamp", lambda folder: "another")
    assert compiling.kernel(double)._cache._cache_file._source_stamp == "another" != one


def test_a_kernel_far_from_the_others_changes_with_its_own_folder_alone(tmp_path: Path) -> None:
    shared = compiling._stamp(Path(compiling.__file__).parent)
    (tmp_path / "kernels.py").write_text("one = 1")
    before = compiling._stamp(tmp_path)
    (tmp_path / "kernels.py").write_text("one = 2")
    compiling._stamp.cache_clear()
    assert compiling._stamp(tmp_path) != before
    assert compiling._stamp(Path(compiling.__file__).parent) == shared


def test_what_two_processes_keep_at_once_is_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has looked what is kept before either keeps its own, if they are let."""
    from numba.core.caching import IndexDataCacheFile

    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    made = [compiling.kernel(double) for _ in range(2)]  # as two processes have them
    for each, number in zip(made, (np.float32(1), 1.0), strict=True):
        assert each(number) == 2
        each._cache.flush()
    kept = [next(iter(each.overloads.items())) for each in made]
    both, look = threading.Barrier(2), IndexDataCacheFile._load_index

    def looked(self: Any) -> Any:
        found = look(self)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return found

    with monkeypatch.context() as slowly:
        slowly.setattr(IndexDataCacheFile, "_load_index", looked)
        saving = [
            threading.Thread(target=each._cache.save_overload, args=one) for each, one in zip(made, kept, strict=True)
        ]
        for thread in saving:
            thread.start()
        for thread in saving:
            thread.join()
    again = compiling.kernel(double)
    for types, compiled in kept:
        found = again._cache.load_overload(types, again.targetctx)
        assert found is not None
        assert found.signature == compiled.signature


def test_compiling_is_said_once_on_standard_error(tmp_path: Any) -> None:
    code = (
        "from regard.kernels.rows import solve; from regard.kernels.vector import like; import numpy as np;"
        "solve(np.zeros(3), 1.5, np.empty(4), np.empty(4, np.int32))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stderr
        for _ in range(2)
    ]
    assert said[0].count("compiling kernels for this machine, once") == 1
    assert said[1] == ""
