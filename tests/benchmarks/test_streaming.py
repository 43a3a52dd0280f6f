"""The model of the stream: read byte by byte through a memory it gives what it gives read at once; training goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.stream import train as trainer
from benchmarks.stream.model import SCORE, Model, Sizes
from benchmarks.stream.text import crops, streams
from benchmarks.stream.train import Recipe, load, train
from benchmarks.streaming import recomputed, streamed
from regard.memory import KVCache, SinkCache, SlidingCache

SIZES = Sizes(width=14, heads=1, layers=2, window=11, symbols=31)
SHAPE: dict[str, Any] = {"heads": 1, "width": 14, "score": SCORE}


def model(layers: int = 2) -> Model:
    torch.manual_seed(0)
    made = Model(Sizes(14, 1, layers, 11, 31)).eval()
    for parameter in made.parameters():
        parameter.data.mul_(3.0)
    return made


def text(length: int, rows: int = 3) -> Tensor:
    return torch.randint(31, (rows, length), generator=torch.Generator().manual_seed(2))


def test_a_stream_that_fits_is_read_as_it_is_at_once() -> None:
    tokens, reader = text(12), model().double()
    logits = reader(tokens[:, :-1]).log_softmax(-1)
    wanted = -logits.gather(-1, tokens[:, 1:, None])[..., 0]
    for memory in (KVCache(**SHAPE), SlidingCache(**SHAPE, window=11), SinkCache(**SHAPE, sinks=4, window=7)):
        assert (streamed(reader, tokens, memory)[0] - wanted).abs().max() < 1e-12


def test_one_layer_streamed_with_a_window_is_what_recomputation_reads() -> None:
    """With one layer a window holds all that recomputation sees; the bytes that are asked are the same ones."""
    tokens, reader = text(37), model(layers=1).double()
    losses, held = streamed(reader, tokens, SlidingCache(**SHAPE, window=11))
    for every in (1, 4):
        assert (losses[:, 11::every] - recomputed(reader, tokens, every)).abs().max() < 1e-12
    assert held == 3 * 11 * 2 * 14 * 8  # rows, pairs, keys and values, their width, bytes
    sinks, _ = streamed(reader, tokens, SinkCache(**SHAPE, sinks=4, window=7))
    assert (sinks[:, 11:] - recomputed(reader, tokens, 1)).abs().max() > 1e-3  # other tokens are seen


def test_training_that_was_stopped_ends_with_the_weights_it_would_have_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, recipe = text(500, 1)[0], Recipe(steps=6, batch=3, warmup=2)
    whole = train(data, tmp_path / "whole.pt", SIZES, recipe, every=2)

    class Stop(Exception):
        pass

    written = trainer._write

    def once(path: Path, state: dict[str, Any]) -> None:
        written(path, state)
        if state["step"] == 4:
            raise Stop

    monkeypatch.setattr(trainer, "_write", once)
    with pytest.raises(Stop):
        train(data, tmp_path / "parts.pt", SIZES, recipe, every=2)
    monkeypatch.undo()
    train(data, tmp_path / "parts.pt", SIZES, recipe, every=2)
    for one, other in zip(whole.parameters(), load(tmp_path / "parts.pt").parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(SystemExit, match="another recipe"):
        train(data, tmp_path / "parts.pt", SIZES, Recipe(steps=7, batch=3, warmup=2))


def test_pieces_of_text() -> None:
    data = torch.arange(101)
    found = crops(data, 50, 7, torch.Generator().manual_seed(0))
    assert found.shape == (50, 7)
    assert found.diff(dim=1).eq(1).all()
    assert found.max() < 101
    assert streams(data, 4, 25)[:, 0].tolist() == [0, 25, 50, 75]
    with pytest.raises(ValueError, match="101 bytes hold no 4 streams of 26"):
        streams(data, 4, 26)
