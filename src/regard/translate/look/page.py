"""A look as HTML: a table whose cells are shaded by weight. No script, no font, no address: no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.translate.look.look import Look

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c1c28;background:#fff}
.regard{margin:0 0 3rem;overflow-x:auto}.regard blockquote{margin:.2rem 0;font-size:1.15em}
.regard table{border-collapse:collapse;margin:1rem 0}.regard th{font-weight:600;padding:.2rem .5rem;text-align:right}
.regard thead th{text-align:center;vertical-align:bottom}.regard td{min-width:2.4rem;height:1.9rem;text-align:center;
border:1px solid #e4e4ee;font-variant-numeric:tabular-nums;font-size:.8em}
.regard td.top{outline:2px solid #1c1c28;outline-offset:-2px;font-weight:700}
.regard td.n{border:0;padding-left:.8rem;color:#555}
.regard ul{padding-left:1.2rem}.regard .note{font-style:italic;color:#555}
@media (prefers-color-scheme:dark){body{background:#15151d;color:#e8e8f0}.regard td{border-color:#33333f}
.regard td.top{outline-color:#e8e8f0}.regard td.n,.regard .note{color:#aaa}}
"""


def document(looks: Sequence[Look], title: str = "regard inspect") -> str:
    """A whole page with the looks below each other."""
    body = "\n".join(_section(look) for look in looks)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def section(look: Look) -> str:
    """One look with its style, for a notebook."""
    return f"<style>{_STYLE.replace('body{', '.regard{', 1)}</style>{_section(look)}"


def _section(look: Look) -> str:
    head = "".join(f'<th scope="col">{escape(word)}</th>' for word in look.source)
    rows = []
    for word, row in zip(look.words, look.weights.tolist(), strict=True):
        cells = "".join(
            f'<td{" class=top" if j == word.peak_at else ""} style="background:rgba(255,150,20,{weight:.3f})" '
            f'title="{escape(word.text)} → {escape(look.source[j])}: {weight:.4f}">{_percent(weight)}</td>'
            for j, weight in enumerate(row)
        )
        rows.append(
            f'<tr><th scope="row">{escape(word.text)}</th>{cells}<td class=n>{word.evenness:.2f}</td>'
            f"<td class=n>{word.peak:.2f} {escape(look.source[word.peak_at])}</td></tr>"
        )
    notices = "".join(f"<li>{escape(notice)}</li>" for notice in look.notices)
    return (
        f'<section class="regard"><blockquote>{escape(look.sentence)}</blockquote>'
        f"<blockquote><b>{escape(look.translation)}</b></blockquote>"
        f"<table><thead><tr><th></th>{head}"
        '<th title="entropy as a share of log n">H / log n</th><th>peak at</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table><ul>{notices}</ul><p class=note>{escape(look.reminder)}</p></section>"
    )


def _percent(weight: float) -> str:
    return f"{100 * weight:.0f}" if weight >= 0.005 else ""
