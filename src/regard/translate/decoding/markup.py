"""Tags in a sentence: taken out before it is translated, and put around the words that answer to those they held."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Marked", "carried", "parse", "stripped"]

_NAME = r"[A-Za-z][\w:.-]*"
_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+"
_TAG = re.compile(rf"<(?P<end>/)?(?P<name>{_NAME})(?:\s+[^\s\"'<>/=]+(?:\s*=\s*(?:{_VALUE}))?)*\s*(?P<single>/)?>")
_ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9A-Fa-f]+|[A-Za-z][A-Za-z0-9]*);")
_DEEPEST = 100  # elements inside each other; what is opened deeper is a lone tag
#: What HTML never closes.
_SINGLE = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})


Span = tuple[int, int] | None  # of the plain text, that a word of the translation answers to


@dataclass
class Element:
    """A tag with what it holds: characters ``start`` to ``end`` of the plain text; a lone tag has no ``close``."""

    open: str
    close: str = ""
    start: int = 0
    end: int = 0
    inside: list[Element] = field(default_factory=list)


@dataclass(frozen=True)
class Marked:
    """A sentence without its tags, and its tags as a tree; ``loose`` are tags that have no partner, as they stand.

    ``escaped`` says that the text is written as HTML writes it, & as ``&amp;``: so will its translation be.
    """

    plain: str
    root: Element
    loose: tuple[str, ...]
    escaped: bool


def stripped(line: str) -> str:
    """The line without its tags; nothing else is changed.

    >>> stripped('a <b>c</b> <br/>d &lt; 2 < 3')
    'a c d &lt; 2 < 3'
    """
    return _TAG.sub("", line)


def parse(line: str) -> Marked:
    """Finds the tags of a line.

    A tag without a partner, or that crosses another, is a lone tag and among the ``loose``. What is no tag is text:
    ``2 < 3``. Where the text holds neither a bare ``&`` nor a bare ``<``, entities are taken as what they stand for.
    The plain text is composed (NFC), with single spaces; a ``<br/>`` between two words parts them.

    >>> parse('Say <b>yes</b> &amp; <i>no<br/>').plain, parse('Say <i>no').loose
    ('Say yes & no', ('<i>',))
    """
    between = _TAG.split(line)[:: _TAG.groups + 1]
    escaped = not any("&" in _ENTITY.sub("", text) or "<" in text for text in between)
    plain = ""
    root = Element("")
    open_: list[tuple[str, Element]] = [("", root)]
    loose: list[str] = []
    tags = list(_TAG.finditer(line))
    for n, text in enumerate(between):
        text = unicodedata.normalize("NFC", html.unescape(text) if escaped else text)
        if n and tags[n - 1]["name"].lower() == "br" and plain:
            plain = f"{plain} "
        plain = re.sub("[ \r\n]+", " ", plain + text).lstrip(" ")  # an entity can be the end of a line
        if n == len(tags):
            break
        tag = tags[n]
        name, place = tag["name"].lower(), len(plain)
        if tag["end"]:
            depth = next((d for d in range(len(open_) - 1, 0, -1) if open_[d][0] == name), 0)
            if not depth:
                loose.append(tag[0])
                open_[-1][1].inside.append(Element(tag[0], "", place, place))
                continue
            _loosen(open_, depth + 1, loose)
            element = open_.pop()[1]
            element.close, element.end = tag[0], place
        else:
            element = Element(tag[0], "", place, place)
            open_[-1][1].inside.append(element)
            if not tag["single"] and name not in _SINGLE and len(open_) <= _DEEPEST:
                open_.append((name, element))
    _loosen(open_, 1, loose)
    root.end = len(plain)
    return Marked(plain.rstrip(" "), root, tuple(loose), escaped)


def _loosen(open_: list[tuple[str, Element]], depth: int, loose: list[str]) -> None:
    """What was opened below ``depth`` and never closed is a lone tag; what it seemed to hold stands behind it."""
    while len(open_) > depth:
        element = open_.pop()[1]
        above = open_[-1][1].inside
        above.extend(element.inside)
        element.inside = []
        loose.append(element.open)


def carried(
    marked: Marked, words: Sequence[str], spans: Sequence[tuple[int, int]], looked: Sequence[int | None]
) -> str:
    """The translation with the tags of its source.

    Args:
        words: of the translation, each with the space before it; together they are its text.
        spans: where each word of the source stands in the plain text.
        looked: of each word of the translation the word of the source that it answers to, if any.

    An element goes around the stretch of words that answer to what it held: of all stretches in the one around it that
    hold no word of its neighbours, the one with most of its own words less words of neither. One without such a word is
    empty, and stands before the first word that answers to what came behind it, as a lone tag does.

    >>> marked = parse("a <b>red</b> car")
    >>> carried(marked, ["une", " voiture", " rouge"], [(0, 1), (2, 5), (6, 9)], [0, 2, 1])
    'une voiture <b>rouge</b>'
    """
    write = html.escape if marked.escaped else None
    before, after = [""] * len(words), [""] * len(words)
    answers = [None if n is None else spans[n] for n in looked]
    rest = _place(marked.root, 0, len(words), answers, before, after)
    text = ""
    for word, open_, close in zip(words, before, after, strict=True):
        bare = word.lstrip(" ")
        text += word[: len(word) - len(bare)] + open_ + (write(bare, quote=False) if write else bare) + close
    return text + rest


def _place(parent: Element, a: int, b: int, answers: Sequence[Span], before: list[str], after: list[str]) -> str:
    """Puts what ``parent`` holds among words a to b; returns what found no word to stand at, because there is none."""
    owner = [_holder(parent, answers[j]) for j in range(a, b)]
    stretches = {id(child): _stretch(owner, child, a) for child in parent.inside if child.close}
    lone: list[str] = []
    for child in parent.inside:
        if stretches.get(id(child)):
            continue
        p = _point(child.start, a, b, answers)
        for x, y in filter(None, stretches.values()):
            p = x if x < p < y else p
        if p < b:
            before[p] += _whole(child)
        else:
            lone.append(_whole(child))
    for child in parent.inside:
        stretch = stretches.get(id(child))
        if stretch:
            x, y = stretch
            before[x] += child.open
            _place(child, x, y, answers, before, after)
            after[y - 1] += child.close
    if b > a:
        after[b - 1] += "".join(lone)
        return ""
    return "".join(lone)


def _holder(parent: Element, span: Span) -> Element | None:
    """The first child that holds some of a span of the plain text."""
    if span is None:
        return None
    return next((one for one in parent.inside if one.close and one.start < span[1] and span[0] < one.end), None)


def _stretch(owner: Sequence[Element | None], child: Element, a: int) -> tuple[int, int] | None:
    """The best stretch of words for a child: own words count 1, words of nobody −1, and a neighbour's ends it."""
    best: tuple[int, int, int, int] | None = None
    for x, first in enumerate(owner):
        if first is not child:
            continue
        worth = own = 0
        for y in range(x, len(owner)):
            if owner[y] is not child and owner[y] is not None:
                break
            mine = owner[y] is child
            worth, own = worth + (1 if mine else -1), own + mine
            if mine and (best is None or (worth, own) > best[:2]):
                best = worth, own, a + x, a + y + 1
    return None if best is None else best[2:]


def _point(place: int, a: int, b: int, answers: Sequence[Span]) -> int:
    """Before the first word that answers to the nearest word at or behind ``place``; b where there is none."""
    behind = [(span[0], j) for j in range(a, b) for span in [answers[j]] if span is not None and span[0] >= place]
    return min(behind)[1] if behind else b


def _whole(element: Element) -> str:
    """An element that holds no word, with all that it holds."""
    return element.open + "".join(map(_whole, element.inside)) + element.close
