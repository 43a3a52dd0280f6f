"""Links as text, the way Pharaoh wrote them: a line for each pair of sentences, ``0-0 1-2`` in it, nothing for no link.

``i-j`` joins source word i and target word j, both counted from 0. With probabilities a link is ``i-j:p``, p in decimal
digits: four of them after the point at most, no zeros at the end (``0-0:1 1-2:0.93``). Gold files write ``i?j`` for a
link that is possible and not sure.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.align.links import Links
from regard.errors import RegardError
from regard.kernels.compile import inline, kernel

__all__ = ["LARGEST", "lines", "parse", "read"]

Array = np.ndarray[Any, Any]

#: The largest word number that is read; a larger one is a slip, and tables of that size would follow from it.
LARGEST = (1 << 20) - 1

_BLOCK = 1 << 14  # sentences that are written at a time
_DIGITS = 4  # of a probability


def lines(links: Links, *, probabilities: bool = False) -> Iterator[bytes]:
    """The text of ``links``, some thousand whole lines at a time.

    Raises:
        RegardError: ``probabilities`` of links that have none.

    >>> links = Links.of([[(0, 0, 1.0), (1, 2, 0.9251)], [], [(2, 1, 0.5)]])
    >>> b"".join(lines(links))
    b'0-0 1-2\\n\\n2-1\\n'
    >>> b"".join(lines(links, probabilities=True))
    b'0-0:1 1-2:0.9251\\n\\n2-1:0.5\\n'
    """
    if probabilities and links.probability is None:
        raise RegardError("probabilities: these links have none; write them without, or align with posteriors")
    for first in range(0, len(links), _BLOCK):
        part = links[first : first + _BLOCK]
        widest = [len(str(int(side.max(initial=0)))) for side in (part.source, part.target)]
        p = part.probability if probabilities else None
        room = len(part.source) * (sum(widest) + 2 + (_DIGITS + 3 if p is not None else 0)) + len(part)
        text = np.empty(room, np.uint8)
        none = np.zeros(0, np.float32)
        used = _print(part.offsets, part.source, part.target, none if p is None else p, p is not None, text)
        yield text[:used].tobytes()


def read(path: Path, argument: str = "links") -> Links:
    """The links of a file, plain or gzip. ``argument`` is the name of what asked for it, for the error.

    Raises:
        RegardError: no such file, or a line that is no list of links: names the file, the line and what was found.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "links").write_text("1-2 0-0\\n\\n")
    ...     read(Path(folder, "links"))
    Links.of([[(0, 0), (1, 2)], []])
    """
    found = parse(text_of(path, argument), str(path), argument)
    if found.possible.any():
        at = int(np.flatnonzero(found.possible)[0])
        raise RegardError(
            f"{argument}: line {int(found.links.sentence[at]) + 1:,} of {path} has a possible link (i?j), wanted i-j; "
            "a gold file is read with --gold"
        )
    return found.links


def text_of(path: Path, argument: str) -> bytes:
    """The bytes of a file, plain or gzip."""
    try:
        raw = Path(path).read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RegardError(f"{argument}: the gzip file {path} is cut or damaged ({error}); pack it again") from error
    except OSError as error:
        raise RegardError(f"{argument}: cannot read {path}: {error.strerror}; name a file of links") from error


@dataclass(frozen=True)
class Parsed:
    """Links as they stood in a text, and which of them were written ``i?j``."""

    links: Links
    possible: Array  # bool [K]


def parse(text: bytes, name: str, argument: str = "links") -> Parsed:
    """The links in ``text``, a line for each pair of sentences; ``\\n`` or ``\\r\\n`` ends it.

    >>> found = parse(b"0-0 1?2\\r\\n\\r\\n", "some.gold")
    >>> found.links, found.possible.tolist()
    (Links.of([[(0, 0), (1, 2)], []]), [False, True])
    >>> parse(b"0-0\\n1_1\\n", "some.links")
    Traceback (most recent call last):
        ...
    regard.errors.RegardError: links: line 2 of some.links has '1_1', wanted links like 0-0 1-2, word numbers from 0
    """
    raw = np.frombuffer(text, np.uint8)
    count = text.count(b"\n") + (not text.endswith(b"\n") and len(text) > 0)
    room = text.count(b"-") + text.count(b"?")
    offsets = np.zeros(count + 1, np.int64)
    source, target = np.empty(room, np.int32), np.empty(room, np.int32)
    p, mark = np.empty(room, np.float32), np.empty(room, np.uint8)
    bad, line = _scan(raw, LARGEST, offsets, source, target, p, mark)
    if bad >= 0:
        raise RegardError(f"{argument}: line {line + 1:,} of {name} {_complaint(text, bad)}")
    found = int(offsets[-1])
    source, target, p, mark = source[:found], target[:found], p[:found], mark[:found]
    unsaid = p < 0
    likely = None if unsaid.all() else p
    if likely is not None and unsaid.any():
        at = int(np.flatnonzero(unsaid)[0])
        line = int(np.searchsorted(offsets, at, side="right"))
        raise RegardError(
            f"{argument}: line {line:,} of {name} has {source[at]}-{target[at]} without a probability and other links "
            "have one; give every link one (i-j:p), or none"
        )
    # What was possible travels as a weight through the sorting, so that of a link said twice the sure one stays.
    ranks = Links.sorted(offsets, source, target, np.float32(1) - mark)
    assert ranks.probability is not None
    links = ranks.hard if likely is None else Links.sorted(offsets, source, target, likely)
    return Parsed(links, ranks.probability == 0.0)


def _complaint(text: bytes, bad: int) -> str:
    """What is wrong with the word of ``text`` in which byte ``bad`` stands."""
    first = max(text.rfind(space, 0, bad) for space in (b" ", b"\t", b"\n")) + 1
    words = text[first : first + 60].split()
    word = words[0].decode("utf-8", "replace") if words else ""
    left = word.replace("?", "-").split(":")[0].split("-")
    if len(left) == 2 and all(each.isascii() and each.isdigit() for each in left):
        if any(int(each) > LARGEST for each in left):
            return f"has {word!r}: no sentence has a word {max(map(int, left)):,}; wanted numbers up to {LARGEST:,}"
        return f"has {word!r}, wanted after the colon a probability from 0 to 1, like 0-0:0.93"
    return f"has {word!r}, wanted links like 0-0 1-2, word numbers from 0"


@inline
def _number(text, at, end):
    """The number whose digits begin at ``at``, or −1, and where they end; a longer one than 15 digits is cut there."""
    value = np.int64(-1)
    stop = at
    while stop < end and 48 <= text[stop] <= 57 and stop - at < 15:
        value = (np.int64(0) if value < 0 else value * 10) + np.int64(text[stop]) - 48
        stop += 1
    return value, stop


@kernel
def _scan(text, largest, offsets, source, target, probability, mark):
    """Fills the arrays; gives the place and the line of what is no link, or −1. A probability not said is −1."""
    at, line, found, end = np.int64(0), np.int64(0), np.int64(0), np.int64(len(text))
    while at < end:
        c = text[at]
        if c == 32 or c == 9:
            at += 1
            continue
        if c == 13 and (at + 1 == end or text[at + 1] == 10):
            at += 1
            continue
        if c == 10:
            line += 1
            offsets[line] = found
            at += 1
            continue
        i, after = _number(text, at, end)
        if i < 0 or i > largest or after == end or (text[after] != 45 and text[after] != 63):
            return at, line
        sort = text[after]
        j, stop = _number(text, after + 1, end)
        if j < 0 or j > largest:
            return at, line
        p = -1.0
        if stop < end and text[stop] == 58:
            p, stop = _decimal(text, stop + 1, end)
            if not (0.0 <= p <= 1.0):
                return at, line
        if stop < end and text[stop] != 32 and text[stop] != 9 and text[stop] != 10 and text[stop] != 13:
            return at, line
        source[found] = i
        target[found] = j
        probability[found] = p
        mark[found] = sort == 63
        found += 1
        at = stop
    if line + 1 < len(offsets):
        offsets[line + 1] = found
    return np.int64(-1), line


@inline
def _decimal(text, at, end):
    """A number such as 1, 0.93 or 2.5e-3, or −1, and where it ends."""
    value, scale, digits, stop, point = 0.0, 1.0, 0, at, False
    while stop < end and (48 <= text[stop] <= 57 or (text[stop] == 46 and not point)):
        if text[stop] == 46:
            point = True
        else:
            value = value * 10.0 + (text[stop] - 48)
            digits += 1
            if point:
                scale *= 10.0
        stop += 1
    if digits == 0 or digits > 40:
        return -1.0, stop
    value /= scale
    if stop < end and (text[stop] == 101 or text[stop] == 69):
        sign = 1
        stop += 1
        if stop < end and (text[stop] == 45 or text[stop] == 43):
            sign = -1 if text[stop] == 45 else 1
            stop += 1
        power, stop = _number(text, stop, end)
        if power < 0 or power > 99:
            return -1.0, stop
        value *= 10.0 ** (sign * power)
    return value, stop


@inline
def _digits(text, at, value):
    """Writes ``value`` ≥ 0 and gives the place after it."""
    size, rest = 1, value // 10
    while rest > 0:
        size += 1
        rest //= 10
    rest = value
    for k in range(size):
        text[at + size - 1 - k] = 48 + rest % 10
        rest //= 10
    return at + size


@kernel
def _print(offsets, source, target, probability, probable, text):
    at = np.int64(0)
    for s in range(len(offsets) - 1):
        for k in range(offsets[s], offsets[s + 1]):
            if k > offsets[s]:
                text[at] = 32
                at += 1
            at = _digits(text, at, np.int64(source[k]))
            text[at] = 45
            at = _digits(text, at + 1, np.int64(target[k]))
            if probable:
                text[at] = 58
                parts = np.int64(10000.0 * min(1.0, max(0.0, np.float64(probability[k]))) + 0.5)
                text[at + 1] = 48 + parts // 10000
                at += 2
                parts %= 10000
                if parts > 0:
                    text[at] = 46
                    at += 1
                    while parts > 0:
                        text[at] = 48 + parts // 1000
                        parts = (parts % 1000) * 10
                        at += 1
        text[at] = 10
        at += 1
    return at
