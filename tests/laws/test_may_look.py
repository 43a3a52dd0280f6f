"""Law 7: True = may look, and masks compose as booleans do."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import regard
from tests.laws.every import every_mask
from tests.laws.masks import MASKS
from tests.laws.shapes import B, H, L, S
from tests.laws.truth import inputs, visible


@every_mask
def test_law_7_true_is_may_look(masked: str) -> None:
    m = MASKS[masked].build()
    if m is not None:
        assert torch.equal(m.tensor(B, H, L, S).expand(B, H, L, S), visible(masked))
        assert torch.equal((~m).tensor(B, H, L, S).expand(B, H, L, S), ~visible(masked))
    q, k, v = inputs("dot")
    w = regard.weights(q, k, score="dot", mask=m)
    assert torch.equal(w > 0, visible(masked))
    assert torch.equal(regard.scores(q, k, mask=m) > -math.inf, visible(masked))
    for engine in ("reference", "sdpa", "tiled"):  # the measured reach: which values move which read
        values = v.clone().requires_grad_()
        out = regard.attend(q, k, values, score="dot", mask=m, engine=engine).sum(-1)
        for h, i in itertools.product(range(H), range(L)):
            (moved,) = torch.autograd.grad(out[:, h, i].sum(), values, retain_graph=True)
            assert torch.equal(moved[:, h // 2].abs().sum(-1) > 0, visible(masked)[:, h, i]), engine


@pytest.mark.parametrize(("first", "second"), list(itertools.product(list(MASKS)[1:], repeat=2)))
def test_law_7_masks_compose_as_booleans_do(first: str, second: str) -> None:
    a, b = MASKS[first].build(), MASKS[second].build()
    assert a is not None
    assert b is not None
    size, shape = (B, H, L, S), torch.Size((B, H, L, S))
    x, y = visible(first), visible(second)
    assert torch.equal((a & b).tensor(*size).expand(shape), x & y)
    assert torch.equal((a | b).tensor(*size).expand(shape), x | y)
    assert torch.equal((~(a & b)).tensor(*size).expand(shape), (~a | ~b).tensor(*size).expand(shape))
