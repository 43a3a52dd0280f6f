"""Time and memory against length, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from benchmarks.harness.row import Point

__all__ = ["draw"]

FIELDS = ("seconds", "mib")


def draw(points: Sequence[Point], path: Path) -> None:
    """One row of two plots, time and memory, for each work; its series are ours and the peers'."""
    from matplotlib.figure import Figure

    works = list(dict.fromkeys(point.work for point in points))
    figure = Figure(figsize=(10, 3.6 * len(works)), layout="constrained")
    grid = figure.subplots(len(works), len(FIELDS), squeeze=False)
    for work, plots in zip(works, grid, strict=True):
        length, mib = next(point.axes for point in points if point.work == work)
        for plot, field, label in zip(plots, FIELDS, ("seconds", mib), strict=True):
            for series in dict.fromkeys(point.series for point in points if point.work == work):
                line = [
                    (point.length, y)
                    for point in points
                    if (point.work, point.series) == (work, series) and (y := getattr(point, field))
                ]
                if line:
                    plot.plot(
                        *zip(*line, strict=True), marker="o", label=series, linewidth=2 if series == "regard" else 1
                    )
            plot.set(xscale="log", yscale="log", xlabel=length, ylabel=label, title=fill(work, 50))
            plot.set_xscale("log", base=2)
            plot.grid(alpha=0.3)
            if plot.lines:
                plot.legend()
    figure.savefig(path)
