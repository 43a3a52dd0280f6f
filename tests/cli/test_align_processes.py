"""`regard align` among other processes: killed, interrupted, read a line at a time, and left by its reader."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.align.saved import FILE, Saved

COMMAND = [sys.executable, "-m", "regard", "align", "--threads", "1"]


def start(*args: object, **streams: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **streams)  # type: ignore[call-overload, no-any-return]


def done(folder: Path) -> int:
    """How many iterations are on disk."""
    return Saved.of(folder).done if (folder / FILE).exists() else 0


def waited(process: subprocess.Popen[bytes], folder: Path, iterations: int) -> None:
    """Until so many iterations are on disk."""
    until = time.monotonic() + 120
    while done(folder) < iterations:
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough to be killed in the middle of."""
    path = tmp_path_factory.mktemp("text") / "text"
    words = [f"{k * k % 97}" for k in range(4000)]
    lines = (" ".join(words[k % 3701 : k % 3701 + 20]) for k in range(0, 20000, 17))
    path.write_text("".join(f"{line} ||| {line[::-1]}\n" for line in lines))
    return path


@pytest.mark.alone
@pytest.mark.slow
def test_killed_and_interrupted_it_goes_on(text: Path, tmp_path: Path) -> None:
    """Killed, run again and interrupted, run again: the links are those of one run, and every file is whole."""
    how = (text, "--stages", "ibm1:3 hmm:37", "--quiet")
    whole, _ = start(*how).communicate(timeout=120)
    model, page = tmp_path / "model", tmp_path / "page.html"
    page.write_text("old")

    killed = start(*how, "--save", model, "--html", page)
    waited(killed, model, 2)
    killed.send_signal(signal.SIGKILL)
    assert killed.communicate(timeout=60)[0] == b""
    assert killed.returncode == -signal.SIGKILL
    first = done(model)
    assert 2 <= first < 40

    stopped = start(*how, "--save", model, "--html", page)
    waited(stopped, model, first + 2)
    stopped.send_signal(signal.SIGINT)
    out, told = stopped.communicate(timeout=60)
    assert (out, told) == (b"", b"")
    assert stopped.returncode == 130
    second = done(model)
    assert first + 2 <= second < 40
    assert [path.name for path in model.iterdir()] == [FILE]
    assert page.read_text() == "old"

    ended = start(text, "--stages", "ibm1:3 hmm:37", "--save", model, "--html", page)
    out, told = ended.communicate(timeout=120)
    assert ended.returncode == 0, told.decode()
    assert out == whole
    assert out.count(b"\n") == text.read_bytes().count(b"\n")
    numbers = [int(line.split(b"/")[0]) for line in told.splitlines() if b"log p a word" in line]
    assert numbers == list(range(second + 1, 41))
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_a_line_comes_before_the_next_is_given(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("das Haus ||| the house\ndas Buch ||| the book\nein Buch ||| a book\n")
    _, told = start(text, "--save", tmp_path / "model", "--quiet").communicate(timeout=120)
    assert [line for line in told.splitlines() if b"compiling kernels" not in line] == []
    for more, expected in ((), b"0-0 1-1\n"), (("--tokenize", "words", "--spans"), b"0:3-0:3 4:8-4:9\n"):
        process = start("-", "--load", tmp_path / "model", *more, stdin=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        lines = [(b"das Buch ||| the book\n", expected.replace(b"4:9", b"4:8")), (b"\n", b"\n"), (b" ||| a\r\n", b"\n")]
        for given, wanted in [
            *lines,
            (b"ein Haus ||| a house\n", expected.replace(b"0:3-0:3 4:8-4:9", b"0:3-0:1 4:8-2:7")),
        ]:
            process.stdin.write(given)
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 60)[0], given
            answer = process.stdout.readline()
            assert answer == wanted
        process.stdin.write(b"ein Haus ||| a house")  # the last line has no end, and has an answer
        out, told = process.communicate(timeout=60)
        assert (out, process.returncode) == (answer, 0)
        assert [line for line in told.splitlines() if b"compiling kernels" not in line] == []
    process = start("-", "--load", tmp_path / "model", stdin=subprocess.PIPE)
    out, told = process.communicate(b"a ||| b\n" * 3 + b"no separator\n", timeout=60)
    assert process.returncode == 2
    assert b"line 4 of standard input has 0 separators" in told


@pytest.mark.slow
def test_a_reader_that_has_enough(tmp_path: Path) -> None:
    """Of more output than a pipe holds the first line is read, and no traceback follows."""
    text = tmp_path / "text"
    text.write_text("first second ||| first second\n" * 20000)
    reading, writing = os.pipe()
    command = [*COMMAND, str(text), "--quiet"]
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.readline() == b"0-0 1-1\n"
        assert process.stderr is not None
        told = process.stderr.read()
    assert (process.returncode, told) == (1, b"")
