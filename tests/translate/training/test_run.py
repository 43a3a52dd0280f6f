"""Training: it learns, and it refuses what is not its run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.errors import RegardError
from regard.translate import checkpoint
from regard.translate.training import exam
from regard.translate.training.claim import claim
from regard.translate.training.run import train
from regard.translate.training.settings import Settings
from regard.translate.translator import Translator

from ..conftest import Toy
from .runs import Stopper, assert_same_weights, run


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
    assert outcome.best == 1.0
    assert len(outcome.history) == 2


def test_a_run_can_stop_on_the_loss(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BLEU rises without end; the dev loss has its least at the second epoch, whose weights are kept."""
    losses, scores, kept = iter([3.0, 2.0, 2.5, float("nan")]), iter(range(9)), list[int]()
    monkeypatch.setattr(exam, "bleu", lambda *_: float(next(scores)))
    monkeypatch.setattr(exam.Exam, "loss", lambda *_: next(losses))
    monkeypatch.setattr(checkpoint, "save_model", lambda *_: kept.append(len(kept)))
    outcome = run(toy, tmp_path / "run", replace(toy.settings, patience=2, epochs=9, stop_on="loss"))
    assert outcome.finished
    assert outcome.best == 2.0
    assert [line["dev_loss"] for line in outcome.history][:3] == [3.0, 2.0, 2.5]
    assert len(outcome.history) == 4
    assert kept == [0, 1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("rate", 0.0),
        ("rate", float("nan")),
        ("smoothing", 1.0),
        ("precision", "float8"),
        ("tokenize", "moses"),
        ("accumulate", 0),
        ("clip", -1.0),
        ("stop_on", "ter"),
    ],
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


@pytest.mark.slow
def test_a_small_task_is_learnt(toy: Toy, tmp_path: Path) -> None:
    """Reversal: what is written first stands last in the source, so the decoder has to look for it."""
    sizes = {"hidden": 32, "embedding": 32, "alignment": 32, "readout": 16}
    settings = replace(toy.settings, sample=0.0, patience=0, epochs=50, batch_tokens=200, sizes=sizes)
    outcome = run(toy, tmp_path / "run", settings)
    assert outcome.best is not None
    assert outcome.best > 90
    course = [line["entropy"][0][0] for line in outcome.history]
    assert course[0] > 0.9  # little is learnt yet: nearly everywhere alike
    assert course[-1] < course[0] - 0.3  # each word has one counterpart, and it is found
    found = Translator.load(tmp_path / "run").translate(["two five one"])[0]
    assert found.text == "un cinq deux"
    words = [i for i, piece in enumerate(found.target) if piece.startswith("▁")]
    looks = [found.source[int(found.weights[i].argmax())] for i in words]
    assert looks != sorted(looks, key=lambda piece: found.source.index(piece))  # it looks from right to left
