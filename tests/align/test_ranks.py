"""Several processes on one corpus: parts that are everything, and tables and links that are those of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from regard.align.fertility.places import Tops
from regard.align.ranks import Alone, Ranks, ranks, under_torchrun
from regard.align.saved import Saved
from regard.cli.main import app
from tests.align.exhaustive import corpus, random_corpus


@given(st.integers(0, 2**32 - 1), st.integers(0, 37), st.integers(1, 11))
def test_parts_are_everything_once_in_order(seed: int, sentences: int, size: int) -> None:
    text = random_corpus(np.random.default_rng(seed), sentences, 9)
    parts = [Ranks(rank, size).part(text) for rank in range(size)]
    assert [s for first, last in parts for s in range(first, last)] == list(range(sentences))


def test_parts_are_of_about_equal_work() -> None:
    text = corpus(*[("a b c", "x y")] * 100)
    assert [Ranks(rank, 4).part(text) for rank in range(4)] == [(0, 25), (25, 50), (50, 75), (75, 100)]


@pytest.mark.parametrize(("given", "several"), [({}, False), ({"RANK": "0"}, False), ({"WORLD_SIZE": "2"}, False)])
def test_alone_without_torchrun(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], several: bool) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert under_torchrun() is several
    assert ranks() == Alone()


@given(st.integers(0, 2**32 - 1), st.integers(0, 37), st.integers(1, 5))
def test_what_is_kept_of_climbing_is_all_that_any_process_knows(seed: int, sentences: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    text = random_corpus(rng, sentences, 9)
    side, told = text.target, []
    truth = rng.integers(-1, 9, len(side.tokens)).astype(np.int16)
    for rank in range(size):
        part = Ranks(rank, size).part(text)
        begin, end = side.offsets[list(part)].tolist()
        own = Tops.none(side).places
        own[begin:end] = truth[begin:end]
        told.append(Tops(side, own).gathered(part, lambda mine: mine).places)
    assert (sum(told, np.zeros_like(truth)) == truth).all()


def launched(*args: object) -> subprocess.CompletedProcess[bytes]:
    """The command in two processes under torchrun, over the loopback."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "regard"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*start, *command(args)], capture_output=True, timeout=300, env=env)


def alone(*args: object) -> bytes:
    """What the same command prints in this process."""
    done = CliRunner().invoke(app, command(args))
    assert done.exit_code == 0, done.stderr
    return done.stdout_bytes


def command(args: tuple[object, ...]) -> list[str]:
    return ["align", "--model", "agreement", "--threads", "1", *map(str, args)]


@pytest.mark.slow
def test_two_processes_are_one(tmp_path: Path) -> None:
    """Tables to 1e-6, the same links, each said once; three sentences leave one of four processes without any."""
    text = random_corpus(np.random.default_rng(2), 97, 9, words=(31, 37))
    lines = [b" ||| ".join(b" ".join(side.sentence(s)) for side in (text.source, text.target)) for s in range(97)]
    path = tmp_path / "text"
    path.write_bytes(b"\n".join([*lines, b"a " * 12 + b"||| b", b""]))
    options = (path, "--longest", 11)
    one = alone(*options, "--save", tmp_path / "one", "--spool", tmp_path / "spool one")
    two = launched(*options, "--save", tmp_path / "two", "--spool", tmp_path / "spool two")
    assert two.returncode == 0, two.stderr.decode()
    assert one == two.stdout
    assert one.count(b"\n") == 98
    assert two.stderr.count(b"a sentence of more than 11 words") == 1
    assert two.stderr.count(b"8/8 hmm") == 1
    first, other = (Saved.of(tmp_path / name).arrays for name in ("one", "two"))
    assert list(first) == list(other)
    for name, array in first.items():
        np.testing.assert_allclose(array, other[name], atol=1e-6, err_msg=name)
    assert len(first["forward.table"]) > 300


@pytest.mark.slow
def test_what_is_drawn_is_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a b ||| x y\na ||| x\n")
    two = launched(path, "--model", "best")
    assert two.returncode == 0, two.stderr.decode()
    assert two.stderr.count(b"under torchrun nothing is drawn") == 1
    assert two.stdout == alone(path)


@pytest.mark.slow
def test_more_processes_than_sentences(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a b ||| x y\n")
    two = launched(path, "--probabilities")
    assert two.returncode == 0, two.stderr.decode()
    assert two.stdout == alone(path, "--probabilities")
