"""Running an aligner's commands, and what they took together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.aligners import launch

__all__ = ["LIMIT", "Step", "Used", "run"]

LIMIT = 900.0  # seconds: an aligner that takes longer is a row that says so


@dataclass(frozen=True)
class Step:
    """One command; ``out`` is the file for what it prints."""

    argv: tuple[str, ...]
    out: str = ""


@dataclass(frozen=True)
class Used:
    """Wall and CPU seconds of commands one after the other, MiB of their largest process, and seconds by program."""

    seconds: float
    cpu: float
    mib: float
    programs: dict[str, float] = field(default_factory=dict)


def run(steps: Sequence[Step], folder: Path, *, limit: float = LIMIT) -> Used:
    """Each step in `folder`, in processes of its own; start-up and reading are part of what it took.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     used = run([Step(("echo", "0-0"), "links")], Path(folder))
    ...     (Path(folder) / "links").read_text()
    '0-0\\n'
    >>> 0 < used.seconds < 60, list(used.programs)
    (True, ['echo'])
    """
    order = {
        "folder": str(folder),
        "limit": limit,
        "steps": [{"argv": step.argv, "out": step.out} for step in steps],
    }
    env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}  # all may use all cores
    paths = env.get("PYTHONPATH", "").split(os.pathsep)  # relative ones would be lost: the steps run elsewhere
    env["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths if path)
    done = subprocess.run(
        [sys.executable, "-I", "-S", launch.__file__],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        env=env,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it could not be started"])[-1])
    found = json.loads(done.stdout)
    programs: dict[str, float] = {}
    for step, each in zip(steps, found, strict=False):
        name = Path(step.argv[0]).name
        programs[name] = programs.get(name, 0.0) + each["seconds"]
        if each["late"]:
            raise RuntimeError(f"{name} was stopped: all together took longer than {limit:,.0f} s")
        if each["status"]:
            said = (folder / launch.ERRORS).read_text(errors="replace").strip().splitlines()
            raise RuntimeError(f"{name} ended with status {each['status']}: {said[-1] if said else 'it said nothing'}")
    return Used(
        sum(each["seconds"] for each in found),
        sum(each["cpu"] for each in found),
        max(each["mib"] for each in found),
        programs,
    )
