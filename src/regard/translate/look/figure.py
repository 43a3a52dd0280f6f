"""A look as a picture, by matplotlib: target words down, source words across, the strongest link framed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.translate.look.look import Look

_HAN = ("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "SimHei", "PingFang SC")


def drawing(looks: Sequence[Look], kind: str = "png") -> tuple[bytes, list[str]]:
    """The looks below each other as the bytes of a picture, and the characters for which no font was found.

    ``kind`` is png, svg or pdf.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    widest = max(len(look.source) for look in looks)
    heights = [0.45 * max(1, len(look.target)) + 1.5 for look in looks]
    figure = Figure(figsize=(0.75 * widest + 3.0, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    families, missing = _fonts("".join(look.translation + look.sentence for look in looks))
    panels = figure.subplots(len(looks), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, look in zip(panels, looks, strict=True):
        _draw(panel, look, families)
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # said once, by the caller
        figure.savefig(file, format=kind, dpi=160)
    return file.getvalue(), missing


def _draw(panel: Any, look: Look, families: list[str]) -> None:
    panel.imshow(look.weights.numpy(), cmap="magma", vmin=0.0, vmax=1.0, aspect="auto")
    panel.set_xticks(range(len(look.source)), look.source, rotation=35, ha="left", family=families)
    panel.set_yticks(range(len(look.target)), look.target, family=families)
    panel.xaxis.tick_top()
    panel.set_title(f"{look.sentence}\n{look.translation}", family=families, fontsize=11)
    for i, (word, row) in enumerate(zip(look.words, look.weights.tolist(), strict=True)):
        for j, weight in enumerate(row):
            if weight >= 0.01:
                ink = "black" if weight > 0.6 else "white"
                panel.text(j, i, f"{100 * weight:.0f}", ha="center", va="center", fontsize=8, color=ink)
        panel.add_patch(_frame(word.peak_at, i))
    panel.set_xlabel("in each cell: weight in %; framed: the strongest. Weight is not explanation.", fontsize=8)


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="deepskyblue", linewidth=2)


def _fonts(text: str) -> tuple[list[str], list[str]]:
    """Font families that together can write ``text``, and the characters that none of those installed can."""
    from matplotlib import font_manager, ft2font

    installed = {entry.name: entry.fname for entry in font_manager.fontManager.ttflist}
    families = ["DejaVu Sans", *(name for name in _HAN if name in installed)]
    usable = [installed[name] for name in families if name in installed]
    known = set[int]().union(*(ft2font.FT2Font(file).get_charmap() for file in usable))
    return families, sorted({c for c in text if ord(c) not in known and not c.isspace()})
