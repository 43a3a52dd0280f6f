"""What was asked for, which engine runs it, and why: plan, then run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from regard.errors import RegardError, unknown_name
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Normalizer
from regard.reading import Reading
from regard.score import Score

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType


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


class Engine(Protocol):
    """Runs compositions. It never falls back: it refuses, with the reason, or it runs."""

    name: str

    def refuses(self, c: Composition) -> str:
        """Why this engine cannot run ``c``; empty when it can."""

    def attend(self, c: Composition) -> Tensor:
        """The read alone, (B, H, L, E)."""

    def read(self, c: Composition, wanted: Wanted) -> Reading:
        """The read with its lse and telemetry."""

    def scratch_bytes(self, c: Composition) -> int:
        """Memory beyond inputs and output, roughly."""


@dataclass(frozen=True)
class Plan:
    """Which engine runs a composition, why, why the others were refused, and what it costs.

    ``flops`` counts multiplications and additions of the two products over the pairs a causal or open mask leaves;
    ``bytes`` is what must be held beyond q, k and v. Printing it explains it.
    """

    engine: str
    why: str
    refused: Mapping[str, str]
    flops: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "why": self.why,
            "refused": dict(self.refused),
            "flops": self.flops,
            "bytes": self.bytes,
        }

    def _lines(self) -> Iterator[str]:
        yield f"engine   {self.engine}: {self.why}"
        for name, reason in self.refused.items():
            yield f"refused  {name}: {reason}"
        yield f"cost     {self.flops:.3g} flops, {self.bytes / 2**20:.3g} MiB beyond q, k and v"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield from self._lines()


def choose(c: Composition, engines: Sequence[Engine], asked: str) -> tuple[Engine, Plan]:
    """The first engine of ``engines`` that does not refuse, or the one asked for by name, which runs or raises."""
    by_name = {engine.name: engine for engine in engines}
    if asked != "auto":
        if asked not in by_name:
            raise unknown_name("engine", asked, ["auto", *by_name])
        reason = by_name[asked].refuses(c)
        if reason:
            raise RegardError(f'engine "{asked}" cannot run this: {reason}; engine="auto" takes the next that can')
        return by_name[asked], _plan(c, by_name[asked], "asked for by name", {})
    refused: dict[str, str] = {}
    for engine in engines:
        reason = engine.refuses(c)
        if not reason:
            why = "first in order of preference" if not refused else "the first that does not refuse"
            return engine, _plan(c, engine, why, refused)
        refused[engine.name] = reason
    raise RegardError("no engine can run this: " + "; ".join(f"{name}: {reason}" for name, reason in refused.items()))


def _plan(c: Composition, engine: Engine, why: str, refused: Mapping[str, str]) -> Plan:
    B, H, L, S = c.grid.shape
    D, E = c.q.shape[-1], c.v.shape[-1]
    causal = c.mask is not None and c.mask.sdpa_flags(c.grid)[0]
    pairs = B * H * (L * S // 2 if causal else L * S)
    output = B * H * L * E * c.q.element_size()
    return Plan(engine.name, why, refused, flops=2 * pairs * (D + E), bytes=output + engine.scratch_bytes(c))
