"""Where the peers are: programs on the PATH, and packages in the Python that `REGARD_ALIGN_PEERS` names, or in ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from benchmarks.harness.peers import Missing

__all__ = ["package", "program"]

VARIABLE = "REGARD_ALIGN_PEERS"


def program(name: str, how: str) -> str:
    """The program's path: on the PATH, or beside a Python that may hold the peers."""
    folders = [str(Path(python).parent) for python in _pythons()]
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        raise Missing(f"{name}: not on the PATH; {how}")
    return os.path.abspath(found)


def package(name: str, how: str) -> str:
    """A Python that has the package."""
    for python in _pythons():
        if _has(python, name):
            return python
    raise Missing(f"{how.rpartition(' ')[2]}: not installed; {how}, or name another Python by {VARIABLE}")


def _pythons() -> list[str]:
    named = os.environ.get(VARIABLE)
    return [*([named] if named else []), sys.executable]


@lru_cache
def _has(python: str, name: str) -> bool:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    try:
        return subprocess.run([python, "-c", code, name], capture_output=True).returncode == 0
    except OSError as error:
        raise Missing(f"{VARIABLE}: found {python!r}, wanted the path of a Python: {error.strerror}") from error
