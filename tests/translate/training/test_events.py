"""Events for TensorBoard, read back by TensorBoard: every step once, however often the run was stopped."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.translate import checkpoint
from regard.translate.training import events
from regard.translate.training.learner import Learner, Step

from ..conftest import Toy
from .runs import Stopper, run

there = pytest.mark.skipif(not events.installed() and not os.environ.get("CI"), reason="tensorboard is not installed")


def read(directory: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    found.Reload()
    return {name: [(each.step, each.value) for each in found.Scalars(name)] for name in found.Tags()["scalars"]}


@there
def test_every_step_is_there_once_after_stops_and_a_death(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, out = replace(toy.settings, epochs=2, sample=0.0), tmp_path / "run"
    true, left = Learner.update, [4]

    def dies(self: Learner, *args: object) -> Step:
        left[0] -= 1
        if left[0] == 0:
            raise KeyError("the power went")
        return true(self, *args)  # type: ignore[arg-type]

    run(toy, out, settings, events=tmp_path / "events", report=Stopper(3))
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", dies)
        with pytest.raises(KeyError):
            run(toy, out, settings, events=tmp_path / "events")
    state = checkpoint.load_state(out)
    assert state is not None
    assert state["position"]["updates"] == 3  # updates 4 to 6 are told and not saved
    assert read(tmp_path / "events")["train/loss"][-1][0] == 6
    outcome = run(toy, out, settings, events=tmp_path / "events")
    found = read(tmp_path / "events")
    for name in ("loss", "rate", "gradient norm", "pieces a second"):
        assert [step for step, _ in found[f"train/{name}"]] == list(range(1, outcome.updates + 1)), name
    last = [line["updates"] for line in outcome.history]
    for name, key in (("dev/BLEU", "bleu"), ("dev/loss", "dev_loss")):
        assert [step for step, _ in found[name]] == last
        assert [value for _, value in found[name]] == pytest.approx([line[key] for line in outcome.history])
    assert [step for step, _ in found["entropy/layer 1 head 1"]] == last
    rates = [
        settings.peak * settings.course(n, (n - 1) * 2 / outcome.updates, 2) for n in range(1, outcome.updates + 1)
    ]
    assert [value for _, value in found["train/rate"]] == pytest.approx(rates, rel=1e-5)


def test_it_is_said_where_tensorboard_is_missing(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "installed", lambda: False)
    with pytest.raises(RegardError, match=r"events: tensorboard is not installed; pip install 'regard\[train\]'"):
        run(toy, tmp_path / "run", events=tmp_path / "events")
    assert not (tmp_path / "run").exists()
