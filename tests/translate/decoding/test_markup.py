"""Tags come through a translation: each once, nested as they were, and the text is what it would be without them."""

from __future__ import annotations

import html
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.translate.decoding.markup import _TAG, carried, parse, stripped

WORDS = ["cat", "dog", "2", "é", "a&amp;b", "x&lt;3", "don't"]
OPENS = ["<b>", "<i>", '<a href="x?a=1&amp;b=>">', "<a title='\"é\"' href='y'>", "<em >"]


def close_of(tag: str) -> str:
    return f"</{tag[1:].split()[0].rstrip('>')}>"


def wrapped(inner: str, tag: str) -> str:
    return f"{tag}{inner}{close_of(tag)}"


text = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
lines = st.recursive(
    text | st.sampled_from(["<br/>", "<img src='a b'/>", ""]),
    lambda inner: (
        st.builds(wrapped, inner, st.sampled_from(OPENS))
        | st.lists(inner, min_size=2, max_size=4).map(" ".join)
        | st.lists(inner, min_size=2, max_size=3).map("".join)
    ),
    max_leaves=12,
)


@st.composite
def translations(draw: st.DrawFn, source: str) -> tuple[list[str], list[tuple[int, int]], list[int | None]]:
    """Any translation with any answers, by words of the plain text."""
    spans, place = [], 0
    for word in source.split(" ") if source else []:
        spans.append((place, place + len(word)))
        place += len(word) + 1
    count = draw(st.integers(0, 7) | st.just(6))
    words = [(" " if n else "") + draw(st.sampled_from(["un", "<", "R&D", "deux", ","])) for n in range(count)]
    answers = st.none() | (st.integers(0, len(spans) - 1) if spans else st.none())
    return words, spans, [draw(answers) for _ in words]


neighbours = st.sampled_from(
    ["<b>a b</b> <i>c d</i>", "<i>a <b>b</b> <em>c</em></i> d <b>e</b>", "a<b>b <i>c</i></b>d"]
)


@settings(max_examples=200, deadline=None)
@given(lines | neighbours, st.data())
def test_the_laws_of_well_formed_lines(line: str, data: st.DataObject) -> None:
    """Any nesting, any translation, any alignment: XML in, XML out, with the same tags; and the text is untouched."""
    ElementTree.fromstring(f"<s>{line}</s>")  # what is drawn is well-formed
    marked = parse(line)
    assert marked.loose == ()
    words, spans, looked = data.draw(translations(marked.plain))
    out = carried(marked, words, spans, looked)
    tree = ElementTree.fromstring(f"<s>{out}</s>")
    assert "".join(tree.itertext()) == "".join(words)
    assert html.unescape(stripped(out)) == "".join(words)
    tags = [[tag[0] for tag in _TAG.finditer(x)] for x in (line, out)]
    assert sorted(tags[0]) == sorted(tags[1])
    assert sorted(shape(ElementTree.fromstring(f"<s>{line}</s>"))) == sorted(shape(tree))


def shape(tree: ElementTree.Element) -> list[tuple[str, ...]]:
    """The chain of tags above each element."""
    return [(tree.tag,), *((tree.tag, *below) for child in tree for below in shape(child))]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([*OPENS, "</b>", "</i>", "</a>", "<", ">", "&", "<3", "< b>", *WORDS, " "]), max_size=9),
    st.data(),
)
def test_whatever_is_wrong_with_it(parts: list[str], data: st.DataObject) -> None:
    """Every tag still appears once, and without tags the line is the translation."""
    line = "".join(parts)
    marked = parse(line)
    words, spans, looked = data.draw(translations(marked.plain))
    out = carried(marked, words, spans, looked)
    plain = "".join(words)
    if marked.escaped:
        plain = html.escape(plain, quote=False)
        assert stripped(out) == plain
    for tag in {tag[0] for tag in _TAG.finditer(line)}:
        assert out.count(tag) >= line.count(tag)
    assert len(out) == len(plain) + sum(len(tag[0]) for tag in _TAG.finditer(line))


SPANS = [(0, 1), (2, 5), (6, 9), (10, 15)]  # "A big red house"


@pytest.mark.parametrize(
    ("line", "answers", "wanted"),
    [
        ("A <b>big</b> red house", [0, 1, 3, 2], "une <b>grande</b> maison rouge"),
        ("A <b>big</b> <i>red</i> house", [0, 1, 3, 2], "une <b>grande</b> maison <i>rouge</i>"),
        ("A <b>big <i>red</i></b> house", [0, 1, 3, 2], "une <b>grande maison <i>rouge</i></b>"),
        ("A <b>big <i>red</i></b> house", [0, 2, 3, 1], "une <b><i>grande</i> maison rouge</b>"),
        ("<b>A</b> big red <i>house</i>", [0, 3, 0, 3], "<b>une</b> <i>grande</i> maison rouge"),
        ("A big <br/>red house", [0, 1, 3, 2], "une grande maison <br/>rouge"),
        ("A big <b></b>red house<hr>", [0, 1, 3, 2], "une grande maison <b></b>rouge<hr>"),
        ("A b<b>ig</b> red house", [0, 1, 3, 2], "une <b>grande</b> maison rouge"),
        ("A <b>big</b> red house", [0, None, 3, 2], "une grande maison <b></b>rouge"),
        ("A big red house<b>", [0, 1, 3, 2], "une grande maison rouge<b>"),
    ],
)
def test_where_tags_go(line: str, answers: list[int | None], wanted: str) -> None:
    words = ["une", " grande", " maison", " rouge"]
    marked = parse(line)
    assert marked.plain == "A big red house"
    assert carried(marked, words, SPANS, answers) == wanted


def test_tags_without_words_are_kept() -> None:
    assert carried(parse("<p><br/></p>"), [], [], []) == "<p><br/></p>"
    deep = "<b>" * 5000 + "x" + "</b>" * 5000
    assert stripped(carried(parse(deep), ["y"], [(0, 1)], [0])) == "y"


def test_text_that_was_not_escaped_is_not_escaped() -> None:
    assert parse("R&D &amp; <b>x</b>").plain == "R&D &amp; x"
    assert carried(parse("R&D <b>x</b>"), ["R&D", " x"], [(0, 3), (4, 5)], [0, 1]) == "R&D <b>x</b>"
    assert carried(parse("R&amp;D <b>x</b>"), ["R&D", " x"], [(0, 3), (4, 5)], [0, 1]) == "R&amp;D <b>x</b>"
    assert "\n" not in parse("a&#10;b").plain
