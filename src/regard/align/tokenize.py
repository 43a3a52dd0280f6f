"""Words of raw text, and where each stands in its line: what turns a file as people write it into one to align.

The cut follows the default words of Unicode's Annex 29 where a language has spaces, with three departures that
alignment wants: an apostrophe ends an elided word (``l'|homme``, ``qu'|il``) or begins an English ending (``we|'re``,
``do|n't``), a run of one mark (``...``, ``--``) stays whole, and so do addresses. Chinese and Japanese are cut into
characters. Thai, Lao, Khmer and Burmese write no spaces either and are not cut: use a SentencePiece model for them.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.align.links import Links
from regard.errors import RegardError

__all__ = ["Pieces", "Span", "Words", "split", "spanned"]

#: First and last character of a token, as in a slice: ``line[start:stop]``. Characters are code points.
Span = tuple[int, int]
Tokenizer = Callable[[str], list[Span]]

#: Han, kana and bopomofo, each a token; the marks that sound or vary one stay with it.
_CHARACTERS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d"
    "\U00016ff0-\U00016ff1\U0001aff0-\U0001b16f\U0001f200\U00020000-\U0003fffd"
)
_SOUND = "\uff9e\uff9f"  # half-width voicing, letters to Unicode
_JOINERS = "\u00ad\u200c\u200d\u2060"  # inside a word they are part of it

_UNSEEN = "\u200b\ufeff"  # white space of no width

#: Words that lose a vowel before the next one, in French, Italian, Catalan and Occitan.
_ELIDED = re.compile(
    "(?i:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|quelqu|presqu|entr"
    "|un|dell|nell|all|dall|sull|coll|quell|bell|sant|tutt|dov|com|cos|anch|senz|mezz|gl)['’]"
)
_ENGLISH = re.compile("(?i:n['’]t|['’](?:s|t|d|m|re|ve|ll))$")


@dataclass(frozen=True)
class Words:
    """Cuts a line into words by Unicode's properties; the same for every language.

    Spans ascend, do not overlap, and cover every character that is no white space (U+200B and U+FEFF are).

    >>> words = Words()
    >>> words.tokens("L'homme n'a pas 1,234.5 €... don't!")
    ["L'", 'homme', "n'", 'a', 'pas', '1,234.5', '€', '...', 'do', "n't", '!']
    >>> words.tokens("你好, see https://example.org/a?b=1. 𝒳-ray")
    ['你', '好', ',', 'see', 'https://example.org/a?b=1', '.', '𝒳-ray']
    >>> words("né à Paris")
    [(0, 2), (3, 4), (5, 10)]
    """

    def __call__(self, line: str) -> list[Span]:
        """The span of each word."""
        found = _pattern("@" in line or "://" in line or "www." in line).finditer(line)
        if "'" not in line and "’" not in line:
            return [word.span() for word in found]
        spans: list[Span] = []
        for word in found:
            spans += _parted(word[0], word.start()) if "'" in word[0] or "’" in word[0] else (word.span(),)
        return spans

    def tokens(self, line: str) -> list[str]:
        """The words themselves."""
        return [line[a:b] for a, b in self(line)]


class Pieces:
    """Cuts a line by a SentencePiece model from ``path``: for text without spaces, or into pieces of words.

    A piece's span is what it stands for in the line as it was, whatever the model changes first (full width to half,
    spaces to ▁). Where several pieces stand for one character (bytes of one that the model does not know) they are one.

    Raises:
        RegardError: no such model, or SentencePiece is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            import sentencepiece
        except ImportError as error:
            raise RegardError(
                "tokenize: a SentencePiece model needs the package sentencepiece: pip install 'regard[cli]'"
            ) from error
        try:
            self._model: Any = sentencepiece.SentencePieceProcessor(model_proto=Path(path).read_bytes())
        except (OSError, RuntimeError) as error:
            raise RegardError(f"tokenize: {path} is not a readable SentencePiece model ({error})") from error

    def __call__(self, line: str) -> list[Span]:
        """The span of each piece, without the white space before it."""
        spans: list[Span] = []
        for start, stop in self._offsets(line):
            while start < stop and line[start].isspace():
                start += 1
            while start < stop and line[stop - 1].isspace():
                stop -= 1
            if start < stop:
                spans.append((start, stop))
        return spans

    def _offsets(self, line: str) -> list[Span]:
        if hasattr(self._model, "encode_as_offset_mapping"):
            return list(self._model.encode_as_offset_mapping(line)["offsets"])
        pieces = self._model.encode(line, out_type="immutable_proto").pieces  # SentencePiece 0.2.0 and 0.2.1
        return [(piece.begin, piece.end) for piece in pieces]

    def tokens(self, line: str) -> list[str]:
        """The pieces as they stand in the line."""
        return [line[a:b] for a, b in self(line)]


def split(line: bytes, tokenizer: Tokenizer) -> list[bytes]:
    """The tokens of a line of bytes for the reader of a corpus: composed (NFC), so that é is one word however it is
    written; white space inside one is made ``_``.

    Raises:
        RegardError: the line is not UTF-8.

    >>> split("C'est ça.\\r\\n".encode(), Words())
    [b"C'", b'est', b'\\xc3\\xa7a', b'.']
    """
    text = decoded(line)
    return ["_".join(unicodedata.normalize("NFC", text[a:b]).split()).encode() for a, b in tokenizer(text)]


def decoded(line: bytes) -> str:
    """The line without its end.

    Raises:
        RegardError: it is not UTF-8.
    """
    try:
        return line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError as error:
        raise RegardError(
            f"tokenize: byte {error.start + 1} of the line {line[:40]!r} is not UTF-8 (0x{line[error.start]:02x}); "
            "convert the file first, for example with iconv -t UTF-8"
        ) from error


def spanned(
    links: Links, source: Iterable[bytes], target: Iterable[bytes], cut_source: Tokenizer, cut_target: Tokenizer
) -> Iterator[str]:
    """The links of each pair of raw lines as spans of characters, ``s0:s1-t0:t1``, ends not included; a line each.

    Lines are cut again as they pass by, so nothing is held. Characters are Unicode's code points, counted from 0.

    Raises:
        RegardError: a line has fewer tokens than its links say, or a side has more or fewer lines.

    >>> links = Links.of([[(0, 0), (1, 1)], []])
    >>> list(spanned(links, ["l'été\\n".encode(), b"\\n"], [b"the summer\\n", b"-\\n"], Words(), Words()))
    ['0:2-0:3 2:5-4:10\\n', '\\n']
    """
    count = 0
    for first, second in itertools.zip_longest(source, target):
        if count == len(links) or first is None or second is None:
            raise RegardError(
                f"spans: the links are of {len(links):,} pairs of lines, and a side of the text has "
                f"{'more' if count == len(links) else f'{count:,}'}; give the text that was aligned"
            )
        yield _spans(links[count], cut_source(decoded(first)), cut_target(decoded(second)), count + 1)
        count += 1
    if count < len(links):
        raise RegardError(f"spans: the links are of {len(links):,} pairs of lines, and the text has {count:,}")


def _spans(links: list[tuple[int, int]], source: list[Span], target: list[Span], line: int) -> str:
    for i, j in links:
        if i >= len(source) or j >= len(target):
            raise RegardError(
                f"spans: line {line:,} has {len(source):,} and {len(target):,} tokens and a link {i}-{j}; "
                "cut it as it was cut for aligning"
            )
    return " ".join("{}:{}-{}:{}".format(*source[i], *target[j]) for i, j in links) + "\n"


def _parted(word: str, at: int) -> Iterator[Span]:
    """A word with apostrophes: elided words before it, an English ending behind."""
    first, last = 0, len(word)
    ending = _ENGLISH.search(word)
    stop = ending.start() if ending and ending.start() > 0 else last
    while (found := _ELIDED.match(word, first)) and found.end() < stop:
        yield at + first, at + found.end()
        first = found.end()
    yield at + first, at + stop
    if stop < last:
        yield at + stop, at + last


@functools.cache
def _pattern(addressed: bool) -> re.Pattern[str]:
    """What a token is. Each begins where one before has ended, so never inside a word. Addresses are looked for only in
    lines that can have one: the search costs more than all the rest.
    """
    marks = _marks()
    letter, sign = rf"[^\W\d_{_CHARACTERS}{_SOUND}]", rf"[^\W_{_CHARACTERS}{_SOUND}]"
    part = rf"{sign}+(?:(?![\x00-\x7f])[{marks}{_JOINERS}]{sign}*)*"
    between = r"(?:['’·‐‑׳״\-]|(?<=\d)[.,:/٫٬](?=\d))"
    tail = rf"(?:(?![\x00-\x7f])[{marks}{_SOUND}\U0001f3fb-\U0001f3ff])*"
    inner = r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]"
    label = r"[A-Za-z0-9][A-Za-z0-9\-]{0,62}"
    addresses = (
        rf"(?:https?://|www\.){inner}*[#$%&*+\-/0-9=@A-Z_a-z~]",
        rf"[A-Za-z0-9][A-Za-z0-9._+\-]{{0,63}}@{label}(?:\.{label}){{1,8}}(?<!-)",
    )
    kinds = (
        rf"{letter}\.{letter}(?:\.{letter}){{0,6}}(?:\.|(?!{sign}))(?!{sign})",  # U.S., e.g.
        rf"(?=[A-Za-z]{{0,6}}['’])(?:{_ELIDED.pattern}|['’](?i:s|t|d|m|re|ve|ll))(?!{sign})",  # standing alone
        f"{part}(?:{between}{part})*",
        f"[{_CHARACTERS}]{tail}",
        r"([.!?…‥—–\-=*_~#+・。])\1+",
        "[\U0001f1e6-\U0001f1ff]{2}",  # a flag
        rf"[^\s{_UNSEEN}]{tail}(?:\u200d(?!{sign})\S{tail})*",  # a mark, or a picture and what is joined to it
    )
    return re.compile("|".join((*addresses, *kinds) if addressed else kinds))


@functools.cache
def _marks() -> str:
    """What is written on, under and around letters, as ranges inside a bracket; the last plane has the last of them."""
    marks = (c for c in (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0)) if unicodedata.category(chr(c))[0] == "M")
    found: list[list[int]] = []
    for code in marks:
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in found)
