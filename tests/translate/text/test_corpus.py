"""Parallel text: what is read, and what is said when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.translate.text.corpus import read_lines, read_parallel


def pair(folder: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    (folder / "a").write_bytes(source)
    (folder / "b").write_bytes(target)
    return folder / "a", folder / "b"


def test_pairs_are_read_line_by_line(tmp_path: Path) -> None:
    corpus = read_parallel(*pair(tmp_path, b"one\ntwo  \nthree", b"un\ndeux\ntrois\n"))
    assert corpus.source == ("one", "two", "three")
    assert corpus.target == ("un", "deux", "trois")


def test_text_is_composed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("e\u0301te\u0301\n", encoding="utf-8")
    assert read_lines(tmp_path / "a") == ["\u00e9t\u00e9"]


def test_windows_line_ends_and_byte_order_mark_go(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert read_lines(tmp_path / "a") == ["one", "two"]


def test_other_separators_do_not_end_a_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\u2028still\x0bone\x85here\ntwo\n", encoding="utf-8")
    assert len(read_lines(tmp_path / "a")) == 2


def test_blank_sides_are_left_out_and_counted(tmp_path: Path) -> None:
    corpus = read_parallel(*pair(tmp_path, b"one\n\nthree\n", b"un\ndeux\n \n"))
    assert corpus.source == ("one",)
    assert corpus.empty == 2


def test_the_fingerprint_follows_the_text(tmp_path: Path) -> None:
    first = read_parallel(*pair(tmp_path, b"one\n", b"un\n")).digest
    assert read_parallel(*pair(tmp_path, b"one\n", b"un\n")).digest == first
    assert read_parallel(*pair(tmp_path, b"one\n", b"deux\n")).digest != first


def test_sides_of_different_length(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"b ends after line 2 but .*a has 3 lines"):
        read_parallel(*pair(tmp_path, b"1\n2\n3\n", b"1\n2\n"))


def test_not_utf8_says_the_byte(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"a is not UTF-8 at byte 7 \(0xe9, line 2\)"):
        read_parallel(*pair(tmp_path, b"one\ncaf\xe9\n", b"1\n2\n"))


@pytest.mark.parametrize("text", [b"", b"\n", b" \n\t\n"])
def test_no_pair_at_all(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(RegardError, match="no sentence pair"):
        read_parallel(*pair(tmp_path, text, text))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="cannot read"):
        read_lines(tmp_path / "nowhere")
