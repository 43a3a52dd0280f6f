"""`regard inspect MODEL --text FILE`: every head of a model, in numbers and as maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.bar import progress

if TYPE_CHECKING:
    from regard.bridge.load import Loaded
    from regard.doctor.inspect.looking import Inspection

__all__ = ["heads"]


def heads(
    name: str,
    text: Path | None,
    *,
    max_length: int | None,
    cells: int | None,
    json: bool,
    html: Path | None,
    serve: bool,
    port: int,
    download: bool,
) -> None:
    """Loads the model, lets it read the text, prints what was seen, writes the page, and serves it until Ctrl-C."""
    from regard.doctor.formats.files import check_place

    if html is not None:
        check_place(html, "--html")

    from dataclasses import replace

    from regard.bridge.load import load
    from regard.doctor.inspect.looking import look, mapped, sides

    loaded = load(name, text, rows=None, length=max_length, download=download)
    seen = look(loaded)
    _print(seen, json)
    if html is not None:
        from regard.doctor.inspect.page import document
        from regard.files import replace as write

        with progress() as step:
            charts = mapped(loaded, seen, sides(seen, cells), step)
        write(html, document(replace(seen, charts=charts)).encode(errors="replace"), "--html")
    if serve:
        _serve(loaded, seen, port)


def _print(seen: Inspection, json: bool) -> None:
    if json:
        import json as encoder

        typer.echo(encoder.dumps(seen.to_dict(), ensure_ascii=False))
        return
    from rich.console import Console
    from rich.text import Text

    from regard.doctor.formats.terminal import findings
    from regard.doctor.formats.words import safe

    console = Console(highlight=False)
    console.print(Text(f"{safe(seen.name)}, {seen.length:,} tokens", style="bold"))
    for note in seen.notes:
        console.print(Text(note), style="dim")
    console.print()
    for line in findings(list(seen.findings), console.width):
        console.print(Text.assemble(*line))
    for one in seen.untested:
        console.print(Text(f"not measured: {safe(one.why)}"), style="magenta")
    console.print(seen.heads)


def _serve(loaded: Loaded, seen: Inspection, port: int) -> None:
    from regard.doctor.inspect.looking import kept
    from regard.doctor.inspect.page import document
    from regard.doctor.inspect.serve import server

    sources = kept(loaded)
    order = [(head.module, head.source, head.head) for head in seen.heads.worst()]
    drawable = {n: sources[place] for n, place in enumerate(order) if place in sources}
    page = document(seen, {n: source.size for n, source in drawable.items()})
    with server(page, drawable, port) as running:
        typer.echo(f"http://127.0.0.1:{running.server_port}/ shows the heads until Ctrl-C", err=True)
        running.serve_forever()
