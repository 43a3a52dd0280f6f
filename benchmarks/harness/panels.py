"""Panels, at most two a row, of what many series were at some points, drawn with matplotlib; one legend for all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.row import Spot

__all__ = ["draw_panels"]

MARKERS = "osD^vPX*<>hp"


def draw_panels(spots: Sequence[Spot], path: Path) -> None:
    """One panel for each ``panel`` of the spots. A series looks the same in all of them.

    Lines that coincide are seen through each other: each next one is thinner, and lies on top.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(spot.panel for spot in spots))
    series = list(dict.fromkeys(spot.series for spot in spots))
    across, down = min(2, len(panels)), (len(panels) + 1) // 2
    figure = Figure(figsize=(2 + 5.5 * across, 4.6 * down), layout="constrained")
    plots = figure.subplots(down, across, squeeze=False).flatten()
    colours = [colormaps["tab20"](n) for n in (*range(0, 20, 2), *range(1, 20, 2))]
    handles = {}
    for panel, plot in zip(panels, plots, strict=False):
        here = [spot for spot in spots if spot.panel == panel]
        drawn = [name for name in series if any(spot.series == name for spot in here)]
        spread = min(4.5, 0.6 * len(drawn))
        for number, name in enumerate(drawn):
            line = sorted((spot.x, spot.y) for spot in here if spot.series == name)
            at = series.index(name)
            (handles[name],) = plot.plot(
                *zip(*line, strict=True),
                linestyle="--" if any(spot.peer for spot in here if spot.series == name) else "-",
                color=colours[at % len(colours)],
                marker=MARKERS[at % len(MARKERS)],
                markersize=7 - 4 * number / len(drawn),
                linewidth=1 + spread * (1 - number / len(drawn)),
                alpha=0.85,
            )
        x, y = here[0].axes
        plot.set(title=panel, xlabel=x, ylabel=y)
        if here[0].by_powers:
            plot.set_xscale("log", base=2)
            plot.xaxis.set_major_formatter(_short)
        if here[0].logarithmic:
            plot.set_yscale("log")
        plot.grid(alpha=0.3)
    for plot in plots[len(panels) :]:
        plot.set_visible(False)
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=120)


def _short(x: float, _: object = None) -> str:
    """A number of tokens as people write it.

    >>> _short(512), _short(131072)
    ('512', '128k')
    """
    return f"{x / 1024:g}k" if x >= 1024 else f"{x:g}"
