"""`regard translate`: sentences in, translations out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["translate"]


def translate(
    model: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A model that `regard train` made; the shipped one if not given.")
    ] = None,
    to: Annotated[str, typer.Option(help="Language of the shipped model: fr or zh.")] = "fr",
    beam: Annotated[int, typer.Option(help="Translations kept at every step; 1 is greedy.")] = 5,
    normalise: Annotated[
        float, typer.Option(help="Divide log p by length^NORMALISE: 0 likes short translations.")
    ] = 1.0,
    threads: Annotated[int | None, typer.Option(help="Processor threads; all when left out.")] = None,
) -> None:
    """Translate standard input to standard output, one sentence a line.

    One line out for every line in, in the same order; an empty line gives an empty line. At a terminal each line is
    translated as it comes; a file is read a batch at a time.

    Examples:

      echo "The cat sat on the mat." | regard translate

      regard translate --to zh < english.txt > chinese.txt

      regard translate --model runs/en-fr --beam 1 < in.txt > out.txt
    """
    import sys

    import torch

    from regard.errors import RegardError
    from regard.translate import shipped
    from regard.translate.translator import Translator

    if threads is not None:
        if threads < 1:
            raise RegardError(f"threads: found {threads}, wanted a whole number of at least 1")
        torch.set_num_threads(threads)
    if beam < 1:
        raise RegardError(f"beam: found {beam}, wanted a whole number of at least 1")
    translator = shipped.load(to) if model is None else Translator.load(model)
    batch = 1 if sys.stdin.isatty() else 256
    for text in translator.texts(_lines(), beam=beam, normalise=normalise, batch=batch):
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


def _lines() -> Iterator[str]:
    """The lines of standard input, composed (NFC) as the training text was."""
    import sys
    import unicodedata

    from regard.errors import RegardError

    offset = 0
    for raw in sys.stdin.buffer:
        try:
            yield unicodedata.normalize("NFC", raw.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise RegardError(
                f"standard input is not UTF-8 at byte {offset + error.start} (0x{raw[error.start]:02x}); "
                "convert it first, for example with iconv -t UTF-8"
            ) from error
        offset += len(raw)
