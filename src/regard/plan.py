"""What was asked for, which engine runs it, and why: plan, then run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from regard.errors import RegardError, unknown_name
from regard.grid import Grid
from regard.machine import rates
from regard.mask import Mask
from regard.normalize import Normalizer
from regard.reading import Reading
from regard.score import Score

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType


_sizes_count: ContextVar[bool] = ContextVar("sizes_count", default=True)


@contextmanager
def whatever_the_size() -> Iterator[None]:
    """Inside, "auto" is the first engine that does not refuse, as while compiling: a choice that no size enters.

    Two engines agree to rounding and no further. Where a sentence must give the same bits alone and among others, the
    size of the batch must not choose between them.
    """
    before = _sizes_count.set(False)
    try:
        yield
    finally:
        _sizes_count.reset(before)


@dataclass(frozen=True)
class Composition:
    """One read, all its parts in place: q (B, H, L, D), k (B, G, S, D), v (B, G, S, E)."""

    q: Tensor
    k: Tensor
    v: Tensor
    score: Score
    normalize: Normalizer
    mask: Mask | None
    grid: Grid
    dropout: float = 0.0


@dataclass(frozen=True)
class Wanted:
    """Which telemetry a read is asked for; ``cheap`` is what an engine gets without a second look at the scores."""

    names: frozenset[str] = frozenset()
    cheap: bool = False
    groups: Mapping[str, Mask] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.names


@dataclass(frozen=True)
class Cost:
    """What an engine would do for a composition, roughly.

    ``flops`` counts multiplications and additions of the two products over the pairs that are computed, ``held`` the
    bytes beyond q, k, v and output, ``tiles`` how many tiles run of how many there are, and ``seconds`` is a rough
    time on two cores (or on an accelerator): it decides the order of engines and nothing else.
    """

    flops: int
    held: int
    seconds: float
    tiles: tuple[int, int] | None = None


class Engine(Protocol):
    """Runs compositions. It never falls back: it refuses, with the reason, or it runs."""

    @property
    def name(self) -> str: ...

    @property
    def reports(self) -> bool:
        """Whether it warns of NaN in q or k by itself, having seen them anyway; else both are looked at after it."""

    def refuses(self, c: Composition) -> str:
        """Why this engine cannot run ``c``; empty when it can."""

    def attend(self, c: Composition) -> Tensor:
        """The read alone, (B, H, L, E)."""

    def read(self, c: Composition, wanted: Wanted) -> Reading:
        """The read with its lse and telemetry."""

    def cost(self, c: Composition, telemetry: bool = False, exact: bool = False) -> Cost:
        """What running ``c`` takes; ``exact`` looks at every tile of the mask, which may itself take a while."""


@dataclass(frozen=True)
class Plan:
    """Which engine runs a composition, why, why the others were refused, and what it costs.

    ``flops`` counts multiplications and additions of the two products over the pairs that are computed; ``bytes`` is
    what is held beyond q, k and v; ``moved`` the bytes of q, k, v and output, which any engine must move once;
    ``tiles`` how many run of how many there are, for an engine that works in tiles. Printing it explains it.
    """

    engine: str
    why: str
    refused: Mapping[str, str]
    flops: int
    bytes: int
    moved: int = 0
    tiles: tuple[int, int] | None = None
    device: str = "cpu"

    @property
    def bound(self) -> float:
        """Seconds that the flops and the moved bytes take at this machine's measured rates, whichever is more."""
        return rates(self.device).bound(self.flops, self.moved)

    def to_dict(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "why": self.why,
            "refused": dict(self.refused),
            "flops": self.flops,
            "bytes": self.bytes,
            "moved": self.moved,
            "tiles": None if self.tiles is None else list(self.tiles),
            "bound": self.bound,
        }

    def _lines(self) -> Iterator[str]:
        yield f"engine   {self.engine}: {self.why}"
        for name, reason in self.refused.items():
            yield f"refused  {name}: {reason}"
        if self.tiles is not None:
            run, of = self.tiles
            yield f"tiles    {run:,} run of {of:,}"
        yield f"cost     {self.flops:.3g} flops, {self.bytes / 2**20:.3g} MiB beyond q, k and v"
        known = rates(self.device)
        yield (
            f"bound    {1e3 * self.bound:.3g} ms at least: this machine multiplies at {known.flops / 1e9:.0f} GFLOP/s "
            f"and copies at {known.bytes / 1e9:.0f} GB/s"
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield from self._lines()


@dataclass(frozen=True)
class Choice:
    """The engine that runs, why, and why those before it do not."""

    engine: Engine
    why: str
    refused: Mapping[str, str] = field(default_factory=dict)

    def plan(self, c: Composition) -> Plan:
        B, H, L, _ = c.grid.shape
        cost = self.engine.cost(c, exact=True)
        output = B * H * L * c.v.shape[-1] * c.q.element_size()
        given = sum(x.numel() * x.element_size() for x in (c.q, c.k, c.v))
        return Plan(
            self.engine.name,
            self.why,
            self.refused,
            flops=cost.flops,
            bytes=output + cost.held,
            moved=given + output,
            tiles=cost.tiles,
            device=str(c.q.device),
        )


def choose(c: Composition, engines: Sequence[Engine], asked: str, telemetry: bool = False) -> Choice:
    """The engine asked for by name, which runs or raises; or of those that do not refuse the one that costs least time.

    While compiling lengths are not known, and inside :func:`whatever_the_size` they shall not matter: the first that
    does not refuse is taken.
    """
    if asked != "auto":
        return _named(c, engines, asked)
    refused: dict[str, str] = {}
    able: list[Engine] = []
    for engine in engines:
        reason = engine.refuses(c)
        if reason:
            refused[engine.name] = reason
        elif torch.compiler.is_compiling() or not _sizes_count.get():
            return Choice(engine, "the first that does not refuse", refused)
        else:
            able.append(engine)
    if not able:
        raise RegardError(
            "no engine can run this: " + "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        )
    if len(able) == 1:
        return Choice(able[0], "the only one that does not refuse", refused)
    seconds = {engine.name: engine.cost(c, telemetry).seconds for engine in able}
    best = min(able, key=lambda engine: seconds[engine.name])
    rest = ", ".join(f"{name} {_time(x)}" for name, x in seconds.items() if name != best.name)
    return Choice(best, f"the least time by rough count, {_time(seconds[best.name])} ({rest})", refused)


def _named(c: Composition, engines: Sequence[Engine], asked: str) -> Choice:
    by_name = {engine.name: engine for engine in engines}
    if asked not in by_name:
        raise unknown_name("engine", asked, ["auto", *by_name])
    reason = by_name[asked].refuses(c)
    if reason:
        raise RegardError(f'engine "{asked}" cannot run this: {reason}; engine="auto" takes another that can')
    return Choice(by_name[asked], "asked for by name")


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.2g} ms" if seconds < 1 else f"{seconds:.2g} s"


def pairs(c: Composition, causal: bool = False) -> int:
    """How many pairs of query and key there are; half of them under the fused kernel's causal flag."""
    B, H, L, S = c.grid.shape
    return B * H * (L * S // 2 if causal else L * S)


def products(c: Composition, pairs: int) -> int:
    """Multiplications and additions of the two products over so many pairs."""
    return 2 * pairs * (c.q.shape[-1] + c.v.shape[-1])
