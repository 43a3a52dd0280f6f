"""Timing two callables against each other, fairly enough for a shared machine.

Absolute times drift with whatever else runs; a ratio of two calls made one after the other drifts far less.
So the two are called in turn, A B A B …, and the ratio is taken within each round.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["Comparison", "cores", "interleaved"]


@dataclass(frozen=True)
class Comparison:
    """Two callables timed in turn. Times are in seconds; a ratio is ours ÷ peer, so below 1 means faster.

    >>> print(Comparison("regard", "torch", 0.03, 0.02, 1.5, 1.4, 1.7, rounds=9, threads=2, cores=2))
    regard 1.50× the time of torch (1.40-1.70 over 9 rounds; medians 30 ms and 20 ms; 2 threads on 2 cores)
    """

    ours: str
    peer: str
    ours_seconds: float
    peer_seconds: float
    ratio: float
    low: float
    high: float
    rounds: int
    threads: int
    cores: int

    def __str__(self) -> str:
        return (
            f"{self.ours} {self.ratio:.2f}× the time of {self.peer} ({self.low:.2f}-{self.high:.2f} over "
            f"{self.rounds} rounds; medians {_time(self.ours_seconds)} and {_time(self.peer_seconds)}; "
            f"{self.threads} threads on {self.cores} cores)"
        )

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(str(self))

    def to_dict(self) -> dict[str, object]:
        """The same facts for JSON."""
        return asdict(self)


def interleaved(
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    rounds: int = 9,
    warmup: int = 2,
    names: tuple[str, str] = ("regard", "peer"),
) -> Comparison:
    """Call `ours` and `peer` in turn, `warmup` + `rounds` times; the rounds' median ratio and its range.

    >>> same = interleaved(lambda: sum(range(999)), lambda: sum(range(999)), rounds=5)
    >>> same.low <= same.ratio <= same.high and same.rounds == 5
    True
    """
    if rounds < 1 or warmup < 0:
        raise ValueError(f"rounds is {rounds} and warmup {warmup}; rounds must be at least 1, warmup at least 0")
    pairs = [(_seconds(ours), _seconds(peer)) for _ in range(warmup + rounds)][warmup:]
    ratios = [a / b for a, b in pairs]
    return Comparison(
        ours=names[0],
        peer=names[1],
        ours_seconds=statistics.median(a for a, _ in pairs),
        peer_seconds=statistics.median(b for _, b in pairs),
        ratio=statistics.median(ratios),
        low=min(ratios),
        high=max(ratios),
        rounds=rounds,
        threads=torch.get_num_threads(),
        cores=cores(),
    )


def cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _seconds(call: Callable[[], object]) -> float:
    """How long one call takes, the accelerator's queued work included."""
    _settle()
    start = time.perf_counter()
    call()
    _settle()
    return time.perf_counter() - start


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _time(seconds: float) -> str:
    """Three figures with a unit.

    >>> _time(0.0123), _time(2.5), _time(4.2e-5)
    ('12.3 ms', '2.5 s', '42 µs')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
