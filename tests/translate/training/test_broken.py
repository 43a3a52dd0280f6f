"""A number that is not finite stops the run, is named, and leaves the last good save."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.translate import checkpoint
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.batches import Batch
from regard.translate.training import learner
from regard.translate.training.broken import find
from regard.translate.training.learner import Learner
from regard.translate.training.loss import loss as true_loss

from ..conftest import Toy
from .runs import assert_same_weights, run


@pytest.mark.filterwarnings("ignore::regard.errors.RegardWarning")  # attend says so too
def test_a_poisoned_embedding_is_named_and_the_save_before_it_stands(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = Learner.update

    def poisoned(self: Learner, *args: object) -> object:
        if args[1] == 4:
            self.model.target_embedding.weight.data[5, 2] = float("nan")  # type: ignore[union-attr, operator]
        return true(self, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", poisoned)
        with pytest.raises(RegardError) as found:
            run(toy, tmp_path / "run", save_every=0.0)
    said = str(found.value)
    assert "update 4 met" in said
    assert "the parameter target_embedding.weight (nan at [5, 2], 1 of 384 not finite)" in said
    assert "holds update 3" in said
    assert re.search(r"on lines \d+, \d+.* of train\.en", said)
    assert "--from" not in said  # no epoch was done, and these weights are not worth beginning with
    state = checkpoint.load_state(tmp_path / "run")
    assert state is not None
    assert state["position"]["updates"] == 3
    assert all(bool(weight.isfinite().all()) for weight in state["model"].values())


def test_an_infinite_loss_is_named_and_nothing_is_lost(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the second batch of the second update; mended, the run goes on as if it had not been."""
    settings = replace(toy.settings, accumulate=2, epochs=1)
    hard = list[Batch]()

    def infinite(model: EncoderDecoder[Any, Any], batch: Batch, smoothing: float) -> Tensor:
        hard.append(batch)
        value = true_loss(model, batch, smoothing)
        return value * float("inf") if len(hard) in (4, 6) else value  # and again as it is looked for

    with monkeypatch.context() as patch:
        patch.setattr(learner, "loss", infinite)
        with pytest.raises(RegardError) as found:
            run(toy, tmp_path / "run", settings)
    said = str(found.value)
    assert "update 2 met" in said
    assert "the loss, inf, of activations that are all finite" in said
    assert "holds update 1: lower --rate (found 0.01) or --clip (found 1)" in said
    assert f"--from {tmp_path / 'run'} and another --out" in said
    lines = [int(n) for n in re.findall(r"\d+", said[said.index("on lines") : said.index(" of train.en")])]
    text = [line.split() for line in toy.source.read_text().splitlines()]
    batch = hard[3]
    # The shown pairs are of the second batch: as long, end mark and pieces counted, as its rows may be.
    assert len(text[lines[0] - 1]) <= batch.source.shape[1]
    whole = run(toy, tmp_path / "whole", settings)
    assert run(toy, tmp_path / "run", settings).updates == whole.updates
    assert_same_weights(tmp_path / "whole", tmp_path / "run")


@pytest.mark.filterwarnings("ignore::regard.errors.RegardWarning")
def test_weights_that_overflow_are_never_saved(toy: Toy, tmp_path: Path) -> None:
    settings = replace(toy.settings, rate=1e38, clip=0.0, warmup=0, schedule="constant")
    with pytest.raises(RegardError, match=r"met a number that is not finite.*holds update \d"):
        run(toy, tmp_path / "run", settings, save_every=0.0)
    state = checkpoint.load_state(tmp_path / "run")
    assert state is not None
    assert all(bool(weight.isfinite().all()) for weight in state["model"].values())


class Net(nn.Module):
    """Two layers, the second of which may be made too large."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x))
        return out


def _activation(net: Net) -> Tensor:
    net.second.bias.data.fill_(3e38)
    net.second.weight.data.fill_(1e38)
    net.first.bias.data.fill_(1e3)
    return net.forward(torch.ones(2, 3)).sum()


def _entering(net: Net) -> Tensor:
    return net.forward(torch.ones(2, 3) * 0 / 0).sum()


def _gradient(net: Net) -> Tensor:
    """√0, whose slope is infinite, though every activation and the loss are finite."""
    stays = net.first.weight - net.first.weight.detach()
    return stays.sqrt().sum() + net.forward(torch.ones(2, 3)).sum()


def _norm(net: Net) -> Tensor:
    """Every gradient is finite, and their squares are not."""
    return (net.second.bias * 1e30).sum()


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (_activation, r"the activation second \(inf at \[0, 0\], 14 of 14 not finite\)"),
        (_entering, r"the activation that enters first \(nan at \[0, 0\], 6 of 6"),
        (_gradient, r"the gradient of first.weight \((inf|nan) at \[0, 0\], 15 of 15"),
        (_norm, r"the norm of the gradient, whose largest number is 1e\+30, of second.bias"),
    ],
)
def test_the_first_that_is_bad_is_found(loss: Callable[[Net], Tensor], said: str) -> None:
    torch.manual_seed(5)
    net = Net()
    fine = net(torch.ones(1, 3)).sum()
    assert fine.isfinite()
    found = find(net, [lambda: net(torch.ones(1, 3)).sum(), lambda: loss(net)])
    assert re.match(said, found.what), found.what
    assert found.batch == (None if loss is _norm else 1)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
