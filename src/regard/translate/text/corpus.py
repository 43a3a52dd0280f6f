"""Parallel text: two UTF-8 files, line n of one is the translation of line n of the other."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from regard.errors import RegardError

__all__ = ["Corpus", "read_lines", "read_parallel"]


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs ``(source[n], target[n])``, in Unicode's composed form (NFC).

    ``empty`` counts the pairs left out because one side was blank; ``digest`` is the SHA-256 of the two files,
    by which a resumed run knows that its text has not changed.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    empty: int
    digest: str

    def __len__(self) -> int:
        return len(self.source)


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file without their ends, NFC, blanks at either end removed.

    Only ``\\n`` (or ``\\r\\n``) ends a line: U+2028 and its like inside a sentence do not shift the two sides.

    Raises:
        RegardError: no such file, or bytes that are not UTF-8 (names the first one's offset).
    """
    return _lines(path, _bytes(path))


def read_parallel(source: Path, target: Path) -> Corpus:
    """Reads two files as pairs; pairs with a blank side are dropped and counted.

    Raises:
        RegardError: a file cannot be read, is not UTF-8, the sides differ in length, or no pair is left.
    """
    source_bytes, target_bytes = _bytes(source), _bytes(target)
    left, right = _lines(source, source_bytes), _lines(target, target_bytes)
    if len(left) != len(right):
        shorter, longer = (source, target) if len(left) < len(right) else (target, source)
        end, other = min(len(left), len(right)), max(len(left), len(right))
        raise RegardError(
            f"corpus: {shorter} ends after line {end} but {longer} has {other} lines; "
            "line n of one side must translate line n of the other: find where they part, or cut the longer one"
        )
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a and b]
    if not pairs:
        raise RegardError(f"corpus: {source} and {target} hold no sentence pair; give files with one sentence a line")
    digest = hashlib.sha256(hashlib.sha256(source_bytes).digest() + hashlib.sha256(target_bytes).digest())
    return Corpus(
        source=tuple(a for a, _ in pairs),
        target=tuple(b for _, b in pairs),
        empty=len(left) - len(pairs),
        digest=digest.hexdigest(),
    )


def _bytes(path: Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise RegardError(f"corpus: cannot read {path}: {error.strerror}; give a UTF-8 text file") from error


def _lines(path: Path, raw: bytes) -> list[str]:
    try:
        text = raw.decode("utf-8-sig" if raw.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RegardError(
            f"corpus: {path} is not UTF-8 at byte {error.start} (0x{raw[error.start]:02x}, line {line}); "
            "convert it first, for example with iconv -t UTF-8"
        ) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [unicodedata.normalize("NFC", line.strip()) for line in lines]
