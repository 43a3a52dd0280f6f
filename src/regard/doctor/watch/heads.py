"""Every head of every layer in one table: what it looked at, over all batches that ran."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from regard.doctor.finding import plain
from regard.doctor.watch.stream import Stream

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

BARS = "▁▂▃▄▅▆▇█"
SHOWN = 20  # rows of the terminal's table
#: Column heads that leave room in 80 columns.
_SHORT = {"head": "h", "entropy": "ent", "first": "1st", "previous": "prev", "padding": "pad", "special": "spec"}
_SHORT |= {"distance": "dist", "one-hot": "1-hot", "spread": "std"}


@dataclass(frozen=True)
class Head:
    """One head of one module. Means are over the queries that are real tokens and see something; NaN where none did.

    ``mass`` is the share of the weight on groups of keys: first, self, previous, padding, special, and the caller's.
    """

    module: str
    head: int
    entropy: float
    """−Σ w log w as a share of log n, n the keys seen, over rows that see two or more: 1 is everywhere alike."""
    peak: float
    """The largest weight of a row."""
    mass: dict[str, float]
    distance: float
    """Σ w |i − j| in places."""
    spread: float
    """Standard deviation of the scores over the pairs that may be seen."""
    saturated: float
    """Share of rows whose entropy is under 10 % of log n."""
    empty: float
    """Share of queries that may see nothing."""
    similarity: float
    """To the head of this module that looks most like it: mean Σ_j √(w_j w′_j); NaN for a head alone."""
    like: int
    """Which head that is; −1 for a head alone."""
    rows: int
    """Queries that were counted."""
    calls: int
    dead: bool = False
    """Its values were 0 in every call."""
    source: str = ""
    kind: str = ""

    @property
    def concern(self) -> float:
        """What the table is sorted by, 0 to 1: the worst of dead, empty, saturated, padding read, uniform, doubled."""
        uniform = 20 * (self.entropy - 0.95) if self.entropy > 0.95 else 0.0
        doubled = 0.5 if self.similarity > 0.999 else 0.0
        parts = [float(self.dead), self.empty, self.saturated, self.mass.get("padding", 0.0), 0.5 * uniform, doubled]
        return min(1.0, max(x for x in (0.0, *parts) if not math.isnan(x)))

    def to_dict(self) -> dict[str, Any]:
        names = ("module", "head", "entropy", "peak", "distance", "spread", "saturated", "empty", "similarity", "like")
        more = ("rows", "calls", "dead", "source", "kind", "concern")
        found = {name: plain(getattr(self, name)) for name in (*names, *more)}
        return found | {"mass": {name: plain(x) for name, x in self.mass.items()}}


@dataclass(frozen=True)
class Heads(Sequence[Head]):
    """A table of heads, in the order of the modules' first calls. It prints itself, worst first, a sparkline a layer.

    ``heads[3]`` is a :class:`Head`; ``layers`` gives the heads of each module; ``worst()`` sorts by ``concern``.
    """

    rows: tuple[Head, ...] = ()
    groups: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, streams: Sequence[Stream]) -> Heads:
        rows = tuple(row for stream in streams for row in _rows(stream))
        names = dict.fromkeys(name for stream in streams for name in stream.mass)
        usual = [name for name in ("first", "self", "previous", "padding", "special") if name in names]
        return cls(rows, (*usual, *(name for name in names if name not in usual)))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    @property
    def layers(self) -> dict[str, tuple[Head, ...]]:
        """The heads of each module, by its path."""
        found: dict[str, tuple[Head, ...]] = {}
        for row in self.rows:
            found[row.module] = (*found.get(row.module, ()), row)
        return found

    def worst(self) -> list[Head]:
        """The heads, the one to look at first at the top."""
        return sorted(self.rows, key=lambda row: -row.concern)

    def sparklines(self) -> dict[str, str]:
        """A bar a head for each module: its entropy as a share of log n, ▁ one key to █ everywhere alike."""
        return {module: "".join(_bar(row.entropy) for row in rows) for module, rows in self.layers.items()}

    def to_dict(self) -> dict[str, Any]:
        return {"groups": list(self.groups), "heads": [row.to_dict() for row in self.rows]}

    def _columns(self) -> list[str]:
        return ["module", "head", "entropy", "peak", *self.groups, "distance", "spread", "one-hot", "empty", "like"]

    def _cells(self, row: Head) -> list[str]:
        like = "—" if row.like < 0 else f"{row.like}: {_number(row.similarity)}"
        return [
            row.module or "(the model)",
            f"{row.head}†" if row.dead else str(row.head),
            _number(row.entropy),
            _number(row.peak),
            *(_number(row.mass.get(name, math.nan)) for name in self.groups),
            _number(row.distance, 1),
            _number(row.spread),
            _percent(row.saturated),
            _percent(row.empty),
            like,
        ]

    def _title(self) -> str:
        n = len(self.layers)
        return f"{len(self.rows)} heads of {n} module{'' if n == 1 else 's'}, worst first. Weight is not explanation."

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        if not self.rows:
            yield Text("No attention was seen.")
            return
        table = Table(title=self._title(), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=0)
        for n, name in enumerate(self._columns()):
            table.add_column(_SHORT.get(name, name), justify="left" if n == 0 else "right", no_wrap=True)
        worst = self.worst()
        lines = [self._cells(row) for row in worst[:SHOWN]]
        names = [_SHORT.get(name, name) for name in self._columns()]
        widths = [max(map(len, column)) + 1 for column in zip(*lines, names, strict=True)]
        room = max(8, options.max_width - sum(widths[1:]) - 2)
        parts = zip(*(module.split(".") for module, *_ in lines), strict=False)
        common = sum(1 for _ in takewhile(lambda part: len(set(part)) == 1, parts))
        for module, *numbers in lines:
            table.add_row(_short(module, common, room), *numbers)
        yield table
        if len(worst) > SHOWN:
            yield Text(f"and {len(worst) - SHOWN} more heads")
        yield Text("entropy by head, ▁ one key to █ everywhere alike:")
        width = max(len(name) for name in self.sparklines())
        for module, line in self.sparklines().items():
            yield Text(f"{module or '(the model)':<{width}}  {line}")

    def __str__(self) -> str:
        lines = [self._columns(), *(self._cells(row) for row in self.worst())]
        widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
        drawn = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self._title(), *drawn]) if self.rows else "No attention was seen."

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(name)}</th>" for name in self._columns())
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in self._cells(row)) + "</tr>" for row in self.worst()
        )
        caption = escape(self._title())
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _rows(stream: Stream) -> list[Head]:
    columns = {name: stream.mean(name) for name in ("evenness", "peak", "distance", "saturated", "empty")}
    mass = {name: stream.mean(name) for name in stream.mass}
    spread, alike = stream.spread(), stream.similarity()
    known = stream.heads > 1 and float(stream.state["compared"][0]) > 0
    alike.fill_diagonal_(-1.0)
    found = []
    for h in range(stream.heads):
        best, like = alike[h].max(0)
        found.append(
            Head(
                module=stream.module,
                head=h,
                entropy=float(columns["evenness"][h]),
                peak=float(columns["peak"][h]),
                mass={name: float(x[h]) for name, x in mass.items()},
                distance=float(columns["distance"][h]),
                spread=float(spread[h]),
                saturated=float(columns["saturated"][h]),
                empty=float(columns["empty"][h]),
                similarity=min(1.0, float(best)) if known else math.nan,
                like=int(like) if known else -1,
                rows=int(stream.state["rows"][h]),
                calls=int(stream.state["calls"][h]),
                dead=float(stream.state["value"][h]) == 0.0,
                source=stream.source,
                kind=stream.kind,
            )
        )
    return found


def _short(module: str, common: int, room: int) -> str:
    """The path without what all paths begin with, where there is no room for it."""
    if len(module) <= room:
        return module
    own = "…" + ".".join(module.split(".")[common:])
    return own if len(own) <= room else own[: room - 1] + "…"


def _bar(share: float) -> str:
    return " " if math.isnan(share) else BARS[min(len(BARS) - 1, max(0, int(share * len(BARS))))]


def _number(x: float, digits: int = 2) -> str:
    return "—" if math.isnan(x) else f"{x:.{digits}f}"


def _percent(x: float) -> str:
    return "—" if math.isnan(x) else f"{100 * x:.0f} %"
