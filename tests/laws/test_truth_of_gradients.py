"""Law 1, truth: every engine's gradients are those of the definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from tests.laws.every import engines_of, every_normaliser, every_score
from tests.laws.masks import GROUPS, MASKS
from tests.laws.normalisers import NORMALISERS, TRUE_GRADIENT, softmax_rows
from tests.laws.scores import FUSED, SCORES
from tests.laws.truth import close, inputs, normaliser_part, score_part, true_scores, visible


class Composed(nn.Module):
    """A read as a function of everything that may learn."""

    def __init__(self, scored: str, normalised: str, masked: str, engine: str) -> None:
        super().__init__()
        self.score, self.normalize = score_part(scored), normaliser_part(normalised)
        self.mask, self.engine = MASKS[masked].build(), engine

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        r = regard.read(
            q,
            k,
            v,
            score=self.score,
            normalize=self.normalize,
            mask=self.mask,
            engine=self.engine,
            telemetry="entropy",
            groups={"some keys": GROUPS["some keys"]},
        )
        assert r.entropy is not None
        lse = torch.where(r.seen > 0, r.lse, 0.0)
        return r.output, lse, r.entropy, r.mass["some keys"]


def everything(scored: str, normalised: str, masked: str, engine: str) -> tuple[Callable[..., Any], list[Tensor]]:
    module = Composed(scored, normalised, masked, engine)
    names = [name for name, _ in module.named_parameters()]
    learnt = [p.detach().clone().requires_grad_() for _, p in module.named_parameters()]
    given = [x.clone().requires_grad_() for x in inputs(scored)]

    def function(q: Tensor, k: Tensor, v: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        replaced = dict(zip(names, parameters, strict=True))
        found: tuple[Tensor, ...] = torch.func.functional_call(module, replaced, (q, k, v))
        return found

    return function, given + learnt


@every_score
@pytest.mark.parametrize("normalised", TRUE_GRADIENT)
def test_law_1_gradients_are_those_of_finite_differences(scored: str, normalised: str) -> None:
    turn = list(SCORES).index(scored) + 5 * list(NORMALISERS).index(normalised)
    masked = list(MASKS)[turn % len(MASKS)]  # all masks come round
    function, leaves = everything(scored, normalised, masked, "reference")
    assert torch.autograd.gradcheck(function, leaves, fast_mode=True, atol=1e-5, rtol=1e-4), masked


@pytest.mark.parametrize("normalised", [name for name, case in NORMALISERS.items() if case.surrogate])
def test_law_1_a_hard_choice_has_the_gradient_of_the_softmax(normalised: str) -> None:
    s = true_scores("dot").masked_fill(~visible("dense"), -math.inf)
    s = s.requires_grad_()
    away = torch.randn(s.shape, dtype=s.dtype)
    (hard,) = torch.autograd.grad((normaliser_part(normalised)(s) * away).sum(), s)
    (soft,) = torch.autograd.grad((softmax_rows(s) * away).sum(), s)
    close(hard, torch.where(visible("dense"), soft, 0.0), "gradient")


@every_score
@every_normaliser
def test_law_1_every_gradient_is_that_of_the_reference(scored: str, normalised: str) -> None:
    for masked in MASKS:
        gradients = {}
        for engine in engines_of(scored, normalised):
            function, leaves = everything(scored, normalised, masked, engine)
            found = function(*leaves)
            generator = torch.Generator().manual_seed(5)
            loss = sum((x * torch.randn(x.shape, generator=generator, dtype=x.dtype)).sum() for x in found)
            assert isinstance(loss, Tensor)
            gradients[engine] = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        for engine, found in gradients.items():
            for at, (fast, dense) in enumerate(zip(found, gradients["reference"], strict=True)):
                what = "qkv"[at] if at < 3 else "a parameter"
                close(fast, dense, f"{engine}, {masked}: gradient of {what}", 1e-8)


@pytest.mark.parametrize("scored", FUSED)
def test_law_1_gradients_of_sdpa_are_those_of_finite_differences(scored: str) -> None:
    for masked in ("none", "causal from the start", "dense", "causal & padding"):
        function, leaves = everything(scored, "tempered", masked, "sdpa")
        assert torch.autograd.gradcheck(function, leaves, fast_mode=True, atol=1e-5, rtol=1e-4), masked
