"""`regard check`: what is wrong with a model's attention, where, and how to mend it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.bar import progress

if TYPE_CHECKING:
    from regard.doctor.report import Report

__all__ = ["check"]


def check(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A Hugging Face folder or name, or package.module:factory.")
    ] = None,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="UTF-8 text; each line is a row of the batch.")
    ] = None,
    causal: Annotated[
        bool | None,
        typer.Option(
            "--causal/--not-causal",
            help="What the model claims: no output sees later tokens, or it may; else what the model says of itself.",
            show_default=False,
        ),
    ] = None,
    prefix: Annotated[int, typer.Option(min=0, help="Tokens at the start that may see each other.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Rows at most.")] = 4,
    max_length: Annotated[int, typer.Option(min=1, help="Tokens of a row at most.")] = 64,
    tokens: Annotated[str | None, typer.Option(metavar="NAME", help="The argument that holds the tokens.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="The argument that holds what is written, beside a source.")
    ] = None,
    mask: Annotated[
        str | None, typer.Option(metavar="NAME", help="The argument that tells padding: a mask, lengths or the tokens.")
    ] = None,
    pad_id: Annotated[int | None, typer.Option(help="The id that stands on padding.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not try the cache.")] = False,
    sets: Annotated[bool, typer.Option("--sets", help="The model claims that order does not matter.")] = False,
    allow: Annotated[list[str] | None, typer.Option(metavar="CODE", help="Accept this code; may be repeated.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as a JSON object.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one page that needs no network.")] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0, for code review.")] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch a Hugging Face model that is not on this disk.")
    ] = False,
    explain: Annotated[
        str | None, typer.Option(metavar="CODE", help="Print what a code means, and how to fix it.")
    ] = None,
) -> None:
    r"""Find what is wrong with a model's attention, where it begins, and how to fix it.

    The model is probed from outside: later tokens, padding, its side and its content, rows beside each other, steps
    with the cache, packed documents, precision, gradients. Each effect is judged against the model's own noise. Then
    its attention is watched from inside. A factory takes nothing and gives (model, batch) or (model, batch, options);
    the current folder can be imported from. Nothing is fetched from a network without --download. Hugging Face models
    need pip install "regard\[hf]".

    The exit status is 0 where there is neither error nor warning, 1 where there is, 2 where nothing could be run.

    Examples:

      regard check ./my-model --text lines.txt

      regard check sentence-transformers/all-MiniLM-L6-v2 --download --html report.html

      regard check my_package.models:tiny_decoder --causal --allow POS001

      regard check my_package.models:tiny_decoder --sarif attention.sarif --json > report.json

      regard check --explain CAU001
    """
    if explain is not None:
        _explain(explain)
        return
    from dataclasses import replace

    from regard.doctor.catalogue import entry
    from regard.doctor.formats.files import check_place
    from regard.errors import RegardError

    if model is None:
        raise RegardError(
            "MODEL: found none, wanted a Hugging Face folder or name, or package.module:factory "
            "(regard check --help has examples)"
        )
    for code in allow or ():
        entry(code)
    for option, path in (("--html", html), ("--sarif", sarif)):
        if path is not None:
            check_place(path, option)

    from regard.bridge.load import load
    from regard.doctor.check import check as examine

    loaded = load(model, text, rows=batch, length=max_length, download=download)
    asked = {"prefix": prefix or None, "tokens": tokens, "target": target, "mask": mask, "pad_id": pad_id}
    asked["sets"] = sets or None
    options: dict[str, Any] = {**loaded.options, **{name: value for name, value in asked.items() if value is not None}}
    if no_cache:
        options["cache"] = None
    with progress() as step:
        report = examine(
            loaded.model,
            loaded.batch,
            causal=loaded.causal if causal is None else causal,
            progress=step,
            **options,
        )
    report = replace(report.accepting(allow or ()), model=f"{report.model} from {loaded.name}")
    _print(report, json)
    _write(report, html, sarif)
    raise typer.Exit(report.exit_status)


def _print(report: Report, json: bool) -> None:
    if json:
        import json as encoder

        typer.echo(encoder.dumps(report.to_dict(), indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(report)
    if report.findings:
        console.print(f"What a code means: regard check --explain {report.findings[0].code}", style="dim")


def _write(report: Report, html: Path | None, sarif: Path | None) -> None:
    from regard.doctor.formats.files import write

    for path, kind, option in ((html, ".html", "--html"), (sarif, ".sarif", "--sarif")):
        if path is not None:
            write([report], path, kind, option)


def _explain(code: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    from regard.doctor.pages import page

    text, console = page(code.upper()), Console(highlight=False)
    console.print(Markdown(text) if console.is_terminal else text, markup=False, soft_wrap=not console.is_terminal)
