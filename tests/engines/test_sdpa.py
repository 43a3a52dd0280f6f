"""The fused engine: its hidden corners, its memory, its precision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard import mask, normalize, position, score
from regard.engines import fused
from regard.engines.fused import Lowered
from regard.grid import Grid
from regard.mask import Mask
from regard.reading import TELEMETRY

# ---- memory ---------------------------------------------------------------------------------------------------------


class Largest(TorchDispatchMode):
    """Remembers the largest floating tensor that any operation gave out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numel = 0
        self.by = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for x in found if isinstance(found, tuple | list) else (found,):
            if (
                isinstance(x, Tensor)
                and x.is_floating_point()
                and x.untyped_storage().nbytes() // x.element_size() > self.numel
            ):
                self.numel = x.untyped_storage().nbytes() // x.element_size()
                self.by = str(func)
        return found


LONG = 2048
COMPOSITIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"mask": mask.causal()},
    "padding": {"mask": mask.padding([LONG - 5])},
    "euclidean": {"score": "euclidean"},
    "cosine": {"score": "cosine", "mask": mask.causal()},
    "rotary": {"score": position.Rotary(score.ScaledDot()), "mask": mask.causal()},
    "tempered": {"normalize": normalize.Softmax(0.5)},
}


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("widths", [(16, 16), (16, 24), (24, 16)])
@pytest.mark.parametrize("heads", [(1, 1), (2, 1)])
def test_a_long_read_never_holds_a_number_for_every_pair(
    gradient: bool, widths: tuple[int, int], heads: tuple[int, int]
) -> None:
    D, E = widths
    q = torch.randn(1, heads[0], LONG, D, requires_grad=gradient)
    k, v = (torch.randn(1, heads[1], LONG, n, requires_grad=gradient) for n in (D, E))
    with Largest() as largest:
        out = regard.attend(q, k, v, mask=mask.causal(), engine="sdpa")
        if gradient:
            torch.autograd.backward(out.sum())
    assert largest.numel < LONG * LONG // 8, largest.by


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_every_composition_that_is_fused_stays_small_with_its_telemetry(name: str) -> None:
    q, k, v = (torch.randn(1, 1, LONG, n) for n in (16, 16, 24))
    with Largest() as largest, torch.no_grad():
        r = regard.read(q, k, v, engine="sdpa", telemetry=["entropy", "bound"], **COMPOSITIONS[name])
    assert r.entropy is not None
    assert largest.numel < LONG * LONG // 8, largest.by


@pytest.mark.parametrize("wanted", sorted(TELEMETRY - {"mass"}))
def test_no_statistic_of_an_open_read_holds_a_number_for_every_pair(wanted: str) -> None:
    q, k, v = (torch.randn(1, 1, LONG, 16) for _ in range(3))
    with Largest() as largest, torch.no_grad():
        regard.read(
            q, k, v, engine="sdpa", telemetry=wanted, mask=mask.causal(), groups={"first": torch.arange(LONG) == 0}
        )
    assert largest.numel < LONG * LONG // 8, largest.by


def test_the_measure_of_memory_sees_what_the_reference_holds() -> None:
    q = torch.randn(1, 1, LONG, 16)
    with Largest() as largest, torch.no_grad():
        regard.attend(q, q, q, engine="reference")
    assert largest.numel >= LONG * LONG


# ---- the way without a kernel that hands out its lse ----------------------------------------------------------------


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    "m",
    [None, mask.causal("start"), mask.causal("end"), mask.padding([0, 4]), mask.dense(torch.rand(2, 6, 5, 7) > 0.3)],
    ids=repr,
)
def test_a_probe_tells_the_lse_where_no_kernel_does(m: Mask | None, size: float) -> None:
    q, k, v = torch.randn(2, 6, 5, 11) * size, torch.randn(2, 3, 7, 11), torch.randn(2, 3, 7, 11)
    flag, allowed = (False, None) if m is None else m.sdpa_flags(Grid.of(2, 6, 5, 7))
    low = Lowered(q, k, 11**-0.5, flag, allowed)
    probed_output, probed = fused._probed(low, v)
    exact = regard.read(q.double(), k.double(), v.double(), mask=m, engine="reference")
    looks = exact.seen > 0
    assert (probed - exact.lse)[looks].abs().max() < 1e-3
    assert (probed_output - exact.output)[looks].abs().max() < 1e-4
    own_output, own = fused.fused(low, v)
    assert (own - exact.lse)[looks].abs().max() < 1e-4
    assert (own[~looks] == -math.inf).all()
    assert (own_output - exact.output).abs().max() < 1e-4


def test_a_whole_read_by_the_probe_equals_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_call", fused._probed)
    q, k, v = torch.randn(2, 6, 5, 11), torch.randn(2, 3, 7, 11), torch.randn(2, 3, 7, 13)
    names = sorted(TELEMETRY - {"mass"})
    groups = {"first": torch.arange(7) == 0}
    for m in (None, mask.causal("end"), mask.padding([0, 4])):
        found, exact = (
            regard.read(q, k, v, mask=m, engine=engine, telemetry=names, groups=groups)
            for engine in ("sdpa", "reference")
        )
        for name in ("output", "lse", "entropy", "peak", "distance", "spread"):
            x, y = getattr(found, name), getattr(exact, name)
            assert torch.allclose(x, y, atol=1e-3), name
        assert torch.allclose(found.mass["first"], exact.mass["first"], atol=1e-3)


# ---- half precision -------------------------------------------------------------------------------------------------


def rough(q: Tensor, k: Tensor, v: Tensor, of: str) -> Tensor:
    """A read every step of which is rounded to the type of its inputs."""
    if of == "euclidean":
        s = -(q.unsqueeze(-2) - k.unsqueeze(-3)).square().sum(-1)
    elif of == "cosine":
        s = (q / q.norm(dim=-1, keepdim=True)) @ (k / k.norm(dim=-1, keepdim=True)).transpose(-1, -2)
    else:
        s = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)) @ v


@pytest.mark.parametrize("of", ["scaled_dot", "cosine", "euclidean"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_a_read_in_half_precision_is_no_worse_than_one_rounded_at_every_step(
    engine: str, dtype: torch.dtype, of: str
) -> None:
    q, k, v = (torch.randn(2, 3, n, 32).to(dtype) for n in (29, 67, 67))
    exact = regard.attend(q.double(), k.double(), v.double(), score=of, engine="reference")
    found = regard.attend(q, k, v, score=of, engine=engine)
    error = (found.double() - exact).square().mean().sqrt()
    bound = (rough(q, k, v, of).double() - exact).square().mean().sqrt()
    assert error <= 1.25 * bound
    assert (found.double() - exact).abs().max() <= 2.0 * (rough(q, k, v, of).double() - exact).abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_statistics_of_a_read_in_half_precision_are_taken_in_single(engine: str, dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 3, n, 32).to(dtype) for n in (29, 67, 67))
    names = sorted(TELEMETRY - {"mass"})
    m = mask.causal("end")
    exact = regard.read(q.double(), k.double(), v.double(), mask=m, telemetry=names, engine="reference")
    found = regard.read(q, k, v, mask=m, telemetry=names, engine=engine)
    for name in ("lse", "entropy", "peak", "distance", "spread"):
        assert (getattr(found, name) - getattr(exact, name)).abs().max() < 2e-2, name
        assert (getattr(found, name) - getattr(exact, name)).abs().mean() < 2e-3, name


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_products_that_overflow_half_precision_do_not_when_scaled_first(engine: str) -> None:
    q = torch.full((1, 1, 2, 128), 32.0, dtype=torch.float16)
    k = torch.cat([q[:, :, :1], -q[:, :, :1]], 2)
    v = torch.tensor([[[[1.0], [2.0]]]], dtype=torch.float16)
    assert (q @ k.transpose(-1, -2)).isinf().any()
    assert regard.attend(q, k, v, engine=engine).flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_an_empty_row_is_0_with_gradient_0_in_every_type(engine: str, dtype: torch.dtype) -> None:
    leaves = [torch.randn(2, 1, 3, 8, dtype=dtype, requires_grad=True) for _ in range(3)]
    out = regard.attend(*leaves, mask=mask.padding([0, 2]), engine=engine)
    assert (out[0] == 0).all()
    for gradient in torch.autograd.grad(out.square().sum(), leaves):
        assert gradient.isfinite().all()
        assert (gradient[0] == 0).all()
