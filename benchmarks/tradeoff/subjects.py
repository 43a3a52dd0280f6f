"""The memories that are compared, each with its sizes. All sizes are of one layer, and of one batch row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.tradeoff.drivers import Computer, Driver, Pairs, Turing

__all__ = ["CODEBOOK", "D", "SUBJECTS", "Subject"]

D = 64  # width of keys and of values
CODEBOOK = 256  # how many values there are
WINDOW, SINKS = 1024, 4
FEATURES = 256
SLOTS = 128
SHARP = 4.0 * D  # a question this long times 1/√D: e^{32 (1 − cos)} times less weight for another key


@dataclass(frozen=True)
class Subject:
    """A memory of keys and values D wide. ``make`` takes how many heads, and how many tokens to have room for."""

    kind: str
    name: str
    says: str
    make: Callable[[int, int], Driver]
    longest: int = 2**17
    """How many tokens it is told at most: all, but for a memory that takes them one by one."""
    batch: int = 32
    """Rows on which recall is measured at once."""


def kv(heads: int, room: int) -> Driver:
    from regard.memory.cache import KVCache

    return Pairs(KVCache(heads, D), sharp=_sharp)


def eight_bit(heads: int, room: int) -> Driver:
    from regard.memory.cache import EightBit, KVCache

    return Pairs(KVCache(heads, D, store=EightBit()), sharp=_sharp)


def static(heads: int, room: int) -> Driver:
    from regard.memory.cache import StaticCache

    return Pairs(StaticCache(heads, D, capacity=room), sharp=_sharp)


def paged(heads: int, room: int) -> Driver:
    from regard.memory.cache import PagedCache

    return Pairs(PagedCache(heads, D), sharp=_sharp)


def sliding(heads: int, room: int) -> Driver:
    from regard.memory.cache import SlidingCache

    return Pairs(SlidingCache(heads, D, window=WINDOW), sharp=_sharp)


def sinks(heads: int, room: int) -> Driver:
    from regard.memory.cache import SinkCache

    return Pairs(SinkCache(heads, D, sinks=SINKS, window=WINDOW - SINKS), sharp=_sharp)


def linear(heads: int, room: int) -> Driver:
    from regard.memory.linear import LinearMemory

    return Pairs(LinearMemory(heads, D), settings=LENGTHS)


def performer(heads: int, room: int) -> Driver:
    from regard.memory.linear import PerformerMemory

    return Pairs(
        PerformerMemory(heads, D, features=FEATURES, generator=torch.Generator().manual_seed(0)), settings=LENGTHS
    )


def delta(heads: int, room: int) -> Driver:
    from regard.memory.linear import DeltaMemory

    return Pairs(
        DeltaMemory(heads, D),
        settings=(1.0, 0.5, 0.2, 0.1, 0.05),
        told=lambda v, setting: {"beta": torch.full(v.shape[:3], setting)},
        sharp=lambda setting: (1.0, 1.0),
    )


def space(heads: int, room: int) -> Driver:
    from regard.memory.space import StateSpaceMemory

    decay = -torch.ones(heads, D, D)
    return Pairs(
        StateSpaceMemory(heads, D, A=decay),
        settings=(1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
        sharp=lambda setting: (1.0, 1.0),
        told=lambda v, setting: {"delta": torch.full_like(v, setting)},
    )


def turing(heads: int, room: int) -> Driver:
    from regard.memory.turing import TuringMemory

    return Turing(TuringMemory(SLOTS, 2 * heads * D))


def computer(heads: int, room: int) -> Driver:
    from regard.memory.differentiable import DifferentiableComputer

    return Computer(DifferentiableComputer(SLOTS, 2 * heads * D))


def _sharp(setting: float) -> tuple[float, float]:
    """Keys are kept as they are, a question is as sharp as needed."""
    return 1.0, SHARP


LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)

SUBJECTS = (
    Subject("pairs", "KVCache", "every pair", kv),
    Subject("pairs", "StaticCache", "every pair, in room taken at once", static),
    Subject("pairs", "PagedCache", "every pair, in pages", paged),
    Subject("pairs", "8-bit KVCache", "every pair, in eight bits", eight_bit),
    Subject("pairs", "SlidingCache", f"the last {WINDOW:,} pairs", sliding),
    Subject("pairs", "SinkCache", f"the first {SINKS} pairs and the last {WINDOW - SINKS:,}", sinks),
    Subject("sums", "LinearMemory", "a sum over pairs, elu + 1", linear),
    Subject("sums", "PerformerMemory", f"a sum over pairs, {FEATURES} random features", performer),
    Subject("sums", "DeltaMemory", "a matrix, each pair put right in it", delta),
    Subject("sums", "StateSpaceMemory", f"{D} states a channel, a decay", space),
    Subject("slots", "TuringMemory", f"{SLOTS} slots, the oldest written over", turing, longest=2**11, batch=8),
    Subject("slots", "DifferentiableComputer", f"{SLOTS} places, the oldest freed", computer, longest=2**11, batch=4),
)
