"""Training: it learns, it stops and goes on with nothing lost, and it refuses what is not its run."""

from __future__ import annotations

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
from regard.translate.training import exam, learner
from regard.translate.training.claim import claim
from regard.translate.training.learner import Learner, Step
from regard.translate.training.run import Outcome, train
from regard.translate.training.settings import Settings
from regard.translate.translator import Translator

from ..conftest import Toy


def run(toy: Toy, out: Path, settings: Settings | None = None, **options: object) -> Outcome:
    return train(*toy.files, out, settings or toy.settings, threads=1, **options)  # type: ignore[arg-type]


def weights(out: Path) -> dict[str, torch.Tensor]:
    state = checkpoint.load_state(out)
    assert state is not None
    found: dict[str, torch.Tensor] = {**state["model"], **{f"average {k}": v for k, v in state["average"].items()}}
    return found


def assert_same_weights(a: Path, b: Path) -> None:
    left, right = weights(a), weights(b)
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


class Stopper:
    """A report that stops the run, as Ctrl-C would, after so many updates."""

    def __init__(self, after: int) -> None:
        self.after, self.said = after, list[str]()

    def say(self, text: str) -> None:
        self.said.append(text)

    def step(self, epoch: int, done: int, total: int, loss: float, speed: float) -> None:
        self.after -= 1
        if self.after == 0:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_run_begins_with_the_model_it_is_given(toy: Toy, tmp_path: Path) -> None:
    run(toy, tmp_path / "first")
    still = replace(toy.settings, rate=1e-30, sample=0.0, dropout=0.0, epochs=1)
    run(toy, tmp_path / "second", still, start=tmp_path / "first")
    before, after = (checkpoint.load_model(tmp_path / name) for name in ("first", "second"))
    for name, weight in after[0].state_dict().items():
        torch.testing.assert_close(weight, before[0].state_dict()[name], atol=1e-7, rtol=0)
    assert (after[1].model, after[2].model) == (before[1].model, before[2].model)  # the vocabularies came along


def test_a_run_refuses_another_beginning_and_other_sizes(toy: Toy, tmp_path: Path) -> None:
    run(toy, tmp_path / "first")
    run(toy, tmp_path / "other", replace(toy.settings, seed=2))
    with pytest.raises(RegardError, match="hidden: found 12, the model to begin from has 16"):
        run(
            toy,
            tmp_path / "second",
            replace(toy.settings, sizes={**toy.settings.sizes, "hidden": 12}),
            start=tmp_path / "first",
        )
    with pytest.raises(RegardError, match="model: found transformer, the one to begin from is a bahdanau"):
        run(toy, tmp_path / "second", replace(toy.settings, model="transformer", sizes={}), start=tmp_path / "first")
    run(toy, tmp_path / "third", start=tmp_path / "first")
    with pytest.raises(RegardError, match="from: not what the run"):
        run(toy, tmp_path / "third", start=tmp_path / "other")


def test_plain_epochs_draw_no_pieces(toy: Toy, tmp_path: Path) -> None:
    run(toy, tmp_path / "never", replace(toy.settings, sample=0.0))
    run(toy, tmp_path / "plain", replace(toy.settings, sample=0.5, plain=toy.settings.epochs))
    run(toy, tmp_path / "drawn", replace(toy.settings, sample=0.5, plain=toy.settings.epochs - 1))
    assert_same_weights(tmp_path / "never", tmp_path / "plain")
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "never", tmp_path / "drawn")


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
    settings = replace(toy.settings, epochs=12, patience=0)
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


def test_a_finished_run_is_left_alone(toy: Toy, tmp_path: Path) -> None:
    first = run(toy, tmp_path / "run")
    before = (tmp_path / "run" / "state.pt").stat().st_mtime_ns
    assert run(toy, tmp_path / "run") == first
    assert (tmp_path / "run" / "state.pt").stat().st_mtime_ns == before


@pytest.mark.parametrize(("name", "value"), [("seed", 2), ("rate", 0.02), ("tokenize", "13a")])
def test_other_settings_are_refused_by_name(toy: Toy, tmp_path: Path, name: str, value: object) -> None:
    run(toy, tmp_path / "run", minutes=0.0)
    was = getattr(toy.settings, name)
    with pytest.raises(RegardError, match=rf"{name}: the run in .* was begun with {was}, found {value}"):
        run(toy, tmp_path / "run", replace(toy.settings, **{name: value}))  # type: ignore[arg-type]


def test_other_sizes_and_another_model_are_refused_by_name(toy: Toy, tmp_path: Path) -> None:
    run(toy, tmp_path / "run", minutes=0.0)
    with pytest.raises(RegardError, match=r"hidden: the run in .* was begun with 16, found 17"):
        run(toy, tmp_path / "run", replace(toy.settings, sizes={**toy.settings.sizes, "hidden": 17}))
    with pytest.raises(RegardError, match=r"model: the run in .* was begun with bahdanau, found transformer"):
        run(toy, tmp_path / "run", replace(toy.settings, model="transformer", sizes={}))


def test_other_text_is_refused_by_name(toy: Toy, tmp_path: Path) -> None:
    run(toy, tmp_path / "run", minutes=0.0)
    toy.dev_source.write_text(toy.dev_source.read_text().replace("one", "two", 1))
    with pytest.raises(RegardError, match="dev-src/dev-tgt: not what the run"):
        run(toy, tmp_path / "run")
    toy.source.write_text("one\n" * 211)
    with pytest.raises(RegardError, match="src/tgt: not what the run"):
        run(toy, tmp_path / "run")


def test_a_directory_of_something_else_is_refused(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    with pytest.raises(RegardError, match="not empty and holds no run"):
        run(toy, tmp_path / "photos")
    with pytest.raises(RegardError, match="out: cannot make"):
        run(toy, toy.source)


def test_two_trainings_do_not_share_a_directory(toy: Toy, tmp_path: Path) -> None:
    with claim(tmp_path / "run"), pytest.raises(RegardError, match="another training writes to"):
        run(toy, tmp_path / "run")


def test_long_pairs_are_left_out_and_counted(toy: Toy, tmp_path: Path) -> None:
    report = Stopper(1)
    train(*toy.files, tmp_path / "run", replace(toy.settings, max_length=6), threads=1, report=report)
    assert "longer than 6 pieces" in report.said[0]
    assert "left out 0 " not in report.said[0]
    with pytest.raises(RegardError, match="max_length: no pair is within 2 pieces"):
        run(toy, tmp_path / "other", replace(toy.settings, max_length=2))


def test_patience_ends_a_run(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exam, "bleu", lambda *_: 1.0)
    outcome = run(toy, tmp_path / "run", replace(toy.settings, patience=1))
    assert outcome.finished
    assert len(outcome.history) == 2


def test_a_broken_gradient_is_said(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="rate: the gradient is nan"):
        run(toy, tmp_path / "run", replace(toy.settings, rate=1e30, epochs=9))


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 0), ("rate", 0.0), ("smoothing", 1.0), ("precision", "float8"), ("tokenize", "moses")],
)
def test_settings_that_cannot_be(name: str, value: object) -> None:
    with pytest.raises(RegardError, match=f"{name}: found"):
        replace(Settings(), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "sizes", "said"),
    [
        ("bahdanau", {"hidden": 0}, "hidden: found 0"),
        ("transformer", {"hidden": 8}, "hidden: a transformer has no such size; it has width, heads, layers"),
        ("transformer", {"heads": 3}, "width: found 256, wanted an even number that 3 heads can share"),
        ("transfromer", {}, "model: unknown name 'transfromer'; did you mean 'transformer'"),
    ],
)
def test_sizes_that_cannot_be(model: str, sizes: dict[str, int], said: str) -> None:
    with pytest.raises(RegardError, match=said):
        Settings(model=model, sizes=sizes)


def test_the_rate_climbs_and_falls_to_nothing() -> None:
    rates = [learner._rate(u, 10, u / 100) for u in range(101)]
    assert rates.index(max(rates)) == 9
    assert rates[-1] == 0.0
    assert learner._rate(0, 0, 0.0) == 1.0


@pytest.mark.slow
def test_a_small_task_is_learnt(toy: Toy, tmp_path: Path) -> None:
    """Reversal: what is written first stands last in the source, so the decoder has to look for it."""
    sizes = {"hidden": 32, "embedding": 32, "alignment": 32, "readout": 16}
    settings = replace(toy.settings, sample=0.0, patience=0, epochs=50, batch_tokens=200, sizes=sizes)
    outcome = run(toy, tmp_path / "run", settings)
    assert outcome.best is not None
    assert outcome.best > 90
    found = Translator.load(tmp_path / "run").translate(["two five one"])[0]
    assert found.text == "un cinq deux"
    words = [i for i, piece in enumerate(found.target) if piece.startswith("▁")]
    looks = [found.source[int(found.weights[i].argmax())] for i in words]
    assert looks != sorted(looks, key=lambda piece: found.source.index(piece))  # it looks from right to left
