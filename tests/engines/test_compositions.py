"""Any composition on tiled equals the float64 reference: 2,000 scores × normalisers × masks × heads × precisions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

import regard
from regard import mask, normalize, position, score
from regard.engines import Tiled
from regard.mask import Mask
from regard.normalize import Normalizer
from regard.reading import TELEMETRY
from regard.score import Score

CASES = 2000
#: What half precision rounds output and gradients to, and what single precision loses in sums of this size.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 5e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}

SCORES: dict[str, Callable[[int, int], Score]] = {  # of the width and the number of heads
    "dot": lambda D, H: score.Dot(),
    "scaled dot": lambda D, H: score.ScaledDot(),
    "cosine": lambda D, H: score.Cosine(3.0),
    "euclidean": lambda D, H: score.Euclidean(),
    "general": lambda D, H: score.General(D, D),
    "additive": lambda D, H: score.Additive(D, D, width=5),
    "concat": lambda D, H: score.Concat(D, D, width=6),
    "keyed": lambda D, H: score.Cosine(2.0).keyed,
    "alibi": lambda D, H: score.ScaledDot() + position.ALiBi(H, anchor="end"),
    "relative": lambda D, H: score.ScaledDot() + position.RelativeBias(H, reach=4, anchor="start"),
    "capped": lambda D, H: score.Dot().capped(2.0),
    "capped twice, biased twice": lambda D, H: (
        (
            (score.Dot() + position.RelativeBias(H, reach=3, anchor="end")).capped(4.0) + position.ALiBi(H, "start")
        ).capped(3.0)
        + position.RelativeBias(H, reach=2, anchor="end")
    ),
    "additive, capped": lambda D, H: score.Additive(D, D, width=4).capped(1.5),
    "euclidean, capped": lambda D, H: score.Euclidean().capped(5.0),
    "rotary": lambda D, H: position.Rotary(score.ScaledDot(), anchor="end"),
    "a module": lambda D, H: score.Learned(nn.Bilinear(D, D, 1)),
}
NORMALISERS: dict[str, Callable[[int], Normalizer]] = {
    "softmax": lambda H: normalize.Softmax(),
    "tempered": lambda H: normalize.Softmax(0.7),
    "sink": lambda H: normalize.Softmax(sink=nn.Parameter(torch.linspace(-1, 1, H))),
    "sparsemax": lambda H: normalize.Sparsemax(),
    "entmax 1.5": lambda H: normalize.Entmax(1.5),
    "learnt alpha": lambda H: normalize.Entmax(nn.Parameter(torch.linspace(1.2, 2.3, H))),
    "top 5": lambda H: normalize.TopK(5),
    "hardmax": lambda H: normalize.Hardmax(),
}
# A hard choice may fall otherwise when rounded.
CONTINUOUS = [name for name in NORMALISERS if name not in ("top 5", "hardmax")]


@st.composite
def masks(draw: st.DrawFn, B: int, H: int, L: int, S: int, depth: int = 3) -> Mask:
    """A tree of masks joined by & | ~, no deeper than ``depth``."""
    kind = draw(st.sampled_from(["leaf", "&", "|", "~"])) if depth else "leaf"
    if kind == "~":
        return ~draw(masks(B, H, L, S, depth - 1))
    if kind != "leaf":
        left, right = draw(masks(B, H, L, S, depth - 1)), draw(masks(B, H, L, S, depth - 1))
        return left & right if kind == "&" else left | right
    anchor: Any = draw(st.sampled_from(["start", "end"]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    leaf = draw(st.sampled_from(["causal", "window", "padding", "segments", "strided", "blocks", "dense", "where"]))
    if leaf == "causal":
        return mask.causal(anchor)
    if leaf == "window":
        return mask.window(draw(st.integers(0, 20)), draw(st.integers(0, 20)), anchor)
    if leaf == "padding":
        return mask.padding([draw(st.integers(0, S)) for _ in range(B)])
    if leaf == "segments":
        ids = torch.randint(-1, 3, (B, S), generator=generator)
        ids = ids.sort(-1).values if draw(st.booleans()) else ids
        return mask.segments(ids, torch.randint(-1, 3, (B, L), generator=generator))
    if leaf == "strided":
        return mask.strided(draw(st.integers(1, 9)), anchor)
    if leaf == "blocks":
        size = draw(st.integers(3, 20))
        return mask.blocks(torch.rand(H, -(-L // size), -(-S // size), generator=generator) > 0.5, size)
    if leaf == "dense":
        shape = draw(st.sampled_from([(B, H, L, S), (1, 1, L, S), (B, 1, 1, S), (1, H, L, 1)]))
        return mask.dense(torch.rand(shape, generator=generator) > 0.4)
    return mask.where(lambda b, h, i, j: (i * 3 + j * 5 + h + b) % 4 != 0)


@st.composite
def compositions(draw: st.DrawFn) -> dict[str, Any]:
    B, G, repeat = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    L, S, E = draw(st.integers(1, 37)), draw(st.integers(1, 41)), draw(st.integers(1, 7))
    D, H = 2 * draw(st.integers(1, 4)), G * repeat
    dtype = draw(st.sampled_from(list(TOLERANCE)))
    names = CONTINUOUS if dtype != torch.float64 else list(NORMALISERS)
    return {
        "shape": (B, H, G, L, S, D, E),
        "score": draw(st.sampled_from(list(SCORES))),
        "normalize": draw(st.sampled_from(names)),
        "mask": draw(st.none() | masks(B, H, L, S)),
        "dtype": dtype,
        "seed": draw(st.integers(0, 2**16)),
        "size": draw(st.sampled_from([0.1, 1.0, 3.0])),
    }


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiled, "rows", 16)
    monkeypatch.setattr(Tiled, "columns", 16)


@hypothesis.settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
@hypothesis.given(case=compositions())
def test_any_composition_on_tiled_equals_the_float64_reference(case: dict[str, Any]) -> None:
    B, H, G, L, S, D, E = case["shape"]
    dtype, generator = case["dtype"], torch.Generator().manual_seed(case["seed"])
    given = [torch.randn(B, n, m, w, generator=generator) for n, m, w in ((H, L, D), (G, S, D), (G, S, E))]
    given = [(case["size"] * given[0]).to(dtype), given[1].to(dtype), given[2].to(dtype)]
    scored = SCORES[case["score"]](D, H)
    for p in scored.parameters():
        nn.init.normal_(p, 0.0, 0.4, generator=generator)
    parts = nn.ModuleList([scored, NORMALISERS[case["normalize"]](H)])
    away = torch.randn(B, H, L, E, generator=generator, dtype=torch.float64)
    aside = torch.randn(2, B, H, L, generator=generator, dtype=torch.float64)
    found = {}
    # Parameters are float32 beside half precision, as a layer under autocast has them.
    for engine, precision in (("tiled", dtype), ("reference", torch.float64)):
        leaves = [x.detach().to(precision).requires_grad_() for x in given]
        inner = torch.promote_types(precision, torch.float32)
        own = copy.deepcopy(parts).to(inner)
        r = regard.read(
            *leaves,
            score=own[0],  # type: ignore[arg-type]
            normalize=own[1],  # type: ignore[arg-type]
            mask=case["mask"],
            engine=engine,
            telemetry=TELEMETRY - {"mass"},
            groups={"first": torch.arange(S) < 1, "self": mask.window(0, 0, "end")},
        )
        assert r.entropy is not None
        looks = r.seen > 0
        loss = (
            (r.output * away).sum() + (torch.where(looks, r.lse, 0.0) * aside[0]).sum() + (r.entropy * aside[1]).sum()
        )
        gradients = torch.autograd.grad(loss, [*leaves, *own.parameters()], allow_unused=True, materialize_grads=True)
        found[engine] = (r, gradients)
    check(found, TOLERANCE[dtype], S, dtype == torch.float64)


def check(found: dict[str, Any], tolerance: float, S: int, exact: bool) -> None:
    (r, gradients), (truth, slopes) = found["tiled"], found["reference"]
    assert torch.equal(r.seen, truth.seen)
    for name in ("output", "lse", "entropy", "peak", "bound", "distance", "spread"):
        size = S if name == "distance" else 1.0  # a distance is counted in places
        close(getattr(r, name), getattr(truth, name), tolerance * size, name)
    for name in truth.mass:
        close(r.mass[name], truth.mass[name], tolerance, f"mass of {name}")
    if exact:
        assert torch.equal(r.peak_at, truth.peak_at)
    for at, (one, other) in enumerate(zip(gradients, slopes, strict=True)):
        close(one, other, 4 * tolerance, f"gradient {at}")


def close(found: Tensor, wanted: Tensor, tolerance: float, what: str) -> None:
    x, y = found.detach().double(), wanted.detach().double()
    assert x.shape == y.shape, what
    scale = max(1.0, float(torch.where(y.isfinite(), y.abs(), 0.0).max())) if y.numel() else 1.0
    assert torch.allclose(x, y, rtol=tolerance, atol=tolerance * scale), (
        f"{what}: off by {float((x - y).abs().nan_to_num(math.inf).max()):.3g}"
    )
