"""FAVOR+: unbiased, of the variance the paper derives, positive, and better at right angles (Choromanski et al. 2021).

Inputs have a standard deviation of at most ½: the error grows as exp(‖x + y‖²), and no count of features saves it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import regard
from regard.memory import HyperbolicFeatures, PerformerMemory, PositiveFeatures, TrigonometricFeatures
from regard.memory.linear.random import directions

D = 8


def pairs(count: int, scale: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    x, y = (scale * torch.randn(count, D, generator=g, dtype=torch.float64) for _ in range(2))
    return x, y


def estimates(kind: str, rows: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """φ(x)·φ(y) for every draw (draws, M, D) and pair, written out from the paper: (draws, pairs)."""
    wx, wy = rows @ x.mT, rows @ y.mT  # (draws, M, pairs)
    if kind == "trigonometric":  # sin sin + cos cos
        return (wx - wy).cos().mean(1) * ((x * x).sum(-1) / 2 + (y * y).sum(-1) / 2).exp()
    inside = (wx + wy).exp() if kind == "positive" else (wx + wy).cosh()
    return inside.mean(1) * (-(x * x).sum(-1) / 2 - (y * y).sum(-1) / 2).exp()


MAPS: dict[str, Callable[..., Callable[[Tensor], Tensor]]] = {
    "positive": PositiveFeatures,
    "hyperbolic": HyperbolicFeatures,
    "trigonometric": TrigonometricFeatures,
}


@pytest.mark.parametrize("kind", MAPS)
def test_features_are_those_of_the_paper(kind: str) -> None:
    x, y = pairs(5, 0.7)
    rows = directions(11, D, draws=3, generator=torch.Generator().manual_seed(1))
    for draw, wanted in zip(rows, estimates(kind, rows, x, y), strict=True):
        phi = MAPS[kind](draw)
        torch.testing.assert_close((phi(x) * phi(y)).sum(-1), wanted, rtol=1e-12, atol=0)
        scaled = MAPS[kind](draw, scale=0.5)
        torch.testing.assert_close(scaled(2 * x), phi(x))


def errors_in_standard_errors(kind: str, rows: Tensor) -> Tensor:
    x, y = pairs(6, 0.3)
    found = estimates(kind, rows, x, y)
    exact = (x * y).sum(-1).exp()
    return (found.mean(0) - exact).abs() / (found.std(0) / math.sqrt(len(found)))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("orthogonal", [True, False])
def test_estimates_are_unbiased(kind: str, orthogonal: bool) -> None:
    rows = directions(D, D, orthogonal=orthogonal, draws=16_000, generator=torch.Generator().manual_seed(2))
    assert errors_in_standard_errors(kind, rows).max() < 3


def test_a_raw_qr_factor_is_caught() -> None:
    """Without sign(diag R) the first direction is one-sided: positive features are biased, hyperbolic ones hide it."""
    g = torch.Generator().manual_seed(3)
    normal = torch.randn(16_000, D, D, generator=g, dtype=torch.float64)
    raw = torch.linalg.qr(normal).Q.mT * torch.randn(16_000, D, D, generator=g, dtype=torch.float64).norm(
        dim=-1, keepdim=True
    )
    assert errors_in_standard_errors("positive", raw).max() > 10
    assert errors_in_standard_errors("hyperbolic", raw).max() < 3


def test_directions_are_orthogonal_normal_and_of_any_count() -> None:
    rows = directions(2 * D + 3, D, draws=4000, generator=torch.Generator().manual_seed(4))
    assert rows.shape == (4000, 2 * D + 3, D)
    products = rows @ rows.mT
    for first, last in ((0, D), (D, 2 * D), (2 * D, 2 * D + 3)):
        block = products[:, first:last, first:last]
        assert (block - torch.diag_embed(block.diagonal(dim1=-2, dim2=-1))).abs().max() < 1e-12
    assert products[:, 0, D].abs().mean() > 1  # blocks know nothing of each other
    square = rows.norm(dim=-1).square()
    assert (square.mean(0) - D).abs().max() < 6 * math.sqrt(2 * D / 4000)  # χ² with D degrees of freedom
    assert (square.var(0) / (2 * D) - 1).abs().max() < 0.2
    assert torch.corrcoef(square[:, :D].T).fill_diagonal_(0).abs().max() < 0.1  # lengths independent
    assert (rows.mean(0) / (1 / math.sqrt(4000))).abs().max() < 4.5
    single = directions(1, D, draws=4000, generator=torch.Generator().manual_seed(5))[:, 0]
    assert (
        (single > 0).double().mean(0) - 0.5
    ).abs().max() < 0.04  # no entry of a first direction has a sign of its own


@pytest.mark.parametrize("kind", MAPS)
def test_the_variance_is_the_papers(kind: str) -> None:
    """Mean squared errors of m independent features, within 10 %; at right angles they are no larger."""
    m = D
    x, y = pairs(4, 0.3, seed=1)
    exact = (x * y).sum(-1).exp()
    total, apart = (x + y).square().sum(-1), (x - y).square().sum(-1)
    formula = {
        "positive": total.exp() * exact**2 * (1 - (-total).exp()) / m,
        "hyperbolic": total.exp() * exact**2 * (1 - (-total).exp()) ** 2 / (2 * m),
        "trigonometric": total.exp() / exact**2 * (1 - (-apart).exp()) ** 2 / (2 * m),
    }[kind]
    drawn = [
        (
            estimates(
                kind, directions(m, D, orthogonal=o, draws=60_000, generator=torch.Generator().manual_seed(7)), x, y
            )
            - exact
        )
        .square()
        .mean(0)
        for o in (False, True)
    ]
    assert (drawn[0] / formula - 1).abs().max() < 0.1
    assert bool((drawn[1] <= drawn[0]).all())


def test_the_error_of_weights_falls_as_the_root_of_the_features() -> None:
    """n = 128, D = 16, inputs of standard deviation ½."""
    g = torch.Generator().manual_seed(8)
    q, k = (0.5 * torch.randn(1, 1, 128, 16, generator=g, dtype=torch.float64) for _ in range(2))
    exact = regard.weights(q, k)
    counts, found = [16, 64, 256, 1024, 4096], []
    for m in counts:
        each = []
        for _ in range(5):
            memory = PerformerMemory(1, 16, 128, features=m, generator=g)
            state = memory.write(memory.reset(), k, torch.eye(128, dtype=torch.float64)[None, None])
            each.append(float((memory.read(state, q).output - exact).norm() / exact.norm()))
        found.append(sum(each) / len(each))
    a, b = torch.tensor(counts).double().log(), torch.tensor(found).double().log()
    slope = float(((a - a.mean()) * (b - b.mean())).sum() / (a - a.mean()).square().sum())
    assert -0.6 < slope < -0.4
    assert found[-1] < 0.1


def test_no_kernel_value_is_negative_where_trigonometric_ones_are() -> None:
    x, y = pairs(200, 1.0, seed=2)
    rows = directions(64, D, generator=torch.Generator().manual_seed(9))[0]
    for kind in ("positive", "hyperbolic"):
        phi = MAPS[kind](rows)
        assert int((phi(x) @ phi(y).mT <= 0).sum()) == 0
    phi = TrigonometricFeatures(rows)
    assert (phi(x) @ phi(y).mT < 0).double().mean() > 0.05


def test_performer_scales_by_the_fourth_root_and_estimates_attention() -> None:
    g = torch.Generator().manual_seed(10)
    q, k, v = (torch.randn(2, 3, 31, D, generator=g, dtype=torch.float64) / 2 for _ in range(3))
    memory = PerformerMemory(3, D, features=8192, generator=g)
    reading, _ = memory.step(memory.reset(2), q, k, v)
    exact = regard.read(q, k, v, mask=regard.mask.causal())
    assert (reading.output - exact.output).abs().max() < 0.03
    assert (reading.lse - exact.lse).abs().max() < 0.1  # it estimates softmax's own


def test_redraw_changes_the_directions_and_keeps_the_expectation() -> None:
    g = torch.Generator().manual_seed(11)
    memory = PerformerMemory(1, D, features=16, generator=g)
    q, k, v = (torch.randn(1, 1, 5, D, generator=g, dtype=torch.float64) / 2 for _ in range(3))
    kernel = []  # the estimate is of the kernel; a ratio of estimates is biased by its nature
    for _ in range(500):
        other = memory.redraw(g)
        assert not torch.equal(other.drawn.rows, memory.drawn.rows)
        assert (other.kind, other.features, other.orthogonal) == (memory.kind, memory.features, memory.orthogonal)
        memory = other
        kernel.append((memory.map(q) @ memory.map(k).mT)[0, 0])
    found = torch.stack(kernel)
    exact = (q @ k.mT / math.sqrt(D)).exp()[0, 0]
    assert ((found.mean(0) - exact).abs() / (found.std(0) / math.sqrt(500))).max() < 4
    state = memory.write(memory.reset(), k, v)
    with pytest.raises(regard.RegardError, match=r"another draw of it.*reset\(\) after redraw\(\)"):
        memory.redraw(g).read(state, q)
    with pytest.raises(regard.RegardError, match="another draw"):
        memory.redraw(g).step(state, q, k, v)
    again = [PerformerMemory(1, D, features=16, generator=torch.Generator().manual_seed(5)) for _ in range(2)]
    again[1].read(again[0].write(again[0].reset(), k, v), q)  # the same draw is the same memory


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(regard.RegardError, match="denominators may vanish"):
        PerformerMemory(1, D, kind="trigonometric")  # type: ignore[arg-type]
    with pytest.raises(regard.RegardError, match="did you mean 'positive'"):
        PerformerMemory(1, D, kind="positve")  # type: ignore[arg-type]
    with pytest.raises(regard.RegardError, match="features is 0"):
        PerformerMemory(1, D, features=0)
    with pytest.raises(regard.RegardError, match="products may be negative"):
        regard.memory.LinearMemory(1, D, features=TrigonometricFeatures(directions(4, D)[0]))  # type: ignore[arg-type]
    with pytest.raises(regard.RegardError, match="directions of width 8 for vectors of 7"):
        regard.memory.LinearMemory(1, 7, features=PositiveFeatures(directions(4, D)[0]))
