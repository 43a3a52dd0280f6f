"""What holds for every normaliser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.normalize import Entmax, GumbelSoftmax, Hardmax, Normalizer, Softmax, Sparsemax, TopK
from tests.normalize.rows import F64, INF

ALL: dict[str, Callable[[], Normalizer]] = {
    "softmax": Softmax,
    "tempered": lambda: Softmax(0.5),
    "sink": lambda: Softmax(sink=0.0),
    "sparsemax": Sparsemax,
    "entmax 1.5": lambda: Entmax(1.5),
    "entmax 1.3": lambda: Entmax(1.3),
    "entmax 3": lambda: Entmax(3.0),
    "learnt alpha": lambda: Entmax(nn.Parameter(torch.tensor(1.4))),
    "top 1": lambda: TopK(1),
    "top 4": lambda: TopK(4),
    "hardmax": Hardmax,
    "gumbel": lambda: GumbelSoftmax(0.5),
    "hard gumbel": lambda: GumbelSoftmax(0.5, hard=True),
    "gumbel in eval": lambda: GumbelSoftmax(0.5).eval(),
}
every_part = pytest.mark.parametrize("build", ALL.values(), ids=ALL)


@every_part
def test_a_row_is_a_distribution_and_a_hidden_key_has_no_weight(build: Callable[[], Normalizer]) -> None:
    s = 3 * torch.randn(50, 9, dtype=F64)
    s[:, 2] = -INF
    s[7:9, 1:] = -INF
    s[9] = -INF
    part = build()
    w = part(s)
    assert (w >= 0).all()
    assert (w[s == -INF] == 0).all()
    sums = w.sum(-1)
    assert sums[9] == 0
    if isinstance(part, Softmax) and part.sink is not None:
        assert (sums < 1).all()
    else:
        assert (sums[:9] - 1).abs().max() < 1e-12
        assert (sums[10:] - 1).abs().max() < 1e-12


@every_part
def test_gradients_are_finite_beside_hidden_keys_and_none_reaches_an_empty_row(build: Callable[[], Normalizer]) -> None:
    s = torch.randn(5, 9, dtype=F64)
    s[:, 2] = s[3] = -INF
    s.requires_grad_()
    part = build()
    loss = (part(s) * torch.randn(5, 9, dtype=F64)).sum()
    for gradient in torch.autograd.grad(loss, [s, *part.parameters()]):
        assert gradient.isfinite().all()
    (gradient,) = torch.autograd.grad((build()(s) ** 2).sum(), s)
    assert (gradient[3] == 0).all()
    assert (gradient[:, 2] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every_part
def test_half_precision_is_finite_and_keeps_its_type(build: Callable[[], Normalizer], dtype: torch.dtype) -> None:
    s = torch.full((3, 128), -1005.0, dtype=dtype)
    s[:, 5] = -900.0
    s[1, :] = 60_000.0
    s[1, 3] = -60_000.0
    s[2] = -INF
    part = build()
    w = part(s)
    assert w.dtype == dtype
    assert w.isfinite().all()
    if not (isinstance(part, Softmax) and part.sink is not None):  # a sink at 0 takes it all
        assert w[0].argmax() == 5
    assert w[2].sum() == 0
    assert w[1, 3] == 0


@pytest.mark.parametrize("name", sorted(ALL.keys() - {"sink", "gumbel", "hard gumbel"}))
def test_adding_a_number_to_a_row_changes_nothing(name: str) -> None:
    part = ALL[name]()  # but a sink stays where it is, and noise is drawn anew
    s = torch.randn(6, 7, dtype=F64)
    assert (part(s + 1000.0) - part(s)).abs().max() < 1e-10
