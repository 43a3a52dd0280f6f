"""The comparison of translators: texts are parted, scores are sacrebleu's, chance is a paired bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from benchmarks import translate
from benchmarks.harness.row import Line, Spot
from benchmarks.harness.setting import Setting
from benchmarks.translation import comparison
from benchmarks.translation.corpora import CORPORA, Text, parted, text
from benchmarks.translation.entrants import ENTRANTS, entrant
from benchmarks.translation.scores import BANDS, Counts, ahead, interval
from regard.errors import RegardError

REFERENCES = ["the cat sat on the mat", "a dog runs home", "we see two birds in a tree", "go"] * 11
CLOSE = ["the cat sat on a mat", "a dog runs", "we see birds in a tree", "go"] * 11
FAR = ["cat mat", "the dog is", "two trees see a bird", "no"] * 11


def test_a_source_is_in_one_part_alone_and_nothing_is_lost() -> None:
    pairs = [(f"line {n % 300}", f"ligne {n}") for n in range(900)]
    parts = parted(pairs, 7)
    assert sorted(pair for part in parts for pair in part) == sorted(pairs)
    sources = [{a for a, _ in part} for part in parts]
    assert len(sources[0] | sources[1] | sources[2]) == sum(map(len, sources))
    assert all(sources)
    assert parted(pairs[::-1], 7)[1] == parts[1][::-1]  # where a pair goes is its own affair


@pytest.mark.parametrize("said", [CLOSE, FAR, REFERENCES])
@pytest.mark.parametrize("tokenize", ["13a", "none", "zh"])
def test_counts_add_up_to_the_corpus_score(said: list[str], tokenize: str) -> None:
    counts = Counts.of(said, REFERENCES, tokenize)
    whole = BLEU(tokenize=tokenize, force=True)
    assert counts.bleu() == pytest.approx(whole.corpus_score(said, [REFERENCES]).score, abs=1e-9)
    chosen = [0, 2, 5, 7]
    some = whole.corpus_score([said[n] for n in chosen], [[REFERENCES[n] for n in chosen]]).score
    assert counts.part(chosen).bleu() == pytest.approx(some, abs=1e-9)
    twice = np.bincount([0, 0, 2], minlength=len(said)).astype(float)
    drawn = whole.corpus_score([said[0], said[0], said[2]], [[REFERENCES[0], REFERENCES[0], REFERENCES[2]]]).score
    assert counts.bleu(twice) == pytest.approx(drawn, abs=1e-9)


def test_chance_cannot_part_what_is_the_same_and_does_not_hide_what_is_not() -> None:
    close, far = (Counts.of(said, REFERENCES, "none") for said in (CLOSE, FAR))
    assert ahead(close, close, 50) == (0.0, 0.0, 0.0)
    gap, low, high = ahead(close, far, 200)
    assert 0 < low < gap < high
    low, high = interval(close, 200)
    assert low < close.bleu() < high


def test_bands_part_the_lengths() -> None:
    lines = [" ".join("w" * n) for n in range(1, 60)]
    assert sorted(n for band in BANDS for n in band.of(lines)) == list(range(59))


@pytest.mark.parametrize("name", CORPORA)
def test_what_is_asked_was_not_learnt(name: str, corpus: Callable[[str], Path], data_dir: Path) -> None:
    corpus("multi30k")  # skips, or fails in CI, where the data is not there
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_DATA", str(data_dir))
        found = text(name)
    assert min(len(found.train), len(found.dev), len(found.test)) > 500
    learnt = {a for a, _ in found.train}
    repeated = sum(a in learnt for a, _ in found.test)
    assert repeated <= (0.03 * len(found.test) if name.startswith("multi30k") else 0), repeated


def test_every_entrant_has_settings_that_can_be() -> None:
    little = Text([], [], [], "none", 100, 50)
    for each in ENTRANTS.values():
        assert each.settings(little, seed=3, epochs=7).seed == 3


def test_unknown_names_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"corpus": "multi40k"}, "--corpus: unknown name 'multi40k'"),
        ({"corpus": "multi30k-en-fr", "model": "bahdanu"}, "--model: unknown name 'bahdanu'"),
        ({"corpus": "multi30k-en-fr", "epochs": 0}, "--epochs: found 0"),
        ({"corpus": "multi30k-en-fr", "seeds": "x"}, "--seeds: found 'x'"),
    )
    for options, wanted in cases:
        with pytest.raises(RegardError, match=wanted):
            translate.learn(**options, logs=tmp_path)


def test_it_trains_tells_and_does_not_train_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    pairs = [(" ".join(words[n % 8 : n % 8 + 1 + n % 5]), " ".join(words[n % 5 : n % 5 + 2])) for n in range(120)]
    small = Text(pairs, pairs[:7], [*pairs[:31], *[(f"{'one ' * 12}{n}", "two") for n in range(30)]], "none", 20, 50)
    monkeypatch.setattr(comparison, "text", lambda name: small)
    monkeypatch.setattr(Text, "quick", lambda self: self)
    heard: list[str] = []
    rows = [*translate.learn("toy", "bahdanau,transformer", logs=tmp_path)(Setting(quick=True), heard.append)]
    lines = [row for row in rows if isinstance(row, Line)]
    assert [line.cells["model"] for line in lines] == ["bahdanau", "transformer"]
    assert {spot.x for spot in rows if isinstance(spot, Spot)} == {5.0, 14.5}
    assert any("bahdanau-1: epoch 1/1" in line for line in heard)
    heard.clear()
    again = [*translate.learn("toy", "bahdanau,transformer", logs=tmp_path)(Setting(quick=True), heard.append)]
    assert again == rows
    assert heard == []


def test_an_entrant_by_name() -> None:
    assert entrant("bahdanau").looks
