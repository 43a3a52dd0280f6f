"""Parallel text: what is read, and what is said when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.translate.text.corpus import read_parallel


def pair(folder: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    (folder / "a").write_bytes(source)
    (folder / "b").write_bytes(target)
    return folder / "a", folder / "b"


def test_pairs_are_read_line_by_line(tmp_path: Path) -> None:
    corpus = read_parallel(*pair(tmp_path, b"one\ntwo  \nthree", b"un\ndeux\ntrois\n"))
    assert corpus.source == ("one", "two", "three")
    assert corpus.target == ("un", "deux", "trois")


def both(folder: Path, text: bytes) -> tuple[str, ...]:
    """What is read where both sides hold the same text."""
    corpus = read_parallel(*pair(folder, text, text))
    assert corpus.source == corpus.target
    return corpus.source


def test_text_is_composed(tmp_path: Path) -> None:
    assert both(tmp_path, "e\u0301te\u0301\n".encode()) == ("\u00e9t\u00e9",)


def test_windows_line_ends_and_byte_order_mark_go(tmp_path: Path) -> None:
    assert both(tmp_path, b"\xef\xbb\xbfone\r\ntwo\r\n") == ("one", "two")


def test_other_separators_do_not_end_a_line(tmp_path: Path) -> None:
    text = "one\u2028still\x0bone\x85here\there\rhere\ntwo\n"
    assert both(tmp_path, text.encode()) == ("one still one here here here", "two")


def test_control_characters_are_taken_out_and_counted(tmp_path: Path) -> None:
    corpus = read_parallel(
        *pair(tmp_path, b"o\0n\x1b[1me\x7f\ntwo\r\nthree", "un\ndeux\u00a0!\ntr\x08ois\x86".encode())
    )
    assert corpus.source == ("on[1me", "two", "three")
    assert corpus.target == ("un", "deux\u00a0!", "trois")
    assert corpus.cleaned == 2
    assert corpus.lines == (1, 2, 3)


def test_what_can_be_seen_stands(tmp_path: Path) -> None:
    lines = ("👨\u200d👩\u200d👧 yes 👍🏽", "Привет 世界 שלום", "a\u00adb \ue000 \U000e0041")
    assert both(tmp_path, "\n".join(lines).encode()) == lines


@pytest.mark.parametrize("text", ["\u200b", "\ufeff \u200e", "\0\x01", "\u3000", "\u2028"])
def test_what_cannot_be_seen_is_blank(tmp_path: Path, text: str) -> None:
    corpus = read_parallel(*pair(tmp_path, f"one\n{text}\nthree".encode(), b"un\ndeux\ntrois"))
    assert corpus.lines == (1, 3)
    assert corpus.left_out == {"with a blank side": 1, "broken off within a character": 0}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_last_line_that_breaks_off(tmp_path: Path, side: int, mark: bytes) -> None:
    """Within a character it is left out and counted; between two, nobody can tell it from a whole one."""
    files = [mark + "un\ndeux\nété".encode(), b"one\ntwo\nsummer"]
    between = read_parallel(*pair(tmp_path, files[0][:-2], files[1]))
    assert between.target[-1] == "summer"
    files[0] = files[0][:-1]
    within = read_parallel(*pair(tmp_path, *(files if side == 0 else files[::-1])))
    assert within.lines == (1, 2)
    assert within.left_out == {"with a blank side": 0, "broken off within a character": 1}


def test_blank_sides_are_left_out_and_counted(tmp_path: Path) -> None:
    corpus = read_parallel(*pair(tmp_path, b"one\n\nthree\n", b"un\ndeux\n \n"))
    assert corpus.source == ("one",)
    assert corpus.lines == (1,)
    assert corpus.blank == 2


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
    with pytest.raises(RegardError, match=r"a is not UTF-8 at byte 10 \(0xe9, line 2\)"):
        read_parallel(*pair(tmp_path, b"\xef\xbb\xbfone\ncaf\xe9\n", b"1\n2\n"))


@pytest.mark.parametrize("text", [b"", b"\n", b" \n\t\n"])
def test_no_pair_at_all(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(RegardError, match="no sentence pair"):
        read_parallel(*pair(tmp_path, text, text))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="cannot read"):
        read_parallel(tmp_path / "nowhere", tmp_path / "nowhere")
