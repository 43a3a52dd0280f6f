"""A reading: what a query got from a memory, and what the look was like."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.numerics import finite, logsumexp

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

TELEMETRY = frozenset({"entropy", "bound", "peak", "mass", "distance", "spread"})


@dataclass(frozen=True)
class Reading:
    """The read, its log-sum-exp, and per query what its weights were like. What an engine did not measure is None.

    An empty row (a query that may see nothing) has output 0, lse −∞ and every statistic 0; its peak is at −1.
    """

    output: Tensor
    """Σ w v, (…, H, L, E)."""
    lse: Tensor
    """Λ = log Σ exp(s) over the keys seen, (…, H, L); natural log, of scores scaled and divided by temperature."""
    seen: Tensor
    """How many keys the query may see, integers (…, H, L)."""
    entropy: Tensor | None = None
    """−Σ w log w in nats, (…, H, L), in [0, log seen]."""
    bound: Tensor | None = None
    """A number no weight exceeds, (…, H, L): at most S^(1/32) times the largest weight, never below it."""
    peak: Tensor | None = None
    """The largest weight, (…, H, L)."""
    peak_at: Tensor | None = None
    """Which key has the largest weight, integers (…, H, L), the first among equals."""
    mass: Mapping[str, Tensor] = field(default_factory=dict)
    """Share of the weight in each group of keys that was named, (…, H, L) each."""
    distance: Tensor | None = None
    """Σ w |i − j| in places, (…, H, L), queries standing where the two ends meet (the last query at the last key)."""
    spread: Tensor | None = None
    """Standard deviation of a head's scores over all pairs it may see, (…, H)."""
    sink: Tensor | None = None
    """The logit of the sink the rows share with their keys, broadcastable to lse; None without a sink."""
    no_merge: str = ""
    """Why this reading cannot be merged with another; empty when it can."""
    engine: str = ""
    """The engine that read."""

    @property
    def evenness(self) -> Tensor:
        """Entropy as a share of log n, n the keys seen: 1 looks everywhere alike, 0 at one key (…, H, L)."""
        if self.entropy is None:
            raise RegardError('evenness: this reading has no entropy; read(…, telemetry=("entropy",)) measures it')
        return self.entropy / self.seen.clamp(min=2).to(self.entropy.dtype).log()

    @staticmethod
    def merge(*parts: Reading) -> Reading:
        """The reading of the whole memory from readings of its parts: Λ = log Σ e^{Λᵢ}, o = Σ e^{Λᵢ−Λ} oᵢ.

        Associative and commutative; the reading of an empty memory is the identity (Milakov & Gimelshein 2018;
        FlashAttention's partial results). Entropy, mass, peak weight and bound merge exactly. Where a key stood in
        the whole is unknown to the parts, so peak_at, distance and spread become None.

        >>> import regard, torch
        >>> q, k, v = (torch.randn(1, 2, n, 4) for n in (3, 7, 7))
        >>> whole = regard.read(q, k, v)
        >>> parts = regard.read(q, k[..., :2, :], v[..., :2, :]), regard.read(q, k[..., 2:, :], v[..., 2:, :])
        >>> torch.allclose(regard.Reading.merge(*parts).output, whole.output, atol=1e-6)
        True
        """
        if not parts:
            raise RegardError("merge: no readings given, wanted at least one")
        for part in parts:
            if part.no_merge:
                raise RegardError(
                    f"merge: these readings cannot be merged: {part.no_merge}; read the whole memory at once"
                )
            if part.output.shape != parts[0].output.shape:
                raise RegardError(
                    f"merge: outputs are {tuple(part.output.shape)} and {tuple(parts[0].output.shape)}, wanted the "
                    "same "
                    "queries in every part"
                )
            if not _same(part.sink, parts[0].sink):
                raise RegardError(
                    "merge: the parts were read with different sinks, wanted one sink for the whole memory"
                )
        if len(parts) == 1:
            return parts[0]
        lse = logsumexp(torch.stack([part.lse for part in parts]), dim=0)
        # A part's output was divided by its own denominator, which counts the sink when there is one.
        over = [part._denominator for part in parts]
        sink = parts[0].sink
        total = lse if sink is None else torch.logaddexp(lse, sink.to(lse.dtype).expand_as(lse))
        shares = [_ratio(part_over, total) for part_over in over]
        output = sum(
            (share.unsqueeze(-1) * part.output.to(lse.dtype) for share, part in zip(shares, parts, strict=True))
        )
        assert isinstance(output, Tensor)

        def mix(values: list[Tensor | None]) -> Tensor | None:
            if any(value is None for value in values):
                return None
            return torch.stack([s * x for s, x in zip(shares, values, strict=True) if x is not None]).sum(0)

        def largest(values: list[Tensor | None]) -> Tensor | None:
            if any(value is None for value in values):
                return None
            return torch.stack([s * x for s, x in zip(shares, values, strict=True) if x is not None]).amax(0)

        # E[s] = Λ − H mixes as the output does; the empty part has neither.
        mean = mix([None if p.entropy is None or p.sink is not None else finite(p.lse) - p.entropy for p in parts])
        names = set.intersection(*(set(p.mass) for p in parts))
        return Reading(
            output=output.to(parts[0].output.dtype),
            lse=lse,
            seen=torch.stack([part.seen for part in parts]).sum(0),
            entropy=None if mean is None else (finite(lse) - mean).clamp(min=0),
            bound=largest([part.bound for part in parts]),
            peak=largest([part.peak for part in parts]),
            mass={name: m for name in sorted(names) if (m := mix([p.mass[name] for p in parts])) is not None},
            sink=sink,
            engine="+".join(dict.fromkeys(part.engine for part in parts)),
        )

    @property
    def _denominator(self) -> Tensor:
        if self.sink is None:
            return self.lse
        return torch.logaddexp(self.lse, self.sink.to(self.lse.dtype).expand_as(self.lse))

    def reshaped(self, lead: tuple[int, ...]) -> Reading:
        """The same reading with its two leading axes (B, H) written as ``lead``: fewer axes, or more."""
        if self.sink is None and lead == tuple(self.lse.shape[:-1]):
            return self
        changed: dict[str, Any] = {"mass": {name: m.reshape((*lead, *m.shape[2:])) for name, m in self.mass.items()}}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Tensor) and one.name != "sink":
                changed[one.name] = value.reshape((*lead, *value.shape[2:]))
        if self.sink is not None:
            B, H, L = self.lse.shape
            changed["sink"] = self.sink.expand(B, H, L).reshape((*lead, L))
        return replace(self, **changed)

    def to_dict(self) -> dict[str, Any]:
        """Everything measured, as plain numbers and nested lists (not the output itself)."""
        measured = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("output", "sink", "mass")
        }
        plain = {name: value.tolist() if isinstance(value, Tensor) else value for name, value in measured.items()}
        return plain | {"mass": {name: m.tolist() for name, m in self.mass.items()}}

    def by_head(self) -> list[dict[str, float]]:
        """One row a head, averaged over batch and queries that see something: what the drawings show."""
        rows: list[dict[str, float]] = []
        H = self.lse.shape[-2] if self.lse.dim() > 1 else 1
        looking = self.seen > 0
        columns: dict[str, Tensor] = {}
        if self.entropy is not None:
            columns |= {"entropy": self.entropy, "of log n": self.evenness}
        for name, value in (("peak", self.peak), ("peak ≤", self.bound), ("distance", self.distance)):
            if value is not None and not (name == "peak ≤" and self.peak is not None):
                columns[name] = value
        columns |= {f"mass {name}": m for name, m in self.mass.items()}
        for h in range(H):
            at = looking.reshape(-1, H, looking.shape[-1])[:, h]
            row = {
                n: c.detach().double().reshape(-1, H, c.shape[-1])[:, h][at].mean().item() for n, c in columns.items()
            }
            if self.spread is not None:
                row["spread of s"] = self.spread.detach().double().reshape(-1, H)[:, h].mean().item()
            rows.append(row)
        return rows

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        rows = self.by_head()
        names = list(rows[0]) if rows else []
        shape = "(" + ", ".join(str(n) for n in self.output.shape) + ")"
        title = f"Reading {shape} by {self.engine}; means over queries. Weight is not explanation."
        return title, ["head", *names], [[str(h), *(f"{row[n]:.3f}" for n in names)] for h, row in enumerate(rows)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.table import Table

        title, names, rows = self._table()
        table = Table(title=title, title_justify="left")
        for name in names:
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*row)
        yield table

    def _repr_html_(self) -> str:
        title, names, rows = self._table()
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __repr__(self) -> str:
        title, names, rows = self._table()
        widths = [max(len(line[n]) for line in [names, *rows]) for n in range(len(names))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in [names, *rows]
        ]
        return "\n".join([title, *lines])


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other or (one is not None and other is not None and torch.equal(one, other))


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    """exp(part − whole), 0 where the part is −∞ (0/0 for an empty row included)."""
    nothing = part == -math.inf
    return torch.where(nothing, 0.0, torch.exp(torch.where(nothing, 0.0, part) - finite(whole)))
