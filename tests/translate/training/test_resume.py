"""A training stops anywhere and goes on with nothing lost: it ends with the weights it would have had."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import RegardError
from regard.translate import checkpoint
from regard.translate.training.learner import Learner, Step
from regard.translate.training.run import train
from regard.translate.translator import Translator

from ..conftest import Toy
from .runs import Stopper, assert_same_weights, run


def test_stopped_anywhere_it_ends_with_the_very_weights(toy: Toy, tmp_path: Path) -> None:
    whole = run(toy, tmp_path / "whole")
    assert whole.finished
    outcome = None
    for after in (1, 4, 10, 3, 10**9):  # within the first epoch, across its end, and to the end
        outcome = train(*toy.files, tmp_path / "parts", toy.settings, threads=1, report=Stopper(after))
    assert outcome is not None
    assert outcome.finished
    assert outcome.updates == whole.updates
    assert [h["bleu"] for h in outcome.history] == [h["bleu"] for h in whole.history]
    assert [h["loss"] for h in outcome.history] == [h["loss"] for h in whole.history]
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize(
    ("optimiser", "schedule", "numbers"),
    [
        ("adam", "inverse-sqrt", {"beta2": 0.98, "eps": 1e-9}),
        ("adamw", "linear", {"weight_decay": 0.1}),
        ("adadelta", "constant", {}),
        ("sgd", "halving", {"momentum": 0.9}),
        ("adagrad", "cosine", {}),
        ("rmsprop", "cosine", {"momentum": 0.5}),
        ("nadam", "linear", {}),
        ("radam", "constant", {}),
    ],
)
def test_so_does_each_optimiser_and_schedule_over_accumulated_batches(
    toy: Toy, tmp_path: Path, optimiser: str, schedule: str, numbers: dict[str, float]
) -> None:
    """Stopped after the first update and after the third, in the middle of what the optimiser has learnt."""
    settings = replace(
        toy.settings,
        optimiser=optimiser,
        optimiser_numbers=numbers,
        rate=None,
        schedule=schedule,
        schedule_numbers={"halve_after": 0.5, "halve_every": 0.3} if schedule == "halving" else {},
        accumulate=2,
        epochs=1,
        sample=0.0,
    )
    whole = run(toy, tmp_path / "whole", settings)
    assert whole.updates >= 4
    for after in (1, 2, 10**9):
        outcome = run(toy, tmp_path / "parts", settings, report=Stopper(after))
    assert outcome.updates == whole.updates
    assert outcome.history[0]["loss"] == whole.history[0]["loss"]
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


def test_a_transformer_stops_and_goes_on_too(toy: Toy, tmp_path: Path) -> None:
    sizes = {"width": 14, "heads": 7, "layers": 3, "feed": 11}
    settings = replace(toy.settings, model="transformer", sizes=sizes)
    whole = run(toy, tmp_path / "whole", settings)
    for after in (1, 11, 10**9):
        outcome = train(*toy.files, tmp_path / "parts", settings, threads=1, report=Stopper(after))
    assert outcome.history[-1]["loss"] == whole.history[-1]["loss"]
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")
    found = Translator.load(tmp_path / "parts").translate(["one two three"], padding=2)[0]
    assert found.weights.shape == (len(found.target), len(found.source))  # the mean over layers and heads
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(len(found.target)))
    assert found.on_padding == 0.0


def test_a_run_that_stops_between_saves_repeats_from_the_last(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(toy, tmp_path / "whole")
    true, left = Learner.update, [13]

    def dies(self: Learner, *args: Any) -> Step:
        left[0] -= 1
        if left[0] == 0:
            raise KeyError("the power went")
        return true(self, *args)

    monkeypatch.setattr(Learner, "update", dies)
    with pytest.raises(KeyError):
        run(toy, tmp_path / "parts", save_every=0.0)
    assert run(toy, tmp_path / "parts").updates == whole.updates
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


def test_a_full_disk_stops_the_run_and_it_goes_on_from_the_save_before(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third save of the state finds no room, as it is flushed: one line, and nothing that was there is lost."""
    whole = run(toy, tmp_path / "whole")
    true, saves = os.fsync, []

    def full(number: int) -> None:
        if os.readlink(f"/proc/self/fd/{number}").endswith(".state.pt.new"):
            saves.append(number)
            if len(saves) > 3:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        true(number)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(RegardError, match=r"cannot write .*state\.pt: No space left on device; the file of before"):
            run(toy, tmp_path / "parts", save_every=0.0)
    state = checkpoint.load_state(tmp_path / "parts")
    assert state is not None
    assert state["position"]["updates"] == 2  # saved before the first update, and after each
    assert run(toy, tmp_path / "parts").updates == whole.updates
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


def test_a_run_of_another_format_is_refused_by_name(toy: Toy, tmp_path: Path) -> None:
    run(toy, tmp_path / "run", minutes=0.0)
    path = tmp_path / "run" / "run.json"
    begun = json.loads(path.read_text())
    path.write_text(json.dumps({**begun, "format": 97}))
    with pytest.raises(
        RegardError, match=r"out: .*run\.json is of format 97, this version of regard has 1; go on with"
    ):
        run(toy, tmp_path / "run")


def test_the_first_interrupt_saves_and_says_so(toy: Toy, tmp_path: Path) -> None:
    report = Stopper(2)
    before = signal.getsignal(signal.SIGINT)
    outcome = train(*toy.files, tmp_path / "run", toy.settings, threads=1, report=report)
    assert not outcome.finished
    assert outcome.updates == 2
    assert "saved at update 2" in report.said[-1]
    assert signal.getsignal(signal.SIGINT) == before
    assert Translator.load(tmp_path / "run").translate(["one two"])[0].text is not None


def test_the_time_limit_saves(toy: Toy, tmp_path: Path) -> None:
    outcome = run(toy, tmp_path / "run", minutes=0.0)
    assert not outcome.finished
    assert outcome.updates == 1
    assert run(toy, tmp_path / "run").finished


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_as_many_updates(toy: Toy, tmp_path: Path) -> None:
    settings = replace(toy.settings, epochs=12, patience=0, accumulate=2, schedule="inverse-sqrt")
    whole = run(toy, tmp_path / "whole", settings)
    out = tmp_path / "killed"
    program = (
        "import sys; from pathlib import Path; from regard.translate.training.settings import Settings; "
        "from regard.translate.training.run import train; p = [Path(x) for x in sys.argv[1:6]]; "
        f"train(*p, settings=Settings(**{settings.to_dict()!r}), threads=1, save_every=0.0)"
    )
    # Seeded by the clock: other moments each time.
    moments = torch.empty(3).uniform_(0.0, 0.6, generator=torch.Generator().manual_seed(time.time_ns() % 2**31))
    reached = []
    for after in moments.tolist():
        before = written(out)
        child = subprocess.Popen([sys.executable, "-c", program, *map(str, toy.files), str(out)])
        while written(out) == before and child.poll() is None:  # until it makes updates
            time.sleep(0.005)
        time.sleep(after)
        child.kill()
        child.wait(timeout=30)
        state = checkpoint.load_state(out)
        assert state is not None
        reached.append(state["position"]["updates"])
    assert reached == sorted(reached)
    outcome = run(toy, out, settings)
    assert outcome.finished
    assert outcome.updates == whole.updates
    assert_same_weights(tmp_path / "whole", out)
    assert Translator.load(out).translate(["one two"])[0].source[-1] == "</s>"


def written(out: Path) -> int:
    """When the state was last saved; 0: never."""
    return (out / "state.pt").stat().st_mtime_ns if (out / "state.pt").exists() else 0
