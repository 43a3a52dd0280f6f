"""`regard translate`: sentences in, translations out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.translate.decoding.beam import Beam
    from regard.translate.decoding.sampling import Sampling

__all__ = ["translate"]

SEARCH, SAMPLING, OUTPUT = "Searching", "Sampling", "What is said and printed"


def translate(
    model: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A model that `regard train` made; the shipped one if not given.")
    ] = None,
    to: Annotated[str, typer.Option(help="Language of the shipped model: fr or zh.")] = "fr",
    threads: Annotated[int | None, typer.Option(help="Batches at once; as many as processors when left out.")] = None,
    beam: Annotated[
        int | None,
        typer.Option(help="Beginnings kept at every step; left out: 5.", rich_help_panel=SEARCH),
    ] = None,
    normalise: Annotated[
        float,
        typer.Option(metavar="ALPHA", help="Divide log p by length^ALPHA: 0 likes short ones.", rich_help_panel=SEARCH),
    ] = 1.0,
    length: Annotated[
        str,
        typer.Option(help="power: n^ALPHA; wu: ((5 + n) / 6)^ALPHA (Wu et al. 2016).", rich_help_panel=SEARCH),
    ] = "power",
    coverage: Annotated[
        float,
        typer.Option(metavar="BETA", help="What a source piece that nothing looked at costs.", rich_help_panel=SEARCH),
    ] = 0.0,
    longest: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Pieces of a translation; left out: twice its source and ten.", rich_help_panel=SEARCH
        ),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw by chance instead of searching.", rich_help_panel=SAMPLING)
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Draw from p^(1/T).", rich_help_panel=SAMPLING)
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(metavar="K", help="Draw among the K likeliest pieces.", rich_help_panel=SAMPLING)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(metavar="P", help="Draw among the likeliest that hold P together.", rich_help_panel=SAMPLING),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="With a line's number, it settles what is drawn.", rich_help_panel=SAMPLING),
    ] = None,
    n_best: Annotated[
        int | None,
        typer.Option(metavar="N", help="Print N a line: number ||| text ||| score.", rich_help_panel=OUTPUT),
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Print links i-j behind the text, after a tab.", rich_help_panel=OUTPUT)
    ] = False,
    unknown: Annotated[
        str,
        typer.Option(help="avoid: no unknown word is said; copy: the source's is.", rich_help_panel=OUTPUT),
    ] = "avoid",
    prefix: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What each translation begins with, a line each.", rich_help_panel=OUTPUT),
    ] = None,
    markup: Annotated[
        bool, typer.Option("--markup", help="Carry tags, such as <b> and <a href>, over.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Translate standard input to standard output, one sentence a line.

    One line out for every line in, in the same order; an empty line gives an empty line. What arrives together is
    translated together, and nothing waits for more. A line's translation doesn't depend on the lines beside it.

    Examples:

      echo "The cat sat on the mat." | regard translate

      regard translate --to zh < english.txt > chinese.txt

      regard translate --n-best 3 --align < in.txt

      regard translate --sample --top-p 0.9 --seed 7 < in.txt

      echo "A <b>black</b> cat" | regard translate --markup
    """
    import sys
    from itertools import count

    import torch

    from regard.errors import RegardError
    from regard.translate import shipped
    from regard.translate.translator import Translator

    if threads is not None:
        if threads < 1:
            raise RegardError(f"threads: found {threads}, wanted a whole number of at least 1")
        torch.set_num_threads(threads)
    if unknown not in ("avoid", "copy"):
        raise RegardError(f"unknown: found {unknown!r}, wanted avoid or copy")
    common = {"normalise": normalise, "length": length, "coverage": coverage}
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    how = _how(n_best, beam, longest, unknown == "copy", common, drawing if sample else None)
    for name, value in drawing.items():
        if value is not None and not sample:
            raise RegardError(f"{name}: found {value} without --sample; add it, or leave this out")
    begin = None if prefix is None else _prefixes(prefix)
    translator = shipped.load(to) if model is None else Translator.load(model)
    numbered = count()
    for lines in _arrivals(sys.stdin.buffer):
        numbers = [next(numbered) for _ in lines]
        for text in _translated(translator, lines, numbers, how, begin, n_best, align, unknown == "copy", markup):
            sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()
    if begin is not None and next(begin, None) is not None:
        raise RegardError(f"prefix: {prefix} has more lines than standard input; give one for each line")


def _how(
    n_best: int | None,
    beam: int | None,
    longest: int | None,
    unknown: bool,
    penalty: dict[str, Any],
    drawing: dict[str, Any] | None,
) -> Beam | Sampling:
    """The way to translate that the options ask for."""
    from regard.errors import RegardError
    from regard.translate.decoding.beam import Beam
    from regard.translate.decoding.penalty import Penalty
    from regard.translate.decoding.sampling import Sampling

    if n_best is not None and n_best < 1:
        raise RegardError(f"n-best: found {n_best}, wanted a whole number of at least 1")
    common: dict[str, Any] = {"penalty": Penalty(**penalty), "unknown": unknown, "longest": longest}
    if drawing is None:
        width = max(5, n_best or 1) if beam is None else beam
        if 0 < width < (n_best or 1):
            raise RegardError(f"n-best: found {n_best}, the beam keeps {width}; give --beam {n_best} or more")
        return Beam(width, n_best or 1, **common)
    if beam is not None:
        raise RegardError(f"beam: found {beam} beside --sample; a translation is either searched for or drawn")
    return Sampling(n_best or 1, **{name: x for name, x in drawing.items() if x is not None}, **common)


def _translated(
    translator: Any,
    lines: list[str],
    numbers: list[int],
    how: Beam | Sampling,
    begin: Iterator[str] | None,
    n_best: int | None,
    align: bool,
    copying: bool,
    markup: bool,
) -> Iterator[str]:
    """What is printed of the lines with these numbers."""
    import sys

    from regard.errors import RegardError
    from regard.translate.decoding.markup import parse
    from regard.translate.decoding.words import links, with_tags

    prefixes = None
    if begin is not None:
        prefixes = [each for _, each in zip(lines, begin, strict=False)]
        if len(prefixes) < len(lines):
            raise RegardError(f"prefix: ends before line {numbers[len(prefixes)] + 1} of standard input; give one each")
    marked = [parse(line) for line in lines] if markup else None
    for number, each in zip(numbers, marked or [], strict=False):
        if each.loose:
            print(f"regard: line {number + 1}: {each.loose[0]} has no partner and stands alone", file=sys.stderr)
    plain = [each.plain for each in marked] if marked is not None else [_composed(line) for line in lines]
    every = translator.several(plain, how, prefixes=prefixes, numbers=numbers, looking=align or markup, copying=copying)
    for n, found in enumerate(every):
        for one in found:
            text = one.text if marked is None else with_tags(one, marked[n])
            linked = " ".join(f"{i}-{j}" for i, j in links(one)) if align else ""
            if n_best is None:
                yield f"{text}\t{linked}" if align else text
            else:
                fields = [str(numbers[n]), text, f"{one.score:.6f}", *([linked] if align else [])]
                yield " ||| ".join(fields)


def _composed(line: str) -> str:
    """As the training text was: Unicode's composed form."""
    import unicodedata

    return unicodedata.normalize("NFC", line)


def _prefixes(path: Path) -> Iterator[str]:
    """The lines of a file, one at a time."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            yield _composed(_text(raw, f"prefix: {path} is not UTF-8 at byte {{}} of line {number}", 0)).strip()


def _arrivals(stream: Any) -> Iterator[list[str]]:
    """Lines as they arrive: all that are there, up to what one read gives, and never more than that in memory."""
    from regard.errors import RegardError
    from regard.translate.translator import TOGETHER

    rest, offset = b"", 0
    while raw := stream.read1(1 << 16):
        *lines, rest = (rest + raw).split(b"\n")
        found = []
        for line in lines:
            found.append(_text(line, "standard input is not UTF-8 at byte {}", offset))
            offset += len(line) + 1
        if len(rest) > 1 << 20:
            raise RegardError("standard input: a line has more than 1,048,576 bytes; give one sentence a line")
        for start in range(0, len(found), TOGETHER):
            yield found[start : start + TOGETHER]
    if rest:
        yield [_text(rest, "standard input is not UTF-8 at byte {}", offset)]


def _text(raw: bytes, where: str, offset: int) -> str:
    from regard.errors import RegardError

    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        place = f"{where.format(offset + error.start)} (0x{raw[error.start]:02x})"
        raise RegardError(f"{place}; convert it first, for example with iconv -t UTF-8") from error
