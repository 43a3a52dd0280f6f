"""What a memory takes: bytes kept, and microseconds a token, when so many tokens were told before.

A token is what a decoder does with it: one pair written and one question read, 8 heads of 64, one row, float32, no
gradients. All are called in turn, at each length; a memory that takes tokens one by one is told fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.harness.report import figure
from benchmarks.harness.row import Line, Spot
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race
from benchmarks.tradeoff.drivers import Driver
from benchmarks.tradeoff.peers import PEERS, Peer
from benchmarks.tradeoff.subjects import SUBJECTS, D, Subject

__all__ = ["spent"]

HEADS, ROUNDS = 8, 5
CHUNK = 4096  # tokens told at once; also room enough for all that is told while it is timed
KEPT, TIME = "bytes kept, spare room included", "time a token"
ACROSS = "tokens told before"


@dataclass
class Ours:
    """A memory that was told some tokens, and is told more from length to length."""

    subject: Subject
    room: int
    driver: Driver = field(init=False)
    state: Any = field(init=False)
    told: int = 0

    def __post_init__(self) -> None:
        self.driver = self.subject.make(HEADS, self.room)
        self.state = self.driver.start(1)

    def grown(self, length: int) -> Callable[[], object]:
        """Told up to ``length`` tokens; then each call is one more."""
        k, v = (F.normalize(torch.randn(1, HEADS, CHUNK, D), dim=-1) for _ in range(2))
        setting = self.driver.settings[0]
        while self.told < length:
            n = min(CHUNK, length - self.told)
            self.state = self.driver.tell(self.state, k[:, :, :n], v[:, :, :n], setting)
            self.told += n
        return partial(self._token, *(x[:, :, :1] for x in (k, k, v)))

    def _token(self, *given: torch.Tensor) -> None:
        self.state = self.driver.decode(self.state, *given)
        self.told += 1

    @property
    def nbytes(self) -> int:
        return self.driver.nbytes(self.state)


@dataclass
class Theirs:
    """A peer, made anew at each length."""

    name: str
    make: Peer
    nbytes: int = 0

    def grown(self, length: int) -> Callable[[], object]:
        step, self.nbytes = self.make(length, HEADS, D)
        return step


@torch.no_grad()
def spent(setting: Setting, lengths: Sequence[int]) -> Iterator[Spot | Line]:
    """Spots at every length, and one table when all is known."""
    said = {subject.name: (subject.kind, subject.says) for subject in SUBJECTS}
    said |= dict.fromkeys(PEERS, ("peers", ""))
    found: dict[str, dict[int, tuple[float, float]]] = {name: {} for name in said}
    problems: dict[str, str] = {}
    held: dict[str, Ours] = {}
    for length in lengths:
        runners: dict[str, Ours | Theirs] = {}
        for subject in SUBJECTS:
            if length <= subject.longest and subject.name not in problems:
                try:
                    runners[subject.name] = held.setdefault(subject.name, Ours(subject, lengths[-1] + CHUNK))
                except Exception as error:
                    problems[subject.name] = f"{type(error).__name__}: {error}"
        runners |= {name: Theirs(name, make) for name, make in PEERS.items() if name not in problems}
        contenders = [Contender(name, partial(each.grown, length)) for name, each in runners.items()]
        laps = race(setting, contenders, rounds=min(ROUNDS, setting.rounds)).laps
        for name, runner in runners.items():
            if laps[name].problem:
                problems[name] = laps[name].problem
            if (seconds := laps[name].median) is None:
                continue
            found[name][length] = runner.nbytes, seconds
            for panel, y, unit in ((KEPT, runner.nbytes / 2**20, "MiB"), (TIME, seconds * 1e6, "µs")):
                yield Spot(panel, name, length, y, (ACROSS, f"{unit}, one layer"), True, isinstance(runner, Theirs))
    yield from _table(found, said, problems, lengths)


def _table(
    found: dict[str, dict[int, tuple[float, float]]],
    said: dict[str, tuple[str, str]],
    problems: dict[str, str],
    lengths: Sequence[int],
) -> Iterator[Line]:
    shown = [n for at, n in enumerate(lengths) if at in (0, len(lengths) // 2, len(lengths) - 1)]
    for name, points in found.items():
        kind, keeps = said[name]
        cells = {"": kind, "memory": name, "what it keeps": problems.get(name, keeps)}
        cells |= {f"MiB at {_tokens(n)}": figure(points[n][0] / 2**20) if n in points else "–" for n in shown}
        cells |= {f"µs at {_tokens(n)}": figure(points[n][1] * 1e6) if n in points else "–" for n in shown}
        measured = [{"tokens": n, "bytes": size, "seconds": seconds} for n, (size, seconds) in points.items()]
        yield Line(
            f"what a token takes: one written, one read, {HEADS} heads of {D}, one layer",
            cells,
            {"memory": name, "measured": measured},
        )


def _tokens(n: int) -> str:
    return f"{n // 1024}k" if n >= 1024 else str(n)
