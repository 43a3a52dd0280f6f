"""Numbers at their limits: enormous scores, equal ones, half precision, any layout."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard import mask, score
from regard.kernels import blas
from regard.normalize import Normalizer
from tests.engines.tiled.given import TOP, both, inputs


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize("normalised", ["softmax", "entmax15", "sparsemax", TOP, "hardmax"], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_ten_thousand_either_way(normalised: str | Normalizer, dtype: torch.dtype) -> None:
    q, k, v = inputs(dtype=dtype)
    q = q.detach() / q.detach().norm(dim=-1, keepdim=True) * 1e4
    k = k.detach() / k.detach().norm(dim=-1, keepdim=True)
    r, truth = both(q, k, v, score="dot", normalize=normalised)
    # Scores this large are rounded to a thousandth in single precision, for every engine.
    own = regard.read(q, k, v, score="dot", normalize=normalised, engine="reference")
    for name in ("output", "lse"):
        error, allowed = ((getattr(x, name).double() - getattr(truth, name)).abs().max() for x in (r, own))
        assert error <= 4 * allowed + 1e-9, name
    assert r.entropy is not None
    assert (r.entropy >= 0).all()


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize("normalised", ["softmax", "entmax15", "sparsemax", TOP], ids=str)
def test_rows_that_are_all_equal_look_everywhere_alike(normalised: str | Normalizer) -> None:
    _, k, v = inputs()
    r = regard.read(torch.zeros(2, 6, 37, 11, dtype=torch.float64), k, v, normalize=normalised, engine="tiled")
    assert torch.allclose(r.output, v.mean(2, keepdim=True).repeat_interleave(2, 1).expand_as(r.output))
    assert r.entropy is not None
    assert r.peak_at is not None
    assert torch.allclose(r.evenness, torch.ones_like(r.entropy))
    assert (r.peak_at == 0).all()  # the first among equals


@pytest.mark.usefixtures("_small_tiles")
def test_a_row_with_one_key_reads_that_key_and_a_row_with_none_reads_nothing() -> None:
    q, k, v = inputs()
    r = regard.read(q, k, v, mask=mask.causal("start") & mask.window(0, None, "start"), engine="tiled")
    assert torch.allclose(r.output, v[:, :, :37].repeat_interleave(2, 1))
    empty = regard.read(q, k, v, mask=mask.causal("start") & ~mask.causal("start"), engine="tiled")
    assert (empty.output == 0).all()
    assert (empty.lse == -math.inf).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    largest = torch.finfo(torch.float16).max
    q = torch.full((1, 1, 3, 64), 200.0, dtype=dtype)  # scores of 200·200·64/8 = 320,000: inf in float16
    k = torch.cat([q, -q], 2)
    v = torch.cat([torch.full_like(q, largest / 2), torch.zeros_like(q)], 2)
    r = regard.read(q, k, v, engine="tiled")
    assert r.output.dtype == dtype
    assert (r.output == v[0, 0, 0, 0]).all()
    assert r.lse.dtype == torch.float32
    assert torch.allclose(r.lse, torch.tensor(320_000.0) + math.log(3))


@pytest.mark.usefixtures("_small_tiles")
def test_tanh_sums_outside_the_range_of_their_factors() -> None:
    part = score.Additive(11, 11, width=7).double()
    for p in part.parameters():
        torch.nn.init.normal_(p)
    q, k, v = inputs()
    for size in (1e-3, 1.0, 100.0):  # from a product of exponentials to where they would overflow
        scaled = [(size * x).detach().requires_grad_() for x in (q, k)]
        leaves = [*scaled, v, *part.parameters()]
        outs = {}
        for engine in ("tiled", "reference"):
            out = regard.attend(scaled[0], scaled[1], v, score=part, engine=engine)
            outs[engine] = [out, *torch.autograd.grad(out.square().sum(), leaves)]
        for one, other in zip(outs["tiled"], outs["reference"], strict=True):
            assert torch.allclose(one, other, rtol=1e-8, atol=1e-10)


def test_a_tanh_sum_is_computed_in_one_way_whatever_stands_beside_it() -> None:
    """Bit for bit: numbers out of the range of the factors change how their own entry is computed, and no other."""
    torch.manual_seed(0)
    part = score.Additive(11, 11, width=7)
    q, k, v = (torch.randn(3, 1, n, 11) for n in (5, 13, 13))
    q[1] *= 1e3
    with torch.no_grad():
        together = regard.attend(q, k, v, score=part, engine="tiled")
        for b in range(3):
            assert torch.equal(
                regard.attend(*(x[b : b + 1] for x in (q, k, v)), score=part, engine="tiled")[0], together[b]
            )


@pytest.mark.usefixtures("_small_tiles")
def test_the_products_of_ours_equal_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = inputs()
    found = []
    for own in (False, True):
        if own:
            monkeypatch.setattr(blas, "address", lambda dtype: 0)
        out = regard.attend(q, k, v, mask=mask.window(5, 3, "end"), engine="tiled")
        found.append([out, *torch.autograd.grad(out.square().sum(), (q, k, v))])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-10)


@pytest.mark.usefixtures("_small_tiles")
def test_any_layout_of_the_inputs_will_do() -> None:
    q, k, v = (x.detach() for x in inputs(37, 37))
    wanted = regard.attend(q, k, v, engine="tiled")
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]  # heads inside, as layers have them
    assert torch.allclose(regard.attend(*turned, engine="tiled"), wanted)
    columns = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v)]
    assert torch.allclose(regard.attend(*columns, engine="tiled"), wanted)
    shared = [x[:, :, :1].expand_as(x) for x in (q, k, v)]
    dense = regard.attend(*(x.contiguous() for x in shared), engine="tiled")
    assert torch.allclose(regard.attend(*shared, engine="tiled"), dense)
