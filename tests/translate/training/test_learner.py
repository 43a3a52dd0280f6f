"""One update: several batches are one large one, and the average follows."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest
import torch

from regard.errors import RegardError
from regard.translate.models import architecture
from regard.translate.text.batches import Batch, collate
from regard.translate.training.device import device_of, moved
from regard.translate.training.learner import Learner
from regard.translate.training.loss import loss
from regard.translate.training.settings import Settings

SMALL = Settings(
    sizes={"embedding": 11, "hidden": 13, "alignment": 7, "readout": 5},
    dropout=0.0,
    optimiser="sgd",
    rate=1.0,
    schedule="constant",
    warmup=0,
    clip=0.0,
)
TRANSFORMER = replace(SMALL, model="transformer", sizes={"width": 14, "heads": 7, "layers": 2, "feed": 11})


def learner(settings: Settings) -> Learner:
    torch.manual_seed(3)
    return Learner(architecture(settings.model).model(settings.config(23, 29)).train(), settings)


def pairs(lengths: list[tuple[int, int]]) -> Batch:
    draw = random.Random(7 * len(lengths))
    rows = [[[*(draw.randrange(4, 23) for _ in range(n)), 3] for n in side] for side in zip(*lengths, strict=True)]
    return collate(rows[0], rows[1])


PARTS = [pairs([(3, 17), (5, 2)]), pairs([(2, 1)] * 5), pairs([(11, 7), (7, 3), (1, 13)])]


def whole() -> Batch:
    """The rows of all parts in one batch."""
    rows = [[row[row != 0].tolist() for part in PARTS for row in getattr(part, side)] for side in ("source", "target")]
    return collate(rows[0], rows[1])


@pytest.mark.parametrize("settings", [SMALL, TRANSFORMER], ids=["bahdanau", "transformer"])
def test_several_batches_are_one_large_one(settings: Settings) -> None:
    parts, once = learner(settings), learner(settings)
    a, b = parts.update(PARTS, 1, 0.0), once.update([whole()], 1, 0.0)
    assert a.pieces == b.pieces == sum(int(part.target_lengths.sum()) for part in PARTS)
    assert a.summed == pytest.approx(b.summed, rel=1e-6)
    assert a.norm == pytest.approx(b.norm, rel=1e-5)
    start = dict(learner(settings).model.named_parameters())
    for (name, left), right in zip(parts.model.named_parameters(), once.model.parameters(), strict=True):
        torch.testing.assert_close(left, right, atol=1e-6, rtol=0, msg=name)
    means = learner(settings).model  # the mean of the batches' means is something else, by far more than that
    for part in PARTS:
        (loss(means, part, settings.smoothing) / len(PARTS)).backward()
    unlike = []
    for name, moved_to in parts.model.named_parameters():
        gradient = dict(means.named_parameters())[name].grad
        assert gradient is not None
        unlike.append(float((start[name] - gradient - moved_to).detach().abs().max()))
    assert max(unlike) > 1e-3


def test_the_average_follows_by_its_decay() -> None:
    slow, none = learner(replace(SMALL, ema=0.75)), learner(replace(SMALL, ema=0.0))
    before = [p.detach().clone() for p in slow.model.parameters()]
    slow.update(PARTS, 1000, 0.0)  # far from the first updates, in which the average hurries
    none.update(PARTS, 1000, 0.0)
    for was, now, mean in zip(before, slow.model.parameters(), slow.average.parameters(), strict=True):
        torch.testing.assert_close(mean, 0.75 * was + 0.25 * now.detach())
    assert all(torch.equal(a, b) for a, b in zip(none.model.parameters(), none.average.parameters(), strict=True))


def test_the_gradient_is_cut_to_its_largest_norm() -> None:
    free, cut = learner(SMALL), learner(replace(SMALL, clip=0.01))
    before = [p.detach().clone() for p in cut.model.parameters()]
    norm = free.update(PARTS, 1, 0.0).norm
    assert cut.update(PARTS, 1, 0.0).norm == norm > 0.1
    moves = torch.cat([(p.detach() - was).flatten() for p, was in zip(cut.model.parameters(), before, strict=True)])
    assert float(moves.norm()) == pytest.approx(0.01, rel=1e-3)


def test_bfloat16_learns_the_same_to_its_precision() -> None:
    exact, rounded = learner(TRANSFORMER), learner(replace(TRANSFORMER, precision="bfloat16"))
    a, b = exact.update(PARTS, 1, 0.0), rounded.update(PARTS, 1, 0.0)
    assert a.summed != b.summed
    assert a.summed == pytest.approx(b.summed, rel=2**-6)
    assert all(p.dtype == torch.float32 for p in rounded.model.parameters())


def test_devices_by_name() -> None:
    assert device_of("auto", "bfloat16").type in ("cpu", "cuda")
    with pytest.raises(RegardError, match="device: unknown name 'gpu'"):
        device_of("gpu", "float32")
    if not torch.cuda.is_available():
        with pytest.raises(RegardError, match="device: found cuda, but PyTorch finds no GPU here"):
            device_of("cuda", "float32")


def test_what_moves_to_a_device_keeps_its_form() -> None:
    given = {"a": [torch.ones(2), 3], "b": (torch.zeros(1), "c"), "batch": PARTS[0]}
    found = moved(given, "meta")
    assert found["a"][0].device.type == found["b"][0].device.type == found["batch"].source.device.type == "meta"
    assert found["a"][1] == 3
    assert isinstance(found["b"], tuple)
    assert moved(given, "cpu")["a"][0] is given["a"][0]  # type: ignore[index]


def test_few_kernels_are_kept_in_bfloat16_unless_the_user_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.setenv(name, "7")
    device_of("cpu", "bfloat16")
    assert os.environ[name] == "7"
    monkeypatch.delenv(name)
    device_of("cpu", "float32")
    assert name not in os.environ
    device_of("cpu", "bfloat16")
    assert 0 < int(os.environ[name]) < 1024
