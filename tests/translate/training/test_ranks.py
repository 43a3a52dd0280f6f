"""Several processes that train one model: shares that are everything, and a run that is the run of one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.translate import checkpoint
from regard.translate.text.corpus import read_parallel
from regard.translate.training.learner import Learner
from regard.translate.training.lessons import Lessons
from regard.translate.training.ranks import Alone, Ranks, ranks, share

from ..conftest import Toy
from .runs import assert_same_weights, run, weights
from .two import plain, watched


@given(st.lists(st.lists(st.integers(0, 97), min_size=1, max_size=11), max_size=11), st.integers(1, 7))
def test_shares_are_everything_once(batches: list[list[int]], size: int) -> None:
    shares = [share(batches, rank, size) for rank in range(size)]
    assert sorted(n for own in shares for part in own for n in part) == sorted(n for each in batches for n in each)
    assert all(part for own in shares for part in own)
    assert share(batches, 0, 1) == batches


def test_shares_are_of_about_equal_work() -> None:
    batches = [[*range(100 * n, 100 * n + 100)] for n in range(7)]
    for size in (2, 3, 4, 5):
        counts = [sum(map(len, share(batches, rank, size))) for rank in range(size)]
        assert max(counts) - min(counts) <= len(batches) % size


def test_alone_without_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with ranks() as group:
        assert group == Alone()


def test_no_two_processes_draw_alike() -> None:
    drawn = []
    for rank, update in ((0, 1), (1, 1), (0, 2), (0, 1)):
        Ranks(rank, 2).seed(5, update)
        drawn.append(torch.rand(7).tolist())
    assert drawn[0] == drawn[3]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


def launched(folder: Path) -> subprocess.CompletedProcess[str]:
    """The module two in two processes under torchrun, over the loopback."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*start, "-m", "tests.translate.training.two", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)


@pytest.mark.slow
def test_two_processes_are_one(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses to 1e-5 for 50 updates; stopped by a signal to the second one, the very weights that it would have had."""
    settings = replace(toy.settings, dropout=0.0, accumulate=3, batch_tokens=40, epochs=2)
    (tmp_path / "settings.json").write_text(json.dumps(settings.to_dict()))
    (tmp_path / "options.json").write_text(json.dumps([*toy.options(tmp_path / "none"), "--rate", "0"]))
    done = launched(tmp_path)
    monkeypatch.setattr(Learner, "update", plain)  # and back again at the end
    losses = watched()
    one = run(toy, tmp_path / "one", settings)
    two = json.loads((tmp_path / "losses.json").read_text())
    assert one.updates == len(losses) == len(two) >= 50
    torch.testing.assert_close(torch.tensor(two), torch.tensor(losses), atol=1e-5, rtol=0)
    assert losses[-1] < losses[0] - 0.5
    ours, theirs = weights(tmp_path / "one"), weights(tmp_path / "two")
    for name in ours:
        torch.testing.assert_close(theirs[name], ours[name], atol=1e-4, rtol=0, msg=name)
    history = [json.loads((tmp_path / name / "history.json").read_text())["epochs"] for name in ("one", "two")]
    assert [line["bleu"] for line in history[0]] == [line["bleu"] for line in history[1]]
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "whole", tmp_path / "two")
    assert done.returncode != 0  # the last that was asked of them cannot be, which is told once
    assert re.findall("regard: error: .*", done.stderr) == ["regard: error: rate: found 0.0, wanted a number above 0"]

    def told(name: str, rank: int) -> str:
        """What a run that failed in both processes said in this one; the other has to know that it need not."""
        assert (tmp_path / f"{name} {1 - rank}").read_text().startswith("Elsewhere ")
        return (tmp_path / f"{name} {rank}").read_text()

    assert re.match(r"RegardError corpus: cannot read .*none.en: No such file", told("nowhere", 1))
    assert re.match(r"RegardError src/tgt.*: process 1 found other text than the first one", told("other", 0))
    first = told("broken", 0)  # an infinity in the second process
    assert re.match(r"RegardError rate: update 1 met a number that is not finite, first in the loss, -?inf", first)
    text, pieces = read_parallel(toy.source, toy.target), checkpoint.load_config(tmp_path / "one")
    source, target = checkpoint.load_vocabularies(tmp_path / "one", pieces)
    lessons = Lessons(text, source, target, settings, (toy.source, toy.target))
    met = share(lessons.epoch(0).order[:3], 1, 2)
    assert len(met) == 2
    assert lessons.where(met[:1]) in first  # the second process's first batch
    assert (tmp_path / "broken" / "state.pt").exists()
