"""JoeyNMT at work in a Python of its own: started once, then given orders, one after the other."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.harness.peers import Missing
from benchmarks.joey import driver
from regard.stopping import stop_signals

__all__ = ["NAME", "VARIABLE", "Peer", "python"]

NAME, VARIABLE = "JoeyNMT", "REGARD_JOEYNMT"


def python() -> str:
    """A Python that has JoeyNMT: the one that ``REGARD_JOEYNMT`` names, or ours.

    Raises:
        Missing: there is none.
    """
    found = os.environ.get(VARIABLE) or sys.executable
    code = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('joeynmt', 'importlib_metadata'))))"
    try:
        there = subprocess.run([found, "-I", "-c", code], capture_output=True).returncode == 0
    except OSError as error:
        raise Missing(f"{VARIABLE}: found {found!r}, wanted the path of a Python: {error.strerror}") from error
    if not there:
        raise Missing(
            "joeynmt: not installed; pip install joeynmt importlib_metadata, which it needs and does not ask for, "
            f"into a Python of its own, and name that by {VARIABLE}"
        )
    return found


class Peer:
    """One process of the driver with one configuration; what it says beside its answers goes into ``joeynmt.log``.

    A signal that ends us interrupts it first, and waits until it has saved.

    Raises:
        Missing: JoeyNMT is not there.
        RuntimeError: it failed; its last word says why.
    """

    def __init__(self, config: Path) -> None:
        model = Path(json.loads(config.read_text())["model_dir"])
        model.mkdir(parents=True, exist_ok=True)
        self.log = config.parent / "joeynmt.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [python(), driver.__file__, str(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,  # signals reach it through us, once
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._answer(lambda text: None)

    def ask(self, order: dict[str, Any], say: Callable[[str], None] = lambda text: None) -> Any:
        """What is answered to an order; what it says meanwhile goes to ``say``."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._answer(say)

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self._reader.join()

    def _answer(self, say: Callable[[str], None]) -> Any:
        with stop_signals() as stop:
            told = False
            while True:
                try:
                    line = self._lines.get(timeout=0.2)
                except queue.Empty:
                    if stop and not told:
                        self.process.send_signal(signal.SIGINT)
                        told = True
                    continue
                if not line:
                    self._lines.put("")  # it has ended for whoever asks again, too
                    raise KeyboardInterrupt if stop else RuntimeError(self._last_word())
                found = json.loads(line)
                if "say" in found:
                    say(found["say"])
                elif stop:
                    raise KeyboardInterrupt
                elif "error" in found:
                    raise RuntimeError(found["error"])
                else:
                    return found["done"]

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def _last_word(self) -> str:
        said = self.log.read_text(errors="replace").strip().splitlines()
        return said[-1] if said else f"it ended with status {self.process.wait()}"
