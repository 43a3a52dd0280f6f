"""Running a benchmark's function in a process of its own, where nothing else raises the memory or warms a cache."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness.setting import Setting

__all__ = ["fresh", "serve"]

FOLDER = Path(__file__).resolve().parents[1]
# The package is put in place by hand: another distribution may have left a `benchmarks` on the path.
_START = """
import sys, types
sys.modules["benchmarks"] = types.ModuleType("benchmarks")
sys.modules["benchmarks"].__path__ = [sys.argv[1]]
from benchmarks.harness.child import serve
serve()
"""


def fresh(
    setting: Setting, function: Callable[..., object], *arguments: object, env: Mapping[str, str] | None = None
) -> Any:
    """`function(setting, *arguments)` in a fresh Python; function at the top of a benchmark, all else as JSON has it.

    >>> import math
    >>> fresh(Setting(), _product, 6, 7)
    42
    """
    order = {
        "module": function.__module__,
        "function": function.__qualname__,
        "setting": asdict(setting),
        "arguments": arguments,
    }
    done = subprocess.run(
        [sys.executable, "-c", _START, str(FOLDER)],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        raise RuntimeError(f"in a process of its own: {said[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def serve() -> None:
    """What the fresh process does: reads its order, and prints the result as its last line."""
    order = json.load(sys.stdin)
    function = getattr(importlib.import_module(order["module"]), order["function"])
    result = function(Setting(**order["setting"]), *order["arguments"])
    print(json.dumps(result))


def _product(setting: Setting, a: int, b: int) -> int:
    return a * b
