"""torch.compile(fullgraph=True) on both engines, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import mask, normalize, position, score


@pytest.fixture(autouse=True)
def _from_scratch() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def gradients(function: Callable[..., Tensor], leaves: list[Tensor]) -> list[Tensor]:
    out = function(*leaves)
    return [out, *torch.autograd.grad(out.square().sum(), leaves)]


def check(function: Callable[..., Tensor], leaves: list[Tensor], backend: str = "aot_eager") -> None:
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for found, wanted in zip(gradients(compiled, leaves), gradients(function, leaves), strict=True):
        assert torch.allclose(found, wanted, atol=1e-9)


BOTH: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"mask": mask.causal("end")},
    "padding & window": {"mask": mask.padding([7, 0]) & mask.window(2, 1, "start")},
    "euclidean": {"score": "euclidean", "mask": mask.causal("start")},
    "rotary": {"score": position.Rotary(score.Cosine(3.0), anchor="end")},
}
REFERENCE: dict[str, dict[str, Any]] = {
    "additive, entmax": {"score": score.Concat(12, 12, width=3), "normalize": "entmax15", "mask": mask.causal("end")},
    "top-k": {"normalize": normalize.TopK(3), "mask": mask.causal("end")},
    "alibi, capped, sink": {
        "score": (score.ScaledDot() + position.ALiBi(6, "end")).capped(3.0),
        "normalize": normalize.Softmax(0.5, sink=0.0),
    },
    "learned, hardmax": {"score": score.Learned.mlp(12, 12, 3).double(), "normalize": "hardmax"},
}


@pytest.mark.parametrize(
    ("engine", "name"),
    [("sdpa", n) for n in BOTH] + [("reference", n) for n in ("padding & window", "rotary", *REFERENCE)],
)
def test_a_read_compiles_in_one_graph_with_its_gradients(engine: str, name: str) -> None:
    parts = {**BOTH, **REFERENCE}[name]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return regard.attend(q, k, v, engine=engine, **parts)

    check(attend, [randn(2, 6, 5, 12), randn(2, 3, 7, 12), randn(2, 3, 7, 13)])


@pytest.mark.parametrize("engine", ["sdpa", "reference"])
def test_telemetry_compiles_in_one_graph(engine: str) -> None:
    def look(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        r = regard.read(q, k, v, engine=engine, mask=mask.causal("end"), telemetry=("entropy", "distance", "peak"))
        assert r.entropy is not None
        assert r.distance is not None
        return r.output.sum(-1) + r.entropy + r.lse + r.distance

    check(look, [randn(2, 6, 5, 12), randn(2, 3, 7, 12), randn(2, 3, 7, 13)])


@pytest.mark.parametrize("engine", ["sdpa", "reference"])
def test_one_graph_serves_many_lengths(engine: str) -> None:
    graphs = 0

    def count(module: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return module.forward

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return regard.attend(q, k, v, engine=engine, mask=mask.causal("end"))

    compiled = torch.compile(attend, fullgraph=True, backend=count, dynamic=True)
    for L, S in ((5, 7), (4, 11), (3, 13), (6, 17)):
        q, k, v = torch.randn(2, 6, L, 12), torch.randn(2, 3, S, 12), torch.randn(2, 3, S, 13)
        assert torch.allclose(compiled(q, k, v), attend(q, k, v), atol=1e-5)
    assert graphs <= 2


@pytest.mark.parametrize("engine", ["sdpa", "reference"])
def test_rubbish_in_a_masked_slot_stays_out_of_a_compiled_read(engine: str) -> None:
    q, k, v = torch.randn(2, 6, 5, 12), torch.randn(2, 3, 7, 12), torch.randn(2, 3, 7, 13)
    m = mask.padding([7, 4])
    clean = regard.attend(q, k, v, mask=m, engine=engine)
    k[1, :, 4:] = v[1, :, 4:] = float("nan")

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return regard.attend(q, k, v, mask=m, engine=engine)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(q, k, v), clean, atol=1e-5)


def test_a_causal_read_compiles_with_inductor() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return regard.attend(q, k, v, mask=mask.causal("end"))

    check(attend, [randn(2, 6, 5, 16), randn(2, 3, 7, 16), randn(2, 3, 7, 16)], "inductor")
