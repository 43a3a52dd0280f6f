"""Parallel text: two UTF-8 files, line n of one is the translation of line n of the other."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from regard.errors import RegardError

__all__ = ["Corpus", "read_parallel"]


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs ``(source[n], target[n])``, in Unicode's composed form (NFC), from line ``lines[n]`` of the files.

    ``blank`` counts the pairs left out because one side shows nothing, ``cut`` those whose line is the last of a file
    and breaks off within a character, ``cleaned`` the pairs kept without the control characters that they had.
    ``digest`` is the SHA-256 of the two files, by which a resumed run knows that its text has not changed.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    lines: tuple[int, ...]
    blank: int
    cut: int
    cleaned: int
    digest: str

    def __len__(self) -> int:
        return len(self.source)

    @property
    def left_out(self) -> dict[str, int]:
        """How many pairs were left out, by reason."""
        return {"with a blank side": self.blank, "broken off within a character": self.cut}


def read_parallel(source: Path, target: Path) -> Corpus:
    """Reads two files as pairs.

    Only ``\\n`` (or ``\\r\\n``) ends a line: U+2028 and its like inside a sentence do not shift the two sides. Blanks
    at either end go, tabs and other control characters that are white space become spaces, the rest of the control
    characters is taken out; whatever can be seen stands as it is, in any script. Pairs with a blank side, and a last
    line that breaks off within a character, are left out and counted.

    Raises:
        RegardError: a file cannot be read, is not UTF-8, the sides differ in length, or no pair is left.
    """
    source_bytes, target_bytes = _bytes(source), _bytes(target)
    left, right = _lines(source, source_bytes), _lines(target, target_bytes)
    if len(left) != len(right):
        shorter, longer = (source, target) if len(left) < len(right) else (target, source)
        end, count = min(len(left), len(right)), max(len(left), len(right))
        raise RegardError(
            f"corpus: {shorter} ends after line {end} but {longer} has {count} lines; "
            "line n of one side must translate line n of the other: find where they part, or cut the longer one"
        )
    pairs: list[tuple[str, str, int]] = []
    blank = cut = cleaned = 0
    for number, (a, b) in enumerate(zip(left, right, strict=True), 1):
        if a is None or b is None:
            cut += 1
            continue
        one, other = _clean(a), _clean(b)
        if _shows(one) and _shows(other):
            pairs.append((_composed(one), _composed(other), number))
            cleaned += (len(one), len(other)) != (len(a), len(b))
        else:
            blank += 1
    if not pairs:
        raise RegardError(f"corpus: {source} and {target} hold no sentence pair; give files with one sentence a line")
    digest = hashlib.sha256(hashlib.sha256(source_bytes).digest() + hashlib.sha256(target_bytes).digest())
    sources, targets, lines = zip(*pairs, strict=True)
    return Corpus(sources, targets, lines, blank, cut, cleaned, digest.hexdigest())


def _bytes(path: Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise RegardError(f"corpus: cannot read {path}: {error.strerror}; give a UTF-8 text file") from error


def _lines(path: Path, raw: bytes) -> list[str | None]:
    """The lines of a file; None for a last one that breaks off within a character."""
    begin = 3 if raw.startswith(b"\xef\xbb\xbf") else 0
    try:
        text, broken = raw[begin:].decode(), False
    except UnicodeDecodeError as error:
        at = begin + error.start
        if error.reason != "unexpected end of data":
            line = raw.count(b"\n", 0, at) + 1
            raise RegardError(
                f"corpus: {path} is not UTF-8 at byte {at} (0x{raw[at]:02x}, line {line}); "
                "convert it first, for example with iconv -t UTF-8"
            ) from error
        text, broken = raw[begin:at].decode(), True
    lines: list[str | None] = list(text.split("\n"))
    if broken:
        lines[-1] = None
    elif lines[-1] == "":
        lines.pop()
    return lines


def _clean(line: str) -> str:
    """The line without control characters; those that are white space are spaces now."""
    if line.isprintable():
        return line
    kept = []
    for c in line:
        if unicodedata.category(c) not in ("Cc", "Zl", "Zp"):
            kept.append(c)
        elif c.isspace():
            kept.append(" ")
    return "".join(kept)


def _shows(line: str) -> bool:
    """Whether anything of it can be seen: marks that only join or direct cannot."""
    return any(not c.isspace() and unicodedata.category(c) != "Cf" for c in line)


def _composed(line: str) -> str:
    return unicodedata.normalize("NFC", line.strip())
