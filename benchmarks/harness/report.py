"""Everything that was found, as one table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.harness.machine import Machine, rate
from benchmarks.harness.row import Drawing, Line, Point, Row, Spot
from benchmarks.harness.setting import Setting

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["Report", "amount", "figure", "ratio"]

QUICK = "QUICK: small shapes, to see that it runs; no goal is judged by them"
OTHER = "goals are set for float32 on a CPU; here they are not judged"


@dataclass
class Report:
    """What one run found, each kind in the order it was measured. It draws itself as tables."""

    machine: Machine
    setting: Setting
    rows: list[Row] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    interrupted: bool = False

    def add(self, found: Row | Point | Spot | Line | Drawing, benchmark: str) -> None:
        if isinstance(found, Row):
            self.rows.append(found.of(benchmark))
        elif isinstance(found, Line):
            self.lines.append(found)
        elif isinstance(found, Spot):
            self.spots.append(found)
        elif isinstance(found, Drawing):
            self.drawings.append(found)
        else:
            self.points.append(found)

    @property
    def summary(self) -> str:
        """How many goals were met."""
        aimed = [row for row in self.rows if row.goal is not None]
        met, missed = (sum(row.met is verdict for row in aimed) for verdict in (True, False))
        if self.setting.judged:
            text = f"{met} of {len(aimed)} goals met, {missed} not met, {len(aimed) - met - missed} not measured"
        else:
            text = QUICK if self.setting.quick else OTHER
        return f"interrupted; {text}" if self.interrupted else text

    def to_dict(self) -> dict[str, Any]:
        return {
            "machine": self.machine.to_dict(),
            "device": self.setting.device,
            "dtype": self.setting.dtype,
            "engine": self.setting.engine,
            "quick": self.setting.quick,
            "interrupted": self.interrupted,
            "summary": self.summary,
            "rows": [row.to_dict() for row in self.rows],
            "points": [point.to_dict() for point in self.points],
            "spots": [spot.to_dict() for spot in self.spots],
            "lines": [line.to_dict() for line in self.lines],
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        style = "bold red" if self.setting.quick else "bold"
        yield Text(str(self.machine))
        yield Text(f"{self.setting.dtype} on engine {self.setting.engine}; ranges are over the rounds")
        if self.rows:
            yield self._table()
        for title in dict.fromkeys(line.table for line in self.lines):
            yield _lines(title, [line.cells for line in self.lines if line.table == title])
        yield Text(self.summary, style=style)

    def _table(self) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, title=QUICK if self.setting.quick else None, title_style="bold red")
        for heading in ("found", "work", "regard", "against", "goal", "reached"):
            table.add_column(heading, overflow="fold")
        name = ""
        for row in self.rows:
            if row.benchmark != name:
                table.add_section()
                table.add_row("", Text(row.benchmark, style="bold"))
                name = row.benchmark
            table.add_row(
                _found(row), _work(row), amount(row.ours, row.amount), _against(row), _goal(row), _reached(row)
            )
        return table


def _lines(title: str, lines: list[dict[str, str]]) -> Table:
    """A table of its own; a first cell that says what the one above says is left empty, and ends no section."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title)
    headings = list(dict.fromkeys(heading for line in lines for heading in line))
    for heading in headings:
        table.add_column(heading.replace("-diag-", "-diag\n-"), no_wrap=True)
    above = ""
    for line in lines:
        first, *others = (Text(line.get(heading, "")) for heading in headings)
        if first.plain != above:
            table.add_section()
        table.add_row(Text("") if first.plain == above else first, *others)
        above = first.plain
    return table


def figure(x: float) -> str:
    """Three figures, never as a power of ten.

    >>> figure(1234.5), figure(12.345), figure(0.0123), figure(1.0)
    ('1,234', '12.3', '0.0123', '1')
    """
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def ratio(x: float) -> str:
    """The same with its zeros, so that 1.00 and 1.04 stand beside each other.

    >>> ratio(1234.5), ratio(1.0)
    ('1,234', '1.00')
    """
    return figure(x) if abs(x) >= 100 else f"{x:#.3g}"


def amount(x: float | None, unit: str) -> str:
    """A number with its unit, seconds in the prefix that suits them; nothing for None.

    >>> amount(0.0123, "s"), amount(4.2e-5, "s"), amount(20, "MiB")
    ('12.3 ms', '42 µs', '20 MiB')
    """
    if x is None:
        return ""
    if unit == "s" and x < 1:
        return f"{figure(x * 1e3)} ms" if x >= 1e-3 else f"{figure(x * 1e6)} µs"
    return f"{figure(x)} {unit}"


def _found(row: Row) -> Text:
    from rich.text import Text

    if row.value is None:
        return Text("–")
    show = ratio if row.unit.startswith("×") else figure
    text = Text(f"{show(row.value)} {row.unit}".strip(), style="bold")
    if row.low is not None and row.high is not None and row.rounds > 1:
        text.append(f"\n{show(row.low)}–{show(row.high)}", style="not bold dim")
    return text


def _work(row: Row) -> Text:
    from rich.text import Text

    text = Text(row.work)
    if row.problem:
        text.append(f"\n{row.problem}", style="red")
    if row.note:
        text.append(f"\n{row.note}", style="dim")
    return text


def _against(row: Row) -> str:
    theirs = amount(row.theirs, row.amount)
    return f"{row.peer}\n{theirs}" if theirs else row.peer


def _goal(row: Row) -> Text:
    from rich.text import Text

    if row.goal is None:
        return Text("")
    style = {True: "green", False: "bold red", None: "dim"}[row.met]
    return Text(f"{row.goal}\n").append(row.verdict, style=style)


def _reached(row: Row) -> str:
    """The rates that ours reached, to be held against the machine's."""
    if not row.ours or row.amount != "s":
        return ""
    rates = [rate(x / row.ours, unit) for x, unit in ((row.cost.flops, "FLOP/s"), (row.cost.bytes, "B/s")) if x]
    return "\n".join(rates)
