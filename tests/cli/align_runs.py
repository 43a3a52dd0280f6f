"""What `regard align` is run on in tests, and how it is run."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from regard.cli import main

SOURCE = ["das Haus", "das Buch", "", "ein Buch", "ein kleines Haus", "das kleine Buch ist klein"]
TARGET = ["the house", "the book", "", "a book", "a small house", "the small book is small"]


def align(*args: object) -> Result:
    """Runs the command in this process: kernels are loaded once for all tests."""
    return CliRunner().invoke(main.app, ["align", "--threads", "1", *map(str, args)])


def refused(*args: object) -> str:
    """What it says when it refuses: one line, code 2, nothing on standard output."""
    found = align("--quiet", *args)
    assert (found.exit_code, found.stdout) == (2, ""), found.output
    assert found.stderr.startswith("regard: error: ")
    assert found.stderr.count("\n") == 1
    return found.stderr.removeprefix("regard: error: ").rstrip("\n")


def put(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def rows(found: Result) -> list[list[tuple[int, ...]]]:
    assert found.exit_code == 0, found.output
    lines = found.stdout.split("\n")
    assert lines.pop() == ""
    return [[tuple(map(int, link.split("-"))) for link in line.split()] for line in lines]


def six(folder: Path) -> tuple[Path, Path]:
    """Six pairs of sentences, the third of them empty."""
    return put(folder / "text.de", SOURCE), put(folder / "text.en", TARGET)
