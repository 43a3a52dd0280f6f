"""Whatever lies in the files, the corpus has their lines, one for one, or says in one sentence why it has not."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.align.corpus import Corpus, gathered, lines, read
from regard.errors import RegardError

WORD = st.binary(min_size=1, max_size=4).filter(lambda word: len(word.split()) == 1 and word.split()[0] == word)
LINE = st.lists(WORD, max_size=5)


def put(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def text(found: Corpus) -> list[tuple[list[bytes], list[bytes]]]:
    return [(found.source.sentence(s), found.target.sentence(s)) for s in range(len(found))]


@given(st.lists(st.tuples(LINE, LINE), max_size=7), st.integers(1, 5))
def test_sentences_come_back_or_are_empty_on_both_sides(
    pairs: list[tuple[list[bytes], list[bytes]]], most: int
) -> None:
    found = gathered(pairs, longest=most)
    long = [k for k, pair in enumerate(pairs) if max(map(len, pair)) > most]
    assert found.refused.tolist() == long
    assert text(found) == [(s, t) if s and t and k not in long else ([], []) for k, (s, t) in enumerate(pairs)]
    for side in (found.source, found.target):
        assert len(set(side.words)) == len(side.words)
        assert [a.dtype for a in (side.tokens, side.offsets)] == [np.int32, np.int64]


@pytest.mark.parametrize("data", [b"", b"\n", b"a\n", b"a", b"a\nb", b"a\n\nb\n", b"a\r\nb\r\n", b"\x00\n\xff\xfe x\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_plain_and_packed(tmp_path: Path, data: bytes, packed: bool) -> None:
    path = put(tmp_path, "text", gzip.compress(data) if packed else data)
    assert list(lines(path)) == data.splitlines(keepends=True)


def test_a_file_that_ends_without_a_line_end_has_as_many_lines(tmp_path: Path) -> None:
    assert len(read(put(tmp_path, "s", "a b\nc"), put(tmp_path, "t", "x\ny\n"))) == 2


def test_windows_line_ends_are_no_words(tmp_path: Path) -> None:
    found = read(put(tmp_path, "s", "a b\r\n\r\nc\r\n"), put(tmp_path, "t", "x\ny\nz\n"))
    assert text(found) == [([b"a", b"b"], [b"x"]), ([], []), ([b"c"], [b"z"])]
    found = read(put(tmp_path, "st", "a ||| x\r\n\r\n ||| \r\n|||\r\n"))
    assert text(found) == [([b"a"], [b"x"]), ([], []), ([], []), ([], [])]


def test_any_byte_is_a_word(tmp_path: Path) -> None:
    """Characters beyond the first plane, NUL, bytes that are no UTF-8, a space that only Unicode knows."""
    line = "\U0001f1eb\U0001f1f7 𝒜 a\x00b \x00".encode() + b" caf\xe9 \xff " + "x\u00a0y".encode()
    found = read(put(tmp_path, "s", line + b"\n"), put(tmp_path, "t", b"z\n"))
    assert found.source.sentence(0) == line.split(b" ")


@pytest.mark.parametrize("packed", [False, True])
def test_one_file_with_separators(tmp_path: Path, packed: bool) -> None:
    data = b"das Haus ||| the house\n ||| the\ndas ||| \n\n|||\na |||| b ||| c|||d\n"
    found = read(put(tmp_path, "st", gzip.compress(data) if packed else data))
    assert text(found) == [
        ([b"das", b"Haus"], [b"the", b"house"]), ([], []), ([], []), ([], []), ([], []),
        ([b"a", b"||||", b"b"], [b"c|||d"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "count"),
    [("a b", 0), ("a|||b", 0), ("a\t|||\tb", 0), ("a ||| b ||| c", 2), ("a ||| ||| b", 2), ("||| |||", 2)],
)
def test_a_line_without_one_separator_is_named(tmp_path: Path, line: str, count: int) -> None:
    with pytest.raises(
        RegardError, match=rf"source: line 2 of .*st has {count} separators ' \|\|\| ', wanted one; .*\w$"
    ):
        read(put(tmp_path, "st", f"a ||| b\n{line}\n"))


@pytest.mark.parametrize("short", ["s", "t"])
@pytest.mark.parametrize("missing", [1, 3])
def test_a_side_that_ends_early_is_named(tmp_path: Path, short: str, missing: int) -> None:
    one, other = (
        put(tmp_path, "s", "a\n" * (7 - missing * (short == "s"))),
        put(tmp_path, "t", "b\n" * (7 - missing * (short == "t"))),
    )
    long = {"s": "t", "t": "s"}[short]
    wanted = rf"target: \S*{short} ends after line {7 - missing} and \S*{long} goes on with line {8 - missing}; "
    with pytest.raises(RegardError, match=wanted):
        read(one, other)


def test_empty_files_are_no_sentences(tmp_path: Path) -> None:
    for packed in (b"", gzip.compress(b"")):
        found = read(put(tmp_path, "s", packed), put(tmp_path, "t", packed))
        assert len(found) == 0
        assert [side.words for side in (found.source, found.target)] == [[], []]
        assert len(found.digest()) == 32


def test_a_gzip_that_is_cut_or_damaged_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    whole = b"".join(b"%d\n" % k for k in rng.integers(1 << 40, size=4001))
    packed = bytearray(gzip.compress(whole))
    cases = {"cut": packed[: len(packed) // 2], "tail": packed[:-5], "more": packed + b"\x00garbage"}
    damaged = bytearray(packed)
    damaged[len(packed) // 2 : len(packed) // 2 + 64] = b"\xff" * 64
    cases["damaged"] = damaged
    cases["no-such-block"] = bytearray(packed[:10] + b"\xff" + packed[11:])
    for name, data in cases.items():
        with pytest.raises(
            RegardError, match=rf"{name}: the gzip file is cut or damaged after line [\d,]+ \(.+\); fetch"
        ):
            list(lines(put(tmp_path, name, bytes(data))))


def test_a_spooled_corpus_is_the_same(tmp_path: Path) -> None:
    data = put(tmp_path, "st", "a b ||| x\n\nc a ||| y y x\n")
    spool = tmp_path / "spool"
    spool.mkdir()
    one, other = read(data), read(data, spool=spool)
    assert text(one) == text(other)
    assert one.digest() == other.digest()
    assert isinstance(other.source.tokens, np.memmap)
    assert len(read(put(tmp_path, "none", ""), spool=spool)) == 0


def test_a_spool_is_flushed_in_parts(tmp_path: Path) -> None:
    """More than a million words are in the file before the last are read."""
    words = [b"a", b"b", b"c"]
    found = gathered((([words[k % 3]] * 700, [words[(k + 1) % 3]] * 3) for k in range(3001)), spool=tmp_path)
    assert (found.source.tokens == np.repeat(np.arange(3001) % 3, 700)).all()
    assert (found.target.tokens == np.repeat(np.arange(3001) % 3, 3)).all()
    assert (found.source.lengths() == 700).all()
    assert (found.source.words, found.target.words) == (words, [b"b", b"c", b"a"])


@pytest.mark.parametrize(
    "other",
    [
        "a b ||| x\nc ||| z\n",
        "a ||| b x\nc ||| y\n",
        "a b ||| x\n",
        "a b ||| x\n ||| \nc ||| y\n",
        "c b ||| x\na ||| y\n",
    ],
)
def test_another_text_has_another_digest(tmp_path: Path, other: str) -> None:
    assert read(put(tmp_path, "a", "a b ||| x\nc ||| y\n")).digest() != read(put(tmp_path, "b", other)).digest()


def test_sides_may_be_cut_differently(tmp_path: Path) -> None:
    def letters(line: bytes) -> list[bytes]:
        return [line[k : k + 1] for k in range(len(line.strip()))]

    found = read(put(tmp_path, "st", "a b ||| xyz\n"), split_target=letters)
    assert text(found) == [([b"a", b"b"], [b"x", b"y", b"z"])]
