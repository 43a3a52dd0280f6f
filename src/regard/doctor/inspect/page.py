"""An inspection as one page: the findings, the table of heads, and a map of any head that zooms. No network."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import torch

from regard.doctor.finding import plain
from regard.doctor.formats.place import place
from regard.doctor.formats.words import safe, together
from regard.page import asset, encoded
from regard.page import document as shell

if TYPE_CHECKING:
    from regard.doctor.finding import Finding
    from regard.doctor.inspect.looking import Inspection
    from regard.doctor.inspect.maps import Map
    from regard.doctor.watch.heads import Head

__all__ = ["described", "document"]

#: Column: its head, what it means.
_COLUMNS = {
    "entropy": ("H / log n", "entropy as a share of log n: 1 everywhere alike, 0 at one key"),
    "peak": ("peak", "the largest weight of a row"),
    "distance": ("distance", "mean distance from query to key, in tokens"),
    "spread": ("std s", "standard deviation of the scores"),
    "saturated": ("one-hot", "share of rows with entropy under 10 % of log n"),
    "empty": ("empty", "share of queries that may see nothing"),
}


def document(seen: Inspection, served: Mapping[int, tuple[int, int]] | None = None) -> str:
    """The page. Its maps are those of ``seen.charts``; ``served`` gives (L, S) of heads that a server draws."""
    order = seen.heads.worst()
    index = {id(head): n for n, head in enumerate(order)}
    charts = {index[id(chart.head)]: chart for chart in seen.charts}
    regions = {n: {"top": 0, "bottom": L, "left": 0, "right": S} for n, (L, S) in (served or {}).items()}
    data = {
        "tokens": [safe(token) if token.strip() else token for token in seen.tokens],
        "maps": {n: _about(chart.map) for n, chart in charts.items()},
        "regions": regions,
        "served": served is not None,
    }
    shown = [n for n in range(len(order)) if n in charts or n in regions]
    held = "".join(f'<script type="text/plain" id="map-{n}">{_packed(c.map)}</script>\n' for n, c in charts.items())
    reach = "'self'" if served is not None else "'none'"
    notes = "".join(f"<p>{_text(one)}</p>" for one in seen.notes)
    size = f"{seen.length:,} tokens · {len(order)} heads of {len(seen.heads.layers)} modules"
    body = (
        f'<h1>{_text(seen.name)}</h1><p class="soft">{size}</p>{notes}\n'
        f"{_findings(seen)}{_layers(seen)}{_table(seen, order, set(shown))}{_map(order, shown)}\n"
        f'<script type="application/json" id="data">{encoded(data)}</script>\n{held}'
    )
    style, script = (asset("regard.doctor.inspect", name) for name in ("page.css", "page.js"))
    return shell(f"{safe(seen.name)} · heads", body, style=style, script=script, reach=reach)


def described(m: Map) -> dict[str, Any]:
    """A map as the page's script reads it."""
    return {**_about(m), "planes": _packed(m)}


def _packed(m: Map) -> str:
    """The planes as 12-bit numbers on a logarithmic scale, 1e-9 to 1, deflated, in base 64."""
    values = torch.stack([plane.flatten() for plane in m.planes]).double().clamp(max=1.0)
    level = 1 + (1 + values.clamp(min=1e-9).log() / (9 * math.log(10))) * 4094
    codes = torch.where(values < 1e-9, 0.0, level.round()).to(torch.int32).numpy().astype("<u2")
    return base64.b64encode(zlib.compress(codes.tobytes(), 6)).decode()


def _about(m: Map) -> dict[str, int]:
    rows, columns = m.share.shape
    sizes = {"top": m.top, "left": m.left, "bottom": m.bottom, "right": m.right, "height": m.height, "width": m.width}
    return {"rows": rows, "columns": columns, **sizes}


def _findings(seen: Inspection) -> str:
    found = "".join(_group(group) for group in together(list(seen.findings)))
    missing = "".join(f"<li>{_text(one.why)}</li>" for one in seen.untested)
    missing = f"<p>Not measured:</p><ul>{missing}</ul>" if missing else ""
    return f"<h2>Findings</h2>{found or '<p>Nothing was found by what the heads looked at.</p>'}{missing}\n"


def _group(group: list[Finding]) -> str:
    first = group[0]
    each = "".join(f"<p>{_text(one.message)} <span class=soft>{_text(_where(one))}</span></p>" for one in group)
    return (
        f'<div class="found {first.severity}"><b>{first.severity} {_text(first.code)}</b> {_text(first.title)}{each}'
        f"<p><b>Fix:</b> {_text(first.fix)}</p></div>"
    )


def _where(one: Finding) -> str:
    return " · ".join(str(part) for part in (one.module, place(one.source) or "") if part)


def _layers(seen: Inspection) -> str:
    rows = "".join(_layer(module, line, seen) for module, line in seen.heads.sparklines().items())
    caption = "Entropy of each head as a share of log n, ▁ one key to █ everywhere alike"
    return f"<h2>Layers</h2>{_wide('Layers', f'<caption>{caption}</caption><tbody>{rows}</tbody>')}\n"


def _layer(module: str, line: str, seen: Inspection) -> str:
    numbers = ", ".join(_number(head.entropy) for head in seen.heads.layers[module])
    name = f'<th scope="row">{_text(module or "(the model)")}</th>'
    bars = f'<td class="left"><span class="bars" aria-hidden="true">{line}</span></td>'
    return f'<tr>{name}{bars}<td class="left soft">{numbers}</td></tr>'


def _wide(name: str, table: str) -> str:
    """A table that scrolls inside its own frame, which keys can reach."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{name}"><table>{table}</table></div>'


def _table(seen: Inspection, order: list[Head], shown: set[int]) -> str:
    groups = seen.heads.groups
    titles: list[tuple[str, str, str]] = [
        ("module", "module", ""),
        ("head", "head", ""),
        *((key, *value) for key, value in _COLUMNS.items()),
    ]
    at = 4
    titles[at:at] = [(name, name, f"share of the weight on: {name}") for name in groups]
    head = "".join(_title(title, why) for _, title, why in titles[:2]) + '<th scope="col">map</th>'
    head += "".join(_title(title, why) for _, title, why in titles[2:])
    body = "".join(_row(n, each, groups, n in shown) for n, each in enumerate(order))
    inside = f'<thead><tr>{head}<th scope="col">like</th></tr></thead><tbody>{body}</tbody>'
    return f"<h2>Heads, worst first</h2>{_wide('Table of heads', inside)}\n"


def _title(title: str, why: str) -> str:
    return f'<th scope="col"><button type="button" title="{_text(why)}">{_text(title)}</button></th>'


def _row(n: int, head: Head, groups: tuple[str, ...], shown: bool) -> str:
    values: list[float] = [head.entropy, head.peak, *(head.mass.get(name, math.nan) for name in groups)]
    values += [head.distance, head.spread, head.saturated, head.empty]
    cells = "".join(f'<td data-value="{plain(x)}">{_number(x)}</td>' for x in values)
    like = "—" if head.like < 0 else f"{head.like}: {_number(head.similarity)}"
    button = f'<button type="button" data-map="{n}" aria-label="Map of {_text(_name(head))}">map</button>'
    number = f'<td data-value="{head.head}">{head.head}{" (dead)" if head.dead else ""}</td>'
    module = _text(head.module or "(the model)")
    return f'<tr data-head="{n}"><td>{module}</td>{number}<td>{button if shown else ""}</td>{cells}<td>{like}</td></tr>'


def _map(order: list[Head], shown: list[int]) -> str:
    if not shown:
        return ""
    options = "".join(f'<option value="{n}">{_text(_name(order[n]))}</option>' for n in shown)
    return asset("regard.doctor.inspect", "map.html").replace("{options}", options)


def _name(head: Head) -> str:
    return f"{head.module or 'the model'}, head {head.head}"


def _number(x: float) -> str:
    return "—" if math.isnan(x) else f"{x:.2f}"


def _text(words: str) -> str:
    return escape(safe(words))
