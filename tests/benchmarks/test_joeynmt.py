"""The race against JoeyNMT: both learn the same, are told so in each one's words, and a peer that stops is heard."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import torch

from benchmarks import joeynmt
from benchmarks.harness.peers import Missing
from benchmarks.harness.row import Line, Row
from benchmarks.harness.setting import Setting
from benchmarks.joey import driver, peer, quality
from benchmarks.joey.config import EMBEDDING_ROWS, configuration, lay
from benchmarks.joey.course import Course, cuts, size_for
from benchmarks.joey.peer import Peer, python
from benchmarks.joey.quality import ENTRANT
from benchmarks.joey.speed import Laps
from benchmarks.joey.weights import EMBEDDINGS, joeys
from benchmarks.translation import corpora
from benchmarks.translation.corpora import Text
from regard.errors import RegardError
from regard.translate.models import architecture
from regard.translate.text.vocabulary import BOS, EOS, PAD, UNK
from regard.translate.training.learner import Learner

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
PAIRS = [(" ".join(WORDS[n % 8 : n % 8 + 1 + n % 5]), " ".join(WORDS[n % 5 : n % 5 + 2])) for n in range(120)]
TOY = Text(PAIRS, PAIRS[:5], PAIRS[7:12], "none", 24, 50)
FAKE = """
import json, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ours may be ignored, as a shell's background jobs have it
order = lambda: json.loads(sys.stdin.readline())["do"]
print(json.dumps({"done": None}), flush=True)
for word in iter(order, "end"):
    print(json.dumps({"say": "hm"}), flush=True)
    if word == "wait":
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            print(json.dumps({"done": "saved"}), flush=True)
    elif word == "die":
        sys.exit("my last word")
    else:
        print(json.dumps({"error": "no"} if word == "bad" else {"done": word}), flush=True)
"""


@pytest.fixture
def course(tmp_path: Path) -> Course:
    settings = ENTRANT.settings(TOY, seed=3, epochs=2, quick=True)
    return Course.of(TOY.write(tmp_path / "text"), settings)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver that knows no JoeyNMT, and the configuration to start it by."""
    script, config = tmp_path / "fake.py", tmp_path / "config.json"
    script.write_text(FAKE)
    config.write_text(f'{{"model_dir": "{tmp_path}"}}')
    monkeypatch.setattr(driver, "__file__", str(script))
    monkeypatch.setattr(peer, "python", lambda: sys.executable)
    return config


def test_a_size_cuts_into_as_many_batches_and_the_next_smaller_into_more() -> None:
    lengths = [1 + n * n % 37 for n in range(500)]
    for batches in (1, 7, 61, 500):
        size = size_for(lengths, batches)
        assert cuts(lengths, size) <= batches
        assert size == 1 or cuts(lengths, size - 1) > batches


def test_the_rates_are_those_of_our_updates(course: Course) -> None:
    settings = course.settings
    learner = Learner(architecture("transformer").model(settings.config(24, 24)), settings)
    found = list[float]()
    for number in range(settings.epochs):
        epoch = course.lessons.epoch(number)
        for batch, pairs in enumerate(epoch.order):
            step = learner.update(epoch.batches([pairs]), len(found) + 1, number + batch / len(epoch))
            found.append(step.rate)
    assert course.rates == found
    assert len(found) == sum(course.updates)


def test_what_it_reads_is_our_pieces_in_its_order(course: Course, tmp_path: Path) -> None:
    config = lay(tmp_path / "joey", course, TOY)
    folder = config.parent
    words = (folder / "vocabulary.txt").read_text().splitlines()
    ours = course.vocabulary.pieces(range(len(course.vocabulary)))
    assert [ours[n] for n in EMBEDDING_ROWS] + words == ["<unk>", "<pad>", "<s>", "</s>", *ours[4:]]
    assert EMBEDDING_ROWS == (UNK, PAD, BOS, EOS)
    for part, pairs in (("train", TOY.train), ("dev", TOY.dev)):
        for side, name in enumerate(("src", "tgt")):
            lines = (folder / f"{part}.{name}").read_text().splitlines()
            assert [line.replace(" ", "").replace("▁", " ").strip() for line in lines] == [p[side] for p in pairs]
            assert all(set(line.split()) <= set(words) for line in lines)
    assert not (folder / "test.tgt").exists()  # what it may not see


def test_it_is_told_our_sizes(course: Course, tmp_path: Path) -> None:
    told = configuration(tmp_path, course, "none")
    assert told["training"]["updates"] == sum(course.updates)
    assert told["training"]["label_smoothing"] == course.settings.smoothing
    half = told["model"]["decoder"]
    sizes = course.settings.sizes
    assert (half["hidden_size"], half["num_heads"], half["num_layers"], half["ff_size"], half["layer_norm"]) == tuple(
        sizes[name] for name in ("width", "heads", "layers", "feed", "norm")
    )


def test_every_weight_has_one_name_there_and_special_pieces_change_places(course: Course) -> None:
    size = len(course.vocabulary)
    net = architecture("transformer").model(course.settings.config(size, size))
    ours = net.state_dict()
    theirs = joeys(ours)
    assert len(theirs) == len(ours) - 1 + len(EMBEDDINGS)
    places = {tensor.data_ptr(): each for each, tensor in ours.items()}
    assert {places[t.data_ptr()] for each, t in theirs.items() if each not in EMBEDDINGS} | {
        "target_embedding.weight"
    } == set(ours)
    table, mine = theirs["src_embed.lut.weight"], ours["target_embedding.weight"]
    for ours_at, theirs_at in ((UNK, 0), (PAD, 1), (BOS, 2), (EOS, 3), (4, 4), (size - 1, size - 1)):
        assert torch.equal(table[theirs_at], mine[ours_at])


def test_a_ratio_is_that_of_work_a_second_within_a_round() -> None:
    laps = Laps(ours=[(1.0, 30.0), (2.0, 40.0), (1.0, 10.0)], theirs=[(2.0, 20.0), (4.0, 20.0), (1.0, 20.0)])
    row = laps.row("work", Setting(), None, "", "pieces/s")
    assert (row.value, row.low, row.high, row.ours, row.theirs) == (3.0, 0.5, 4.0, 20.0, 10.0)


def test_a_peer_is_heard_in_all_that_it_says(fake: Path) -> None:
    heard: list[str] = []
    with Peer(fake) as found:
        assert found.ask({"do": "something"}, heard.append) == "something"
        with pytest.raises(RuntimeError, match="no"):
            found.ask({"do": "bad"})
        with pytest.raises(RuntimeError, match="my last word"):
            found.ask({"do": "die"})
        with pytest.raises((RuntimeError, BrokenPipeError)):  # and not a wait without end
            found.ask({"do": "more"})
    assert heard == ["hm"]


def test_a_signal_reaches_the_peer_and_its_answer_is_awaited(fake: Path) -> None:
    with Peer(fake) as found:
        said: list[str] = []

        def heard(text: str) -> None:  # it is at work now
            said.append(text)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()

        with pytest.raises(KeyboardInterrupt):
            found.ask({"do": "wait"}, heard)
        assert found.process.poll() is None
        assert found.ask({"do": "more"}) == "more"
    assert found.process.returncode is not None


def test_names_and_a_peer_that_is_not_there_are_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(peer.VARIABLE, str(tmp_path / "python"))
    with pytest.raises(Missing, match=r"REGARD_JOEYNMT: found .*wanted the path of a Python"):
        python()
    with pytest.raises(RegardError, match="--corpus: unknown name 'multi40k'"):
        joeynmt.learn("multi40k", logs=tmp_path)
    with pytest.raises(RegardError, match="--model: unknown name 'joey'"):
        joeynmt.learn("multi30k-en-fr", "regard,joey", logs=tmp_path)
    with pytest.raises(RegardError, match="--epochs: found 0"):
        joeynmt.learn("multi30k-en-fr", epochs=0, logs=tmp_path)
    monkeypatch.setitem(corpora.CORPORA, "toy", lambda: TOY)
    with pytest.raises(RegardError, match="REGARD_JOEYNMT"):
        joeynmt.learn("toy", logs=tmp_path)


@pytest.mark.slow
def test_both_are_trained_and_scored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        python()
    except Missing as missing:
        pytest.skip(str(missing))
    monkeypatch.setitem(corpora.CORPORA, "toy", lambda: TOY)
    monkeypatch.setattr(Text, "quick", lambda self: self)
    heard: list[str] = []
    found = [*joeynmt.learn("toy", logs=tmp_path)(Setting(quick=True), heard.append)]
    lines = [each for each in found if isinstance(each, Line)]
    assert [line.cells["model"] for line in lines] == [quality.AVERAGE, quality.LAST, quality.BEST, quality.LATEST]
    assert len({(line.cells["parameters"], line.cells["updates"]) for line in lines}) == 1
    rows = [each for each in found if isinstance(each, Row)]
    assert [str(row.goal) for row in rows if row.goal] == ["≥ -0.5", "≥ 1.5", "≥ 3"]
    assert [row.problem for row in rows if row.problem] == []
    assert rows[-1].work == "– translations that are the same"
    heard.clear()
    again = [*joeynmt.learn("toy", "regard", logs=tmp_path)(Setting(quick=True), heard.append)]
    assert [*again, *joeynmt.learn("toy", "joeynmt", logs=tmp_path)(Setting(quick=True), heard.append)] == lines
    assert heard == []
