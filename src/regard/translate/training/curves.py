"""The entropies of a run as a picture, by matplotlib: a curve for each head over the epochs, the ends shaded."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.files import replace
from regard.translate.training.entropy import EVEN, SINGLE, Entropies

__all__ = ["check_plot", "draw"]

_KINDS = ("svg", "png", "pdf")


def check_plot(path: Path) -> None:
    """Raises where a picture of that name cannot be drawn."""
    if path.suffix[1:] not in _KINDS:
        raise RegardError(f"plot: found {path}, wanted a name that ends in {', '.join(f'.{k}' for k in _KINDS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise RegardError("plot: matplotlib is not installed; pip install 'regard[cli]', or leave plot out") from error


def draw(path: Path, history: Sequence[Entropies]) -> None:
    """Writes the picture of ``history``, the entropies of each epoch; the same bytes for the same numbers."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "regard", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.0, 4.0), layout="constrained")
        FigureCanvasAgg(figure)
        _panel(figure.subplots(), history)
        file = BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(path.suffix[1:], {})
        figure.savefig(file, format=path.suffix[1:], dpi=160, metadata=metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, file.getvalue(), "plot")


def _panel(panel: Any, history: Sequence[Entropies]) -> None:
    from matplotlib import colormaps

    epochs = range(1, len(history) + 1)
    layers = len(history[-1])
    panel.axhspan(SINGLE, EVEN, color="tab:green", alpha=0.08, lw=0)
    for end, says in (
        (0.0, "one place: healthy where each word has one counterpart"),
        (1.0, "everywhere alike: the mean"),
    ):
        panel.axhline(end, color="0.6", lw=0.8, ls=":")
        panel.annotate(
            says,
            (0.01, end),
            xycoords=("axes fraction", "data"),
            fontsize=7,
            color="0.35",
            va="bottom",
            xytext=(0, 2),
            textcoords="offset points",
        )
    for layer in range(layers):
        colour = colormaps["viridis"](layer / max(layers - 1, 1) * 0.85)
        for head in range(len(history[-1][layer])):
            course = [epoch[layer][head] for epoch in history]
            label = f"layer {layer + 1}" if head == 0 and layers > 1 else None
            panel.plot(epochs, course, color=colour, lw=1.3, marker="." if len(history) < 40 else "", label=label)
    if layers > 1:
        panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    panel.set_ylim(-0.03, 1.09)
    panel.set_xlabel("epoch")
    panel.set_ylabel("entropy / log n of the look at the source")
    panel.set_title("A curve for each head; shaded: neither end. What is healthy depends on the task.", fontsize=9)
    panel.xaxis.get_major_locator().set_params(integer=True)
