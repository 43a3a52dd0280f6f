"""Runs commands one after the other and tells what each took. Alone in its file, and started with nothing imported:
the high-water mark of a child's memory begins at what its parent held when it was started, here some 10 MiB."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

ERRORS = "errors.txt"


def steps(order: dict[str, Any]) -> list[dict[str, Any]]:
    """What each step took: wall and CPU seconds of it and all it waited for, and its largest process' MiB."""
    os.chdir(order["folder"])
    deadline = time.monotonic() + order["limit"]
    found = []
    for step in order["steps"]:
        found.append(_step(step["argv"], step["out"], deadline))
        if found[-1]["status"]:
            break
    return found


def _step(argv: list[str], out: str, deadline: float) -> dict[str, Any]:
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, out or os.devnull, write, 0o644),
        (os.POSIX_SPAWN_OPEN, 2, ERRORS, write, 0o644),
    ]
    start = time.perf_counter()
    child = os.posix_spawnp(argv[0], argv, os.environ, file_actions=files, setpgroup=0)
    late = []

    def stop(*_: object) -> None:
        late.append(True)
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, deadline - time.monotonic()))
    try:
        _, status, used = os.wait4(child, 0)
    except BaseException:  # interrupted: nothing is left running
        os.killpg(child, signal.SIGKILL)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {
        "seconds": time.perf_counter() - start,
        "cpu": used.ru_utime + used.ru_stime,
        "mib": used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
        "status": os.waitstatus_to_exitcode(status),
        "late": bool(late),
    }


if __name__ == "__main__":
    print(json.dumps(steps(json.load(sys.stdin))))
