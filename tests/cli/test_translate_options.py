"""`regard translate`: what its options print; a pipe is translated as it comes, in memory that does not grow."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.cli.main import app
from tests.cli.test_translate import LINES, model, translate

__all__ = ["model"]  # the fixture


def test_n_best_is_moses_s(model: Path) -> None:
    found = translate("one two\n\nthree\n", "--model", model, "--n-best", 2, "--align").stdout.splitlines()
    fields = [line.split(" ||| ") for line in found]
    assert [each[0] for each in fields] == ["0", "0", "1", "2", "2"]
    assert all(len(each) == 4 and re.fullmatch(r"-?\d+\.\d{6}", each[2]) for each in fields)
    assert float(fields[0][2]) >= float(fields[1][2])
    assert all(re.fullmatch(r"(\d+-\d+( \d+-\d+)*)?", each[3]) for each in fields)
    plain = translate("one two\n\nthree\n", "--model", model).stdout.splitlines()
    assert plain == [fields[n][1] for n in (0, 2, 3)]


def test_links_stand_behind_a_tab(model: Path) -> None:
    found = translate("one two three\n\n", "--model", model, "--align").stdout.split("\n")
    text, linked = found[0].split("\t")
    assert found[1:] == ["\t", ""]
    for i, j in (map(int, link.split("-")) for link in linked.split()):
        assert 0 <= i < 3
        assert 0 <= j < len(text.split())


def test_a_draw_follows_from_seed_and_line(model: Path) -> None:
    many = translate("".join(f"{line}\n" for line in LINES[:6]), "--model", model, "--sample", "--seed", 4).stdout
    again = translate("".join(f"{line}\n" for line in LINES[:4]), "--model", model, "--sample", "--seed", 4).stdout
    other = translate("".join(f"{line}\n" for line in LINES[:4]), "--model", model, "--sample", "--seed", 5).stdout
    assert many.startswith(again)
    assert again != other


def test_a_prefix_for_each_line(model: Path, tmp_path: Path) -> None:
    given = tmp_path / "prefix"
    given.write_text("three\n\none tw\n")
    found = translate("one\ntwo\nthree\n", "--model", model, "--prefix", given).stdout.splitlines()
    assert [line.startswith(start) for line, start in zip(found, ["three", "", "one tw"], strict=True)] == [True] * 3
    short = translate("one\n" * 5, "--model", model, "--prefix", given)
    assert (short.exit_code, short.stderr.count("\n")) == (2, 1)
    assert "prefix: ends before line 4 of standard input" in short.stderr
    long = translate("one\n", "--model", model, "--prefix", given)
    assert (long.exit_code, long.stdout.count("\n")) == (2, 1)
    assert "has more lines than standard input" in long.stderr


def test_tags_are_carried(model: Path) -> None:
    found = translate("one <b>two</b> three<br/>\none two three\nodd <b>one\n", "--model", model, "--markup")
    marked, plain, odd = found.stdout.splitlines()
    assert re.sub("<[^>]*>", "", marked) == plain
    assert sorted(re.findall("<[^>]*>", marked)) == ["</b>", "<b>", "<br/>"]
    assert odd.count("<b>") == 1
    assert found.stderr == "regard: line 3: <b> has no partner and stands alone\n"


def test_a_pipe_that_stays_open_is_answered_line_by_line_and_interrupted_in_silence(model: Path) -> None:
    command = [sys.executable, "-m", "regard.cli", "translate", "--threads", "1", "--model", str(model), "--beam", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        for line in (b"one two\n", b"\n", b"three\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")  # before anything else comes
        process.stdin.write(b"no end to this li")
        process.stdin.flush()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_does_not_grow_with_the_input(model: Path) -> None:
    """The peak after 6,000 lines is the peak after 1,000: a block is read, translated and forgotten."""
    command = [sys.executable, "-m", "regard.cli", "translate", "--threads", "1", "--model", str(model)]
    command += ["--beam", "1", "--longest", "1"]
    peaks = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        for _ in range(6):
            for _ in range(5):
                process.stdin.write(b"one two three\n" * 200)
                process.stdin.flush()
                for _ in range(200):
                    process.stdout.readline()
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks.append(int(status.split("VmHWM:")[1].split()[0]))
        process.stdin.close()
        assert process.wait(60) == 0
    assert peaks[-1] - peaks[0] < 4096  # kB


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--top-k", 3], "top_k: found 3 without --sample"),
        (["--sample", "--beam", 2], "beam: found 2 beside --sample"),
        (["--sample", "--temperature", 0], "temperature: found 0.0, wanted a number above 0"),
        (["--sample", "--top-p", 2], "top_p: found 2.0"),
        (["--n-best", 0], "n-best: found 0"),
        (["--n-best", 4, "--beam", 2], "n-best: found 4, the beam keeps 2; give --beam 4"),
        (["--length", "short"], "length: found 'short', wanted power or wu"),
        (["--coverage", -1], "coverage: found -1.0"),
        (["--normalise", "nan"], "normalise: found nan"),
        (["--longest", 0], "longest: found 0"),
        (["--unknown", "keep"], "unknown: found 'keep', wanted avoid or copy"),
    ],
)
def test_values_that_cannot_be(args: list[object], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused before a line is read or a model is loaded."""
    with pytest.raises(SystemExit) as stopped:
        app(["translate", *map(str, args)])
    error = capsys.readouterr().err
    assert (stopped.value.code, error.count("\n")) == (2, 1)
    assert said in error
