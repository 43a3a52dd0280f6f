"""Sparse normalisers by the kernel, beside the readable operators."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from regard.normalize import Entmax, Sparsemax, solved
from tests.normalize.rows import F64, INF, PER_HEAD, sparse


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.parametrize("alpha", [1.1, 1.3, 1.5, 1.7, 2.0, 2.5, [1.4], PER_HEAD])
def test_the_kernel_and_the_readable_operators_agree_on_weights_and_gradients(alpha: float | list[float]) -> None:
    s = 2 * torch.randn(2, 3, 5, 67)
    s[0, 1, 2], s[1, :, :, 7] = -INF, -INF
    away = torch.randn_like(s)
    found = []
    for dtype in (torch.float32, F64):
        x, part = s.to(dtype).requires_grad_(), sparse(alpha, dtype)
        assert solved.solves(x, part.alpha) == (dtype == torch.float32)
        w = part(x)
        found.append([w.detach(), *torch.autograd.grad((w * away).sum(), [x, *part.parameters()])])
    (w, ds, *slopes), (wanted, wanted_ds, *wanted_slopes) = found
    assert (w - wanted).abs().max() < 1e-6
    # Where a weight is nearly 0 and α > 2 the slope is as good as unknown.
    assert (ds - wanted_ds).abs().max() < (1e-5 if not isinstance(alpha, float) or alpha <= 2 else 1e-3)
    for one, other in zip(slopes, wanted_slopes, strict=True):
        assert (one - other).abs().max() < 1e-4


@pytest.mark.parametrize("alpha", [[1.4], PER_HEAD])
def test_the_kernel_has_a_gradient_of_its_gradient(alpha: list[float]) -> None:
    s, a = torch.randn(2, 3, 2, 5, dtype=F64, requires_grad=True), torch.tensor(alpha, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(solved.solved, (s, a))
    assert torch.autograd.gradgradcheck(solved.solved, (s, a))


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_kernel_widens_half_precision(dtype: torch.dtype) -> None:
    s = (3 * torch.randn(5, 130)).to(dtype)
    w = Entmax(1.5)(s)
    assert w.dtype == dtype
    assert torch.equal(w, Entmax(1.5)(s.float()).to(dtype))


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # jvp imports what uses it
def test_the_kernel_leaves_transforms_tracers_and_tangents_to_the_operators() -> None:
    part, s = Entmax(1.5), torch.randn(3, 5, 67)
    w = part(s)
    assert (torch.vmap(part)(s) - w).abs().max() < 1e-6
    tangent = torch.func.jvp(part, (s,), (torch.ones_like(s),))[1]
    assert tangent.abs().max() < 1e-5
    with torch._subclasses.FakeTensorMode() as mode:
        assert part(mode.from_tensor(s)).shape == s.shape
    compiled = torch.compile(part, backend="eager", fullgraph=True)
    assert (compiled(s) - w).abs().max() < 1e-6
    assert solved.solves(s, 1.5)
    assert not solved.solves(s, torch.ones(2) * 1.5)  # what does not fit the heads is the operators' to refuse


@pytest.mark.usefixtures("eager_kernel")
def test_the_kernel_takes_rows_that_are_not_side_by_side() -> None:
    s = torch.randn(7, 5, 3).transpose(0, 2)
    assert torch.equal(Sparsemax()(s), Sparsemax()(s.contiguous()))
    away = torch.randn(7, 5, 3).transpose(0, 2)
    x = s.clone().requires_grad_()
    (ds,) = torch.autograd.grad(Sparsemax()(x), x, away)
    assert (ds.sum(-1)).abs().max() < 1e-5


def test_only_work_that_is_worth_it_loads_the_kernel() -> None:
    code = """
import sys, torch
from regard.normalize import Entmax
Entmax(1.5)(torch.randn(100, 100))
assert "numba" not in sys.modules
Entmax(1.5)(torch.randn(400, 400))
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
