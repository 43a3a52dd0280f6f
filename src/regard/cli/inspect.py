"""`regard inspect`: the first look at attention, on a real sentence with a real model; or the heads of any model."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from regard.translate.look import Look

__all__ = ["inspect"]

FIRST = "The cat sat on the mat."
SEEN = (
    f"“{FIRST}” stands four times in the text that the model learnt from; try a sentence of your own: "
    'regard inspect "I forgot to close the window."'
)

#: Options of one of the two ways alone, and whether that is the way of --text.
_ONLY = {
    "to": False,
    "model": False,
    "beam": False,
    "png": False,
    "max_length": True,
    "cells": True,
    "serve": True,
    "port": True,
    "download": True,
}


def inspect(
    context: typer.Context,
    sentence: Annotated[
        str | None,
        typer.Argument(
            metavar="[SENTENCE or MODEL]",
            help="What to translate; - reads standard input, one sentence a line. With --text a model: a Hugging Face "
            "folder or name, or package.module:factory.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[str, typer.Option(help="The shipped model's language: fr or zh.")] = "fr",
    model: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A model that `regard train` made, not the shipped one.")
    ] = None,
    beam: Annotated[int, typer.Option(help="Translations kept in mind while searching; 1 is greedy.")] = 5,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture (.png, .svg or .pdf).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print numbers: a JSON object for each sentence.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one page that needs no network.")] = None,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Look at a model's heads while it reads this UTF-8 text.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of the text at most; else what the model has room for.")
    ] = None,
    cells: Annotated[
        int | None, typer.Option(min=1, max=2048, help="Cells a side of the page's maps; else 64 to 512, by the heads.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the page on 127.0.0.1, with maps down to single tokens.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of --serve; 0 takes any.")] = 0,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch a Hugging Face model that is not on this disk.")
    ] = False,
) -> None:
    r"""Translate a sentence and look at where the model looked for each word of it; or look at the heads of any model.

    Of a sentence: target words go down, source words across; the darker a cell, the more weight; the strongest of a
    row is in brackets, in per cent. H/log n is the entropy of a row as a share of its largest: 1 looks everywhere
    alike, 0 at one word.

    With --text FILE the argument is a model that `regard check` takes. It reads the text as one row, and every head is
    measured in memory that grows with the text and not with its square: a table, worst first, a bar a head, and what is
    wrong by what was seen. A package.module:factory that gives a batch of its own needs no text. --html FILE adds a map
    of every head that zooms, --serve one that comes as close as single tokens. Hugging Face models need pip install
    "regard\[hf]".

    Examples:

      regard inspect

      regard inspect "I lost my keys." --to zh

      regard inspect "I lost my keys." --png look.png --html look.html

      cat sentences.txt | regard inspect --json

      regard inspect ./my-model --text chapter.txt --html heads.html

      regard inspect my_package.models:tiny_decoder --text chapter.txt --max-length 32768 --serve
    """
    sources = {name: context.get_parameter_source(name) for name in _ONLY}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    of_model = text is not None or _is_factory(sentence)
    _check_way(given, sentence, text, of_model)
    _check_endings(png, html)
    if of_model:
        from regard.cli.heads import heads

        assert sentence is not None
        heads(
            sentence,
            text,
            max_length=max_length,
            cells=cells,
            json=json,
            html=html,
            serve=serve,
            port=port,
            download=download,
        )
        return
    from regard.translate.look import look
    from regard.translate.shipped import load
    from regard.translate.translator import Translator

    translator = load(to) if model is None else Translator.load(model)
    if sentence is None and _waiting(sys.stdin):
        sentence = "-"
    looks: list[Look] = []
    keep = png is not None or html is not None
    for each in _sentences(sentence):
        found = look(translator, each, beam=beam)
        if keep:
            looks.append(found)
        _print(found, json)
    if sentence is None and model is None and not json:
        typer.echo(SEEN)
    _write(looks, png, html)


def _is_factory(argument: str | None) -> bool:
    """package.module:factory is no sentence."""
    return argument is not None and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", argument) is not None


def _check_way(given: list[str], sentence: str | None, text: Path | None, of_model: bool) -> None:
    """Raises where an option belongs to the other way than the one that was taken."""
    from regard.errors import RegardError

    for name in given:
        option = f"--{name.replace('_', '-')}"
        if _ONLY[name] and not of_model:
            raise RegardError(f"{option}: is for the heads of a model, wanted --text FILE beside it")
        if not _ONLY[name] and of_model:
            what = "--text" if text is not None else sentence
            raise RegardError(f"{option}: is for translating a sentence, and {what} looks at a model; leave one out")
    if text is not None and sentence is None:
        raise RegardError("--text: found no model, wanted regard inspect MODEL --text FILE")
    if not of_model and sentence is not None and (Path(sentence) / "config.json").is_file():
        raise RegardError(f"{sentence}: found a model; to look at its heads give it a text to read: --text FILE")


def _sentences(sentence: str | None) -> Iterator[str]:
    from regard.errors import RegardError

    if sentence != "-":
        yield FIRST if sentence is None else sentence
        return
    for number, line in enumerate(_decoded(sys.stdin.buffer), start=1):
        if not line.strip():
            raise RegardError(f"sentence: line {number} of standard input is empty, wanted one sentence a line")
        yield line.strip()


def _waiting(stream: IO[str] | None) -> bool:
    """Whether a pipe or file already holds text. A pipe that nobody writes to must not hang: - waits, this does not."""
    from select import select

    try:
        if stream is None or stream.isatty() or not select([stream], [], [], 0)[0]:
            return False
        return bool(cast(BufferedReader, stream.buffer).peek(1))  # type: ignore[attr-defined]  # a text stream has one
    except (OSError, ValueError):  # no file behind it, or a system where only sockets can be asked
        return False


def _decoded(stream: Iterable[bytes]) -> Iterator[str]:
    from regard.errors import RegardError

    offset = 0
    for line in stream:
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RegardError(
                f"standard input is not UTF-8 at byte {offset + error.start} (0x{line[error.start]:02x}); convert it "
                "first, "
                "for example with iconv -t UTF-8"
            ) from error
        offset += len(line)


def _print(found: Look, json: bool) -> None:
    if json:
        import json as encoder

        typer.echo(encoder.dumps(found.to_dict(), ensure_ascii=False))
        return
    from rich.console import Console

    Console(highlight=False).print(found)


def _check_endings(png: Path | None, html: Path | None) -> None:
    from regard.errors import RegardError

    if png is not None and png.suffix not in (".png", ".svg", ".pdf"):
        raise RegardError(f"--png: found {png.name}, wanted a name that ends in .png, .svg or .pdf")
    for option, path in (("--png", png), ("--html", html)):
        if path is not None and not path.absolute().parent.is_dir():
            raise RegardError(f"{option}: found no folder {path.parent} to write {path.name} in; make it first")


def _write(looks: list[Look], png: Path | None, html: Path | None) -> None:
    from regard.files import replace

    if png is not None:
        from regard.translate.look.figure import drawing

        picture, missing = drawing(looks, png.suffix[1:])
        replace(png, picture, "--png")
        if missing:
            typer.echo(f"{png}: no installed font has {''.join(missing)}; install Noto Sans CJK to see them", err=True)
    if html is not None:
        from regard.translate.look.page import document

        replace(html, document(looks).encode(), "--html")
