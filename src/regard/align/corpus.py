"""A parallel corpus as numbers: four bytes a word, read in one pass, wherever it lies."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from regard.errors import RegardError

__all__ = ["LONGEST", "Corpus", "Side", "gathered", "lines", "parted", "read", "sides"]

#: Words a sentence may have; a pair with a longer one is refused. The work on a pair grows with the product of both.
LONGEST = 1024

_SEPARATOR = re.compile(rb"(?<= )\|\|\|(?= )")  # what is around it belongs to no other

Array = np.ndarray[Any, Any]
Pair = tuple[list[bytes], list[bytes]]


@dataclass(frozen=True)
class Side:
    """One language: word numbers of all sentences in a row, where each begins, and the words by their number."""

    tokens: Array  # int32
    offsets: Array  # int64, one more than there are sentences
    words: list[bytes]

    def sentence(self, s: int) -> list[bytes]:
        """The words of sentence ``s``."""
        return [self.words[each] for each in self.tokens[self.offsets[s] : self.offsets[s + 1]]]

    def lengths(self) -> Array:
        """Words of each sentence."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Corpus:
    """Pairs of sentences. A pair with an empty side, or one in ``refused`` (longer than the limit), has no words on
    either side: it keeps its place, so that what comes out stays parallel to what went in."""

    source: Side
    target: Side
    refused: Array  # int64: the pairs that were too long, from 0

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def digest(self) -> str:
        """The same for the same text, whatever files it came from."""
        found = hashlib.blake2b(digest_size=16)
        for side in (self.source, self.target):
            for part in (side.tokens, side.offsets, b"\n".join(side.words)):
                found.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
        return found.hexdigest()


def read(
    source: Path,
    target: Path | None = None,
    *,
    longest: int = LONGEST,
    split: Callable[[bytes], list[bytes]] = bytes.split,
    split_target: Callable[[bytes], list[bytes]] | None = None,
    spool: Path | None = None,
) -> Corpus:
    """The corpus of two files with a sentence on each line, or of one with `` ||| `` between both; plain or gzip.

    Words are what white space separates (``split``, and ``split_target`` if the sides differ, may cut otherwise). They
    are bytes: any encoding and any character is good, NUL among them. With ``spool``, a folder, the numbers lie in
    files there and not in memory.

    Raises:
        RegardError: one side ends before the other, a line lacks its separator, a gzip is cut.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     text = Path(folder, "text")
    ...     _ = text.write_text("das Haus ||| the house\\n ||| \\nein Haus ||| a house\\n")
    ...     corpus = read(text)
    >>> len(corpus), corpus.source.tokens.tolist(), corpus.source.offsets.tolist(), corpus.target.sentence(2)
    (3, [0, 1, 2, 1], [0, 2, 2, 4], [b'a', b'house'])
    """
    other = split_target or split
    return gathered(((split(s), other(t)) for s, t in sides(source, target)), longest=longest, spool=spool)


def gathered(pairs: Iterable[Pair], *, longest: int = LONGEST, spool: Path | None = None) -> Corpus:
    """The corpus of ``pairs`` of sentences that are cut into words."""
    source, target = _Filling(spool, "source"), _Filling(spool, "target")
    refused = array("q")
    for number, (s, t) in enumerate(pairs):
        if len(s) > longest or len(t) > longest:
            refused.append(number)
            s, t = [], []
        elif not s or not t:
            s, t = [], []
        source.add(s)
        target.add(t)
    return Corpus(source.side(), target.side(), np.array(refused, np.int64))


def sides(source: Path, target: Path | None = None) -> Iterator[tuple[bytes, bytes]]:
    """The raw lines of both sides, pair by pair."""
    if target is not None:
        return _two(source, target)
    return (parted(line, number, source) for number, line in enumerate(lines(source), 1))


def parted(line: bytes, number: int, source: Path) -> tuple[bytes, bytes]:
    """Both sides of a line that has `` ||| `` between them; a line with nothing on it is nothing on both sides."""
    found = _SEPARATOR.split(b" " + line.rstrip(b"\r\n") + b" ")
    if len(found) == 1 and not line.strip():
        return b"", b""
    if len(found) != 2:
        where, how = f" of {source}", "give the target as a second file, or put one between both sides"
        if str(source) == "-":
            where, how = " of standard input", "put one between both sides"
        raise RegardError(f"source: line {number:,}{where} has {len(found) - 1} separators ' ||| ', wanted one; {how}")
    return found[0][1:-1], found[1][1:-1]


class _Filling:
    """A side while it is read."""

    def __init__(self, spool: Path | None, name: str) -> None:
        self.index: defaultdict[bytes, int] = defaultdict()
        self.index.default_factory = self.index.__len__
        self.number = self.index.__getitem__
        self.tokens = array("i")
        self.offsets = array("q", [0])
        self.kept = 0  # words already in the file
        self.path = None if spool is None else spool / f"{name}.tokens"
        self.file: IO[bytes] | None = None if self.path is None else open(self.path, "wb")  # noqa: SIM115 - until `side`

    def add(self, words: list[bytes]) -> None:
        self.tokens.extend(map(self.number, words))
        self.offsets.append(self.kept + len(self.tokens))
        if self.file is not None and len(self.tokens) > 1 << 20:
            self._flush(self.file)

    def _flush(self, file: IO[bytes]) -> None:
        self.tokens.tofile(file)
        self.kept += len(self.tokens)
        self.tokens = array("i")

    def side(self) -> Side:
        tokens: Array = np.frombuffer(self.tokens, np.int32) if self.tokens else np.empty(0, np.int32)
        if self.file is not None and self.path is not None:
            self._flush(self.file)
            self.file.close()
            if self.kept:
                tokens = np.memmap(self.path, np.int32, "r")
        return Side(tokens, np.frombuffer(self.offsets, np.int64), list(self.index))


def _two(source: Path, target: Path) -> Iterator[tuple[bytes, bytes]]:
    for number, (s, t) in enumerate(itertools.zip_longest(lines(source), lines(target)), 1):
        if s is None or t is None:
            short, long = (source, target) if s is None else (target, source)
            raise RegardError(
                f"target: {short} ends after line {number - 1:,} and {long} goes on with line {number:,}; "
                "both must have a line for each pair of sentences"
            )
        yield s, t


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, plain or gzip (known by its first bytes, not by its name)."""
    with open(path, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        file: Iterable[bytes] = gzip.GzipFile(fileobj=plain) if packed else plain
        number = 0
        try:
            for line in file:
                number += 1
                yield line
        except (EOFError, zlib.error, OSError) as error:
            if not packed:
                raise
            raise RegardError(
                f"{path}: the gzip file is cut or damaged after line {number:,} ({error}); fetch or pack it again"
            ) from error
