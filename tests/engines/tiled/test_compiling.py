"""torch.compile, autograd and functorch: what goes through, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import RegardError, mask, normalize, position, score
from regard.engines.tiled import ops
from tests.engines.tiled.given import TOP, inputs


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"mask": mask.causal("end") & mask.padding([30, 41])},
        {"mask": mask.strided(3, "end"), "score": (score.ScaledDot() + position.ALiBi(6, "end")).capped(3.0)},
        {"normalize": normalize.Softmax(0.5, sink=0.0), "score": "euclidean"},
        {"normalize": "entmax15", "mask": mask.window(4, 4, "end")},
        {"normalize": TOP, "mask": mask.causal("end")},
    ],
    ids=["plain", "spans", "gaps", "sink", "entmax", "top-k"],
)
@pytest.mark.usefixtures("_small_tiles")
def test_a_read_compiles_in_one_graph(parts: Any) -> None:
    torch._dynamo.reset()
    q, k, v = inputs()

    def read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        r = regard.read(q, k, v, engine="tiled", **parts)
        assert r.entropy is not None
        return torch.cat([r.output, r.entropy.unsqueeze(-1)], -1)

    compiled = torch.compile(read, fullgraph=True, backend="aot_eager")
    one, other = compiled(q, k, v), read(q, k, v)
    assert torch.allclose(one, other)
    for a, b in zip(*(torch.autograd.grad(x.square().sum(), (q, k, v)) for x in (one, other)), strict=True):
        assert torch.allclose(a, b)
    torch._dynamo.reset()


def test_what_only_a_function_knows_is_refused_while_compiling() -> None:
    torch._dynamo.reset()
    q, k, v = inputs()
    part = score.Learned.mlp(11, 11, 3).double()
    compiled = torch.compile(
        lambda: regard.attend(q, k, v, score=part, engine="tiled"), fullgraph=True, backend="eager"
    )
    with pytest.raises(Exception, match="while compiling: the score Learned"):
        compiled()
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_inside_vmap_it_refuses_and_says_what_to_do() -> None:
    q, k, v = inputs()
    with pytest.raises(RegardError, match=r"inside torch\.func\.vmap .* batch axis"):
        torch.func.vmap(lambda q, k, v: regard.attend(q, k, v, engine="tiled"))(q, k, v)
    auto = torch.func.vmap(lambda q, k, v: regard.attend(q, k, v))(q, k, v)  # another engine runs
    assert torch.allclose(auto, regard.attend(q, k, v))


def test_on_another_device_it_refuses() -> None:
    q = torch.zeros(1, 1, 3, 4, device="meta")
    assert "for the CPU" in regard.explain(q, q, q).refused["tiled"]


def operands(made: bool = True) -> tuple[Any, ...]:
    q, k, v = inputs(5, 7)
    lo, hi = torch.zeros(1, 1, 1, dtype=torch.int64), torch.full((1, 1, 1), 7)
    table = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    at = torch.tensor([[0, 1, 2], [3, 4, 1]], dtype=torch.int32).view(1, 1, 2, 3)  # cells of 3 × 3
    words = torch.randint(8, (3, 3))
    tags = torch.ones(1, 1, 7, dtype=torch.float64)
    numbers = torch.ones(1, 6, dtype=torch.float64)
    return (
        q, k, v, None, table, None, lo, hi, at, words, tags, numbers, [3, 0, 0, 2], 0, 0.3, 0.1, 5, 2, 15, [2, 3],
    )  # fmt: skip


def test_the_operator_is_registered_as_pytorch_wants_it() -> None:
    torch.library.opcheck(ops.tiled_softmax, operands())


def test_a_second_derivative_is_refused_and_not_zero() -> None:
    q, k, v = inputs(5, 7)
    out = regard.attend(q, k, v, engine="tiled")
    (slope,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(RegardError, match="no second derivative"):
        torch.autograd.grad(slope.sum(), k)
