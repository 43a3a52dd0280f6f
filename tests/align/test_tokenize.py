"""Raw text into words and back: spans that cover the line in order, whatever stands in it."""

from __future__ import annotations

import io
import itertools
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.align.links import Links
from regard.align.tokenize import Pieces, Words, spanned, split
from regard.errors import RegardError

WORDS = Words()
#: Mostly what cuts and joins, from inside and outside of the BMP.
CHARACTERS = st.one_of(
    st.sampled_from(
        list("abLLqunst'’.,-–:/@_·!?( )[]\t\r\n\0") + list("日本ーかﾞ\u3099𠮷𝒳é\u0301\u200d\u200b\ufeff👍🏽🇫🇷１٣٫ב׳")
    ),
    st.characters(exclude_categories=["Cs"]),
)


def blank(c: str) -> bool:
    return c.isspace() or c in "\u200b\ufeff"


@given(st.text(CHARACTERS, max_size=40))
def test_spans_ascend_and_cover_all_that_is_not_white_space(line: str) -> None:
    spans = WORDS(line)
    assert all(a < b for a, b in spans)
    assert all(b <= c for (_, b), (c, _) in itertools.pairwise(spans))
    covered = {k for a, b in spans for k in range(a, b)}
    assert covered == {k for k, c in enumerate(line) if not blank(c)}
    assert WORDS.tokens(line) == [line[a:b] for a, b in spans]


@given(st.text(CHARACTERS, max_size=40))
def test_a_token_has_no_white_space_and_words_keep_their_marks(line: str) -> None:
    for a, b in WORDS(line):
        assert not any(blank(c) for c in line[a:b])
        if a and unicodedata.category(line[a])[0] == "M":
            assert blank(line[a - 1]) or not line[a - 1].isalnum()


@given(st.text(CHARACTERS, max_size=20), st.text(CHARACTERS, max_size=20))
def test_what_stands_behind_a_space_changes_nothing_before_it(one: str, other: str) -> None:
    assert WORDS(f"{one} {other}") == WORDS(one) + [(a + len(one) + 1, b + len(one) + 1) for a, b in WORDS(other)]


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("L'homme qu'il n'a pas vu, d'aujourd'hui", "L' |homme|qu' |il|n' |a|pas|vu|,|d' |aujourd'hui"),
        ("I'm sure it's John's; we're, can't, y'all", "I|'m|sure|it|'s|John|'s|;|we|'re|,|ca|n't|,|y'all"),
        ("'dogs' “l’eau” o'clock l' homme dog 's", "'|dogs|'|“|l’ |eau|”|o'clock|l' |homme|dog|'s"),
        ("dell'arte un'amica L’Aquila", "dell' |arte|un' |amica|L’ |Aquila"),
        ("п'ять об'єкт", "п'ять|об'єкт"),
        ("the U.S. and e.g. this. That", "the|U.S.|and|e.g.|this|.|That"),
        ("1,000.5 12:30 1/2 10% $5 -5 1990-95 1990–95", "1,000.5|12:30|1/2|10|%|$|5|-|5|1990-95|1990|–|95"),
        ("well-known e-mail- col·lecció snake_case", "well-known|e-mail|-|col·lecció|snake|_|case"),
        ("wait... no -- ((yes))!!", "wait|...|no|--|(|(|yes|)|)|!!"),
        ("me@x.org, (see https://x.org/a_b?c=1). www.y.com!", "me@x.org|,|(|see|https://x.org/a_b?c=1|)|.|www.y.com|!"),
        ("日本語、ガ ｶﾞ か\u3099 𠮷野家ー。", "日|本|語|、|ガ|ｶﾞ|か\u3099|𠮷|野|家|ー|。"),
        ("中文ABC中１２３", "中|文|ABC|中|１２３"),
        ("नमस्ते می\u200cخواهم צה״ל 한국어입니다.", "नमस्ते|می\u200cخواهم|צה״ל|한국어입니다|."),
        ("cafe\u0301 nin\u0303o 𝒳𝒴-ray", "cafe\u0301|nin\u0303o|𝒳𝒴-ray"),
        ("👩\u200d👩\u200d👧👍🏽🇫🇷🇩🇪 1\ufe0f\u20e3", "👩\u200d👩\u200d👧|👍🏽|🇫🇷|🇩🇪|1\ufe0f\u20e3"),
        ("a\0b\x7f c\u00a0d\u3000e\u200bf \ufeffg", "a|\0|b|\x7f|c|d|e|f|g"),
        ("", ""),
        (" \t ", ""),
    ],
)
def test_hand_cases(line: str, tokens: str) -> None:
    assert WORDS.tokens(line) == [token.rstrip(" ") for token in tokens.split("|") if token]


@pytest.mark.parametrize("end", ["", " @", "bc"])  # addresses are looked for where there is @; what matched fails
@pytest.mark.parametrize(
    "piece", ["ab.", "a.", "a-", "a'", "d'", "http://", "a@", "a@a.", "a@a-", "!", "\u200d", "👍\u200d", "1,"]
)
def test_no_line_takes_more_than_its_length(piece: str, end: str) -> None:
    def seconds(times: int) -> float:
        start = time.process_time()
        WORDS(piece * times + end)
        return time.process_time() - start

    WORDS(piece * 100 + end)
    few = min(seconds(2_000) for _ in range(3))
    assert seconds(32_000) < 16 * max(few, 1e-3) * 5


def test_bytes_are_cut_for_the_reader_of_a_corpus() -> None:
    assert split("C'est ça.\r\n".encode(), WORDS) == [b"C'", b"est", "ça".encode(), b"."]
    assert split(b"New York\n", lambda line: [(0, len(line))]) == [b"New_York"]
    assert split(b"\r\n", WORDS) == []
    assert split("e\u0301te\u0301 été".encode(), WORDS) == ["été".encode()] * 2
    with pytest.raises(RegardError, match=r"byte 6 of the line b'caf. \\xe9' is not UTF-8 \(0xe9\)"):
        split(b"caf. \xe9", WORDS)


def test_links_become_spans_of_the_raw_lines() -> None:
    source, target = ["l'été, 𝒳\r\n", "\n", "房子\n"], ["the  summer 𝒳\n", "x\n", "a house\n"]
    links = Links.of([[(0, 0), (1, 1), (3, 2)], [], [(0, 1), (1, 1)]])
    lines = list(spanned(links, (s.encode() for s in source), (t.encode() for t in target), WORDS, WORDS))
    assert lines == ["0:2-0:3 2:5-5:11 7:8-12:13\n", "\n", "0:1-2:7 1:2-2:7\n"]
    a, b = (tuple(map(int, span.split(":"))) for span in lines[0].split()[1].split("-"))
    assert source[0][slice(*a)] == "été"
    assert target[0][slice(*b)] == "summer"


def test_spans_of_another_text_are_refused() -> None:
    links = Links.of([[(1, 0)], []])
    with pytest.raises(RegardError, match="line 1 has 1 and 1 tokens and a link 1-0; cut it as it was cut"):
        list(spanned(links, [b"a\n", b"\n"], [b"b\n", b"\n"], WORDS, WORDS))
    with pytest.raises(RegardError, match="links are of 2 pairs of lines, and the text has 1"):
        list(spanned(links, [b"a c\n"], [b"b\n"], WORDS, WORDS))
    with pytest.raises(RegardError, match="a side of the text has 1; give the text that was aligned"):
        list(spanned(links, [b"a c\n", b"x\n"], [b"b\n"], WORDS, WORDS))
    with pytest.raises(RegardError, match="a side of the text has more"):
        list(spanned(links, [b"a c\n", b"\n", b"\n"], [b"b\n", b"\n"], WORDS, WORDS))


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Pieces:
    import sentencepiece

    text = ["注意力是一种机制", "机制是注意力", "一种力", "ｆｕｌｌ　ｗｉｄｔｈ full width"] * 20
    model, path = io.BytesIO(), tmp_path_factory.mktemp("pieces") / "model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=290, byte_fallback=True, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    return Pieces(path)


@given(line=st.text(CHARACTERS, max_size=20))
def test_pieces_ascend_and_hold_no_outer_space(pieces: Pieces, line: str) -> None:
    spans = pieces(line)
    assert all(a < b for a, b in spans)
    assert all(b <= c for (_, b), (c, _) in itertools.pairwise(spans))
    assert all(line[a:b].strip() == line[a:b] for a, b in spans)


def test_pieces_stand_where_the_raw_line_has_them(pieces: Pieces) -> None:
    assert "".join(pieces.tokens("注意力是 一种机制")) == "注意力是一种机制"
    assert "".join(pieces.tokens("ｆｕｌｌ　 width")) == "ｆｕｌｌwidth"
    assert pieces.tokens("𠮷☃") == ["𠮷", "☃"]  # unknown: the bytes of a character are one
    assert pieces("") == []


def test_a_model_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"nothing of the kind")
    for path in (tmp_path / "model", tmp_path / "not there"):
        with pytest.raises(RegardError, match="is not a readable SentencePiece model"):
            Pieces(path)
