"""Dropout and Gumbel noise: drawn as often as asked, and the same forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import mask, normalize, score
from regard.normalize import Normalizer
from tests.engines.tiled.given import TOP, inputs


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize("normalised", ["softmax", "entmax15", TOP, "hardmax"], ids=str)
@pytest.mark.parametrize("masked", [None, mask.strided(2, "end")])
def test_dropout_is_the_same_forward_and_backward(normalised: str | Normalizer, masked: Any) -> None:
    q, k, v = inputs(7, 9)

    def read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(1)
        return regard.attend(q, k, v, normalize=normalised, mask=masked, dropout=0.4, engine="tiled")

    if normalised == "hardmax":  # its gradient is another's, by intent
        assert torch.autograd.gradcheck(lambda v: read(q.detach(), k.detach(), v), (v,), fast_mode=True)
    else:
        assert torch.autograd.gradcheck(read, (q, k, v), fast_mode=True, atol=1e-5)
    assert not torch.equal(
        regard.attend(q, k, v, dropout=0.4, engine="tiled"), regard.attend(q, k, v, dropout=0.4, engine="tiled")
    )


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize("normalised", ["softmax", "entmax15", TOP, "hardmax"], ids=str)
def test_dropout_leaves_the_mean_where_it_is_and_drops_each_weight_as_often_as_asked(
    normalised: str | Normalizer,
) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 40, 4) / 4
    v = torch.eye(40).view(1, 1, 40, 40)
    q = q.expand(1, 1, 4000, 4)
    out = regard.attend(q, k, v, normalize=normalised, dropout=0.3, engine="tiled")
    clean = regard.attend(q, k, v, normalize=normalised, engine="tiled")
    seen = clean > 0
    assert abs((out[seen] == 0).float().mean() - 0.3) < 0.02
    assert torch.allclose(out[out > 0], (clean / 0.7)[out > 0], rtol=1e-4)
    assert torch.allclose(out.mean(2), clean.mean(2), atol=0.03)
    together = (out[0, 0] == 0).float()[:, seen[0, 0, 0]]
    if together.shape[1] > 2:  # no two keys are dropped together more than chance has it, and no two queries either
        assert torch.corrcoef(together.T).fill_diagonal_(0).abs().max() < 0.08
        assert (together[1:] == together[:-1]).float().mean() < 0.62


def test_gumbel_noise_draws_each_key_as_often_as_the_softmax_says() -> None:
    torch.manual_seed(0)
    k = torch.tensor([[0.0], [1.0], [2.0], [-1.0]]).view(1, 1, 4, 1)
    q = torch.ones(1, 1, 20_000, 1)
    v = torch.eye(4).view(1, 1, 4, 4)
    drawn = normalize.GumbelSoftmax(0.5, hard=True).train()
    out = regard.attend(q, k, v, score="dot", normalize=drawn, engine="tiled")
    assert ((out == 0) | ((out - 1).abs() < 1e-5)).all()
    assert torch.allclose(out.mean(2).flatten(), torch.softmax(k.flatten(), 0), atol=0.015)
    assert drawn.step == 1
    soft = regard.attend(q, k, v, score="dot", normalize=normalize.GumbelSoftmax(0.5).train(), engine="tiled")
    assert torch.allclose(soft.sum(-1), torch.ones(1, 1, 20_000), atol=1e-5)
    seeded = [
        regard.attend(
            q, k, v, normalize=normalize.GumbelSoftmax(generator=torch.Generator().manual_seed(3)), engine="tiled"
        )
        for _ in range(2)
    ]
    assert torch.equal(*seeded)


@pytest.mark.usefixtures("_small_tiles")
def test_gumbel_noise_has_the_gradient_of_its_draw() -> None:
    q, k, v = inputs(5, 7)

    def read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        part = normalize.GumbelSoftmax(0.7, generator=torch.Generator().manual_seed(2)).train()
        return regard.attend(q, k, v, normalize=part, engine="tiled")

    assert torch.autograd.gradcheck(read, (q, k, v), fast_mode=True, atol=1e-5)
    part = score.Learned.mlp(11, 11, 3).double()  # drawn in bands, by the reference

    def learnt(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        noise = normalize.GumbelSoftmax(0.7, generator=torch.Generator().manual_seed(2)).train()
        return regard.attend(q, k, v, score=part, normalize=noise, engine="tiled")

    assert torch.autograd.gradcheck(learnt, (q, k, v), fast_mode=True, atol=1e-5)
