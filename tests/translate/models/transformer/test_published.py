"""What is published of the Transformer: its equations, its size, where dropout falls, how gradients grow with depth,
what a smoothed loss can come down to."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.translate.models.transformer.config import Transformer
from regard.translate.models.transformer.layers import DecoderLayer
from regard.translate.models.transformer.model import Model
from regard.translate.text.batches import Batch, collate
from regard.translate.training.loss import loss, smoothed_cross_entropy
from tests.translate.models.transformer import written_out

NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def drawn() -> Batch:
    """Sources of 7, 2 and 5 pieces; targets of 3, 11 and 1."""
    draw = torch.Generator().manual_seed(5)
    rows = [
        [torch.randint(4, high, (length,), generator=draw).tolist() for length in sizes]
        for high, sizes in ((31, (7, 2, 5)), (37, (3, 11, 1)))
    ]
    return collate(rows[0], rows[1])


def small(norm: str, layers: int = 2, seed: int = 3, **more: Any) -> Model:
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"width": 6, "heads": 3, "feed": 5, **more}
    return Model(Transformer(source_vocabulary=31, target_vocabulary=37, layers=layers, norm=norm, **sizes))


@NORMS
@torch.no_grad()
def test_the_article_s_equations(norm: str) -> None:
    """Of every sentence of a batch, whatever stands beside it."""
    model, batch = small(norm).double().eval(), drawn()
    for parameter in model.parameters():
        parameter.normal_(std=0.5)
    found = model(batch.source, batch.source_lengths, batch.previous)
    for b, (S, T) in enumerate(zip(batch.source_lengths.tolist(), batch.target_lengths.tolist(), strict=True)):
        wanted = written_out.transformer(model, batch.source[b, :S].tolist(), batch.previous[b, :T].tolist())
        torch.testing.assert_close(found[b, :T], wanted, rtol=0, atol=1e-10)


@NORMS
def test_the_base_model_has_as_many_numbers_as_derived(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """6 + 6 layers of 512/2048 with biases: 44,138,496, and 2,048 in the two last norms of "pre"; 37,000 shared
    embeddings of 512 beside them."""
    monkeypatch.setattr(Model, "_initialise", lambda self: None)  # there is nothing to draw without memory
    with torch.device("meta"):
        model = Model(
            Transformer(
                source_vocabulary=37_000,
                target_vocabulary=37_000,
                width=512,
                heads=8,
                layers=6,
                feed=2048,
                norm=norm,
                shared=True,
            )
        )
    looks, feeds, norms = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    derived = (
        6 * (looks + feeds + 2 * norms) + 6 * (2 * looks + feeds + 3 * norms) + (2 * norms if norm == "pre" else 0)
    )
    assert derived == {"pre": 44_140_544, "post": 44_138_496}[norm]
    assert sum(parameter.numel() for parameter in model.parameters()) == derived + 37_000 * 512


@NORMS
def test_dropout_falls_on_what_is_added_and_on_the_embeddings(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all of it is dropped, a layer adds nothing: what is read out is what the norms make of nothing."""
    fell: list[Tensor] = []

    def whole(x: Tensor, p: float, training: bool) -> Tensor:
        assert (p, training) == (0.25, True)
        fell.append(x)
        return torch.zeros_like(x)

    model, batch = small(norm, layers=3, dropout=0.25).train(), drawn()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.bias"):
                parameter.normal_()
    for home in ("layers", "model"):
        monkeypatch.setattr(f"regard.translate.models.transformer.{home}.dropout", whole)
    hidden = model.hidden(batch.source, batch.source_lengths, batch.previous)
    assert len(fell) == 2 + 3 * (2 + 3)  # embeddings of both sides; sub-layers of both sides
    x = torch.zeros(6)
    for layer in model.decoder:
        assert isinstance(layer, DecoderLayer)
        if norm == "post":
            for each in (layer.after_own, layer.after_cross, layer.after_feed):
                x = each.norm(x)
    torch.testing.assert_close(hidden, model.decoder_norm(x).expand_as(hidden))


def grown(norm: str, layers: int, seed: int) -> float:
    """The norm of the gradient of the last feed's W_2 when training begins."""
    model, draw = small(norm, layers, seed, width=64, heads=4, feed=256), torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, 30, (4, 12), generator=draw).tolist() for _ in range(2)]
    loss(model, collate(*rows)).backward()
    last = model.decoder[-1]
    assert isinstance(last, DecoderLayer)
    gradient = last.feed[2].weight.grad
    assert isinstance(gradient, Tensor)
    return float(gradient.norm())


def slope(norm: str, seed: int, depths: tuple[int, ...] = (2, 6, 12, 24)) -> float:
    """p of gradient ∝ depth^p, by least squares on logarithms."""
    x, y = (torch.tensor(each).log() for each in (depths, [grown(norm, depth, seed) for depth in depths]))
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())


def test_gradients_begin_smaller_with_depth_where_norm_comes_before_and_not_where_after() -> None:
    """Xiong et al. 2020, theorem 1: at the last layer about depth^(−1/2) for "pre", and no smaller for "post"."""
    for seed in range(2):
        assert -0.65 <= slope("pre", seed) <= -0.3
        assert slope("post", seed) >= -0.15


@pytest.mark.parametrize("smoothing", [0.05, 0.1, 0.5])
def test_a_smoothed_loss_comes_down_to_the_entropy_of_its_target(smoothing: float) -> None:
    """min over p of −Σ q log p is H(q), at p = q; whoever is surer of the true piece than q pays for it."""
    V, target = 11, torch.arange(7)
    true, other = 1 - smoothing + smoothing / V, smoothing / V
    bound = -true * math.log(true) - (V - 1) * other * math.log(other)
    best = torch.full((7, V), other, dtype=torch.float64)
    best[torch.arange(7), target] = true
    logits = best.log().requires_grad_()
    value = smoothed_cross_entropy(logits, target, smoothing)
    assert value.item() == pytest.approx(bound, abs=1e-12)
    (gradient,) = torch.autograd.grad(value, logits)
    assert float(gradient.abs().max()) < 1e-12
    draw = torch.Generator().manual_seed(1)
    for scale in (1e-3, 0.1, 1.0, 10.0):
        moved = logits.detach() + scale * torch.randn(7, V, generator=draw).double()
        assert float(smoothed_cross_entropy(moved, target, smoothing)) > bound
    surer = logits.detach().clone()
    surer[torch.arange(7), target] += 3.0
    assert float(smoothed_cross_entropy(surer, target, smoothing)) > bound
    assert float(smoothed_cross_entropy(surer, target)) < float(smoothed_cross_entropy(best.log(), target))
