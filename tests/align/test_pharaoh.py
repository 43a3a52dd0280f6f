"""Links as text: what is written is read, and what is no link is refused with its file and line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.align.links import Links
from regard.align.pharaoh import LARGEST, lines, parse, read
from regard.errors import RegardError

PAIR = st.tuples(st.integers(0, LARGEST), st.integers(0, 130))


@given(st.lists(st.lists(PAIR, max_size=9), max_size=7), st.booleans())
def test_what_is_written_is_read(sentences: list[list[tuple[int, int]]], windows: bool) -> None:
    links = Links.of(sentences)
    text = b"".join(lines(links))
    assert text.decode() == "".join(" ".join(f"{i}-{j}" for i, j in each) + "\n" for each in links)
    if windows:
        text = text.replace(b"\n", b"\r\n")
    assert parse(text, "text").links == links


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9))
def test_probabilities_have_four_digits_and_no_needless_zero(values: list[float]) -> None:
    links = Links.of([[(n, 0, p) for n, p in enumerate(values)]])
    assert links.probability is not None
    words = b"".join(lines(links, probabilities=True)).decode().split()
    for word, p in zip(words, links.probability.tolist(), strict=True):
        digits = word.split(":")[1]
        assert abs(float(digits) - p) <= 0.5e-4 + 1e-9
        assert len(digits) <= 6
        assert "." not in digits or not digits.endswith(("0", "."))
    again = parse(" ".join(words).encode(), "text").links
    assert again.probability is not None
    assert np.abs(again.probability - links.probability).max() <= 0.5e-4 + 1e-7


def test_other_tools_digits_are_understood() -> None:
    found = parse(b"0-0:1.000 1-1:.5 2-2:2.5e-3 3-3:1E-1 4-4:0", "text").links.probability
    assert found is not None
    assert np.allclose(found, [1.0, 0.5, 0.0025, 0.1, 0.0], atol=1e-7)


def test_order_spaces_and_repeats_do_not_matter() -> None:
    text = b"  2-1\t0-0  2-1 \r\n\n 1-1"
    assert parse(text, "text").links == Links.of([[(0, 0), (2, 1)], [], [(1, 1)]])


def test_sure_stands_over_possible() -> None:
    found = parse(b"1?1 0-0 1-1 0?2\n", "text")
    assert found.links[0] == [(0, 0), (0, 2), (1, 1)]
    assert found.possible.tolist() == [False, True, False]


def test_many_sentences_are_written_in_several_blocks() -> None:
    links = Links.of([[(n % 7, n % 5)] for n in range(40_001)])
    parts = list(lines(links))
    assert len(parts) == 3
    assert all(part.endswith(b"\n") for part in parts)
    assert parse(b"".join(parts), "text").links == links


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"0-0\n\n0_1\n", "line 3 of t has '0_1', wanted links like 0-0 1-2"),
        (b"0-0 1-\n", "line 1 of t has '1-', wanted links"),
        (b"-1-0\n", "line 1 of t has '-1-0'"),
        (b"0-0,1-1\n", "line 1 of t has '0-0,1-1'"),
        (b"the house\n", "line 1 of t has 'the'"),
        (b"0-0\n1-1\x00\n", "line 2 of t has '1-1\\x00'"),
        (b"\x00\n", "line 1 of t has '\\x00'"),
        ("0-٣\n".encode(), "line 1 of t has '0-٣'"),
        (b"0-\xff\n", "line 1 of t has '0-\ufffd'"),
        (b"0-0\r1-1\n", "line 1 of t has"),
        (b"1048576-0\n", "no sentence has a word 1,048,576; wanted numbers up to 1,048,575"),
        (b"0-99999999999999999999999\n", "no sentence has a word"),
        (b"0-0:1.5\n", "has '0-0:1.5', wanted after the colon a probability from 0 to 1"),
        (b"0-0:nan\n", "has '0-0:nan', wanted after the colon"),
        (b"0-0:\n", "has '0-0:', wanted after the colon"),
        (b"0-0:0.5 1-1\n", "line 1 of t has 1-1 without a probability"),
    ],
)
def test_what_is_no_link_is_refused_by_line(text: bytes, says: str) -> None:
    with pytest.raises(RegardError) as raised:
        parse(text, "t")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_plain_packed_and_broken(tmp_path: Path) -> None:
    links = Links.of([[(0, 0), (1, 2)], [], [(3, 1)]])
    plain, packed = tmp_path / "links", tmp_path / "links.gz"
    plain.write_bytes(b"".join(lines(links)))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read(plain) == read(packed) == links
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(RegardError, match=r"cut or damaged .*pack it again"):
        read(packed)
    with pytest.raises(RegardError, match=r"prior: cannot read .*nothing: No such file"):
        read(tmp_path / "nothing", "prior")
    plain.write_bytes(b"0-0\n1?1\n")
    with pytest.raises(RegardError, match=r"line 2 of .*possible link"):
        read(plain)
    plain.write_bytes(b"")
    assert len(read(plain)) == 0


def test_probabilities_of_links_without_any_are_refused() -> None:
    with pytest.raises(RegardError, match="these links have none"):
        next(lines(Links.of([[(0, 0)]]), probabilities=True))
