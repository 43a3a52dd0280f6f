"""The flex engine: what it computes, by FlexAttention run uncompiled here; compiled it needs CUDA (tests/gpu)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention as module

from regard import mask, normalize, position, score
from regard.engines import Reference
from regard.engines.flex import Flex, engine
from regard.errors import RegardError
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Softmax
from regard.plan import Wanted
from regard.score import ScaledDot, Score
from tests.engines.composing import IN, composed, gradients, lawful
from tests.laws.masks import MASKS
from tests.laws.normalisers import NORMALISERS
from tests.laws.scores import SCORES
from tests.laws.shapes import B, G, H, L, S
from tests.laws.truth import close, inputs, truth

FLEX = Flex(compiled=False)
WRAPPED = ["alibi", "relative bias", "capped", "capped alibi"]
LOWERED = [name for name in SCORES if name in WRAPPED or not SCORES[name].build().no_dot_form]
SOFT = [name for name, case in NORMALISERS.items() if case.merges]
NAMES = frozenset({"entropy", "bound", "distance"})
pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),  # the compiler asks for it
]


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention's dense forward without a trip through the compiler."""
    monkeypatch.setattr(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


@pytest.fixture
def backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention's dense backward runs on the CPU, once it is not asked whether it may."""
    torch._dynamo.reset()
    monkeypatch.setattr(module, "_validate_device", lambda *_: None)


# ---- truth ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("scored", LOWERED)
@pytest.mark.parametrize("normalised", SOFT)
def test_it_reads_what_the_definition_says(scored: str, normalised: str) -> None:
    turn = LOWERED.index(scored) + 5 * SOFT.index(normalised)
    for masked in [list(MASKS)[(turn + step) % len(MASKS)] for step in (0, 8)]:  # all masks come round
        c, t = lawful(scored, normalised, masked), truth(scored, normalised, masked)
        assert FLEX.refuses(c).endswith("on the CPU") == any(p.requires_grad for p in c.score.parameters())
        with torch.no_grad():
            assert FLEX.refuses(c) == ""
            close(FLEX.attend(c), t.output, f"{masked}: attend")
            names = NAMES if scored not in WRAPPED else NAMES - {"entropy"}
            r = FLEX.read(c, Wanted(names, groups=IN))
        close(r.output, t.output, f"{masked}: output")
        close(r.lse, t.lse, f"{masked}: lse")
        assert torch.equal(r.seen, t.seen), f"{masked}: seen"
        close(r.distance, t.distance, f"{masked}: distance", 1e-8)
        for name in IN:
            close(r.mass[name], t.mass[name], f"{masked}: mass of {name}")
        if "entropy" in names:
            close(r.entropy, t.entropy, f"{masked}: entropy", 1e-8)
        assert r.bound is not None
        assert (r.bound >= t.peak - 1e-12).all()
        assert (r.bound <= t.peak * S ** (1 / 32) + 1e-12).all()
        if NORMALISERS[normalised].sink is not None:
            assert r.sink is not None


PAIR = {name: IN[name] for name in ("some keys", "self")}
TRAINED = {
    "scaled dot": ("softmax", "dense"),
    "euclidean": ("tempered", "causal & padding"),
    "general per head": ("sink", "segments"),
    "relative bias": ("tempered sink per head", "window"),
    "capped alibi": ("tempered", "padding"),
    "keyed cosine": ("softmax", "none"),
}


@pytest.mark.usefixtures("backward")
@pytest.mark.parametrize("scored", TRAINED)
def test_every_gradient_is_that_of_the_reference(scored: str) -> None:
    c = lawful(scored, *TRAINED[scored])
    names = ["distance"] if scored in WRAPPED else ["distance", "entropy"]
    for found, wanted in zip(*(gradients(e, c, names, PAIR) for e in (FLEX, Reference())), strict=True):
        close(found, wanted, "gradient", 1e-8)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize(
    "part",
    [
        score.Euclidean().capped(3.0),
        (ScaledDot().capped(0.5) + position.ALiBi(H, "start")).capped(1.5),
        (ScaledDot() + position.RelativeBias(H, 2, "end")) + position.ALiBi(H, "end"),
        position.Rotary(ScaledDot() + position.ALiBi(H, "end"), anchor="end"),
        (score.Cosine(2.0) + position.ALiBi(H, "end")).keyed.capped(1.0),
    ],
    ids=["capped distance", "cap, bias, cap", "two biases", "rotary around a bias", "keyed around a bias"],
)
def test_steps_after_the_product_nest_in_any_order(part: Score) -> None:
    q, k, v = (torch.randn(B, n, m, 14, dtype=torch.float64) for n, m in ((H, L), (G, S), (G, S)))
    c = composed(q, k, v, part.double(), Softmax(0.5), mask.causal("end"))
    with torch.no_grad():
        found, wanted = (e.read(c, Wanted()) for e in (FLEX, Reference()))
    close(found.output, wanted.output, "output")
    close(found.lse, wanted.lse, "lse")


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("masked", ["causal", "window", "padding", "where"])
def test_lengths_that_are_no_multiple_of_a_tile_and_cross_several(masked: str) -> None:
    q, k, v = (torch.randn(1, n, m, 8, dtype=torch.float64) for n, m in ((2, 263), (1, 397), (1, 397)))
    m = {
        "causal": mask.causal("end"),
        "window": mask.window(7, 3, "start"),
        "padding": mask.padding([301]),
        "where": mask.where(lambda b, h, i, j: (i + j) % 5 != h),
    }[masked]
    c = composed(q, k, v, masked=m)
    found, wanted = (e.read(c, Wanted(NAMES, groups={"self": IN["self"]})) for e in (FLEX, Reference()))
    assert torch.equal(found.seen, wanted.seen)
    for name in ("output", "lse", "entropy", "distance"):
        close(getattr(found, name), getattr(wanted, name), name, 1e-7)
    close(found.mass["self"], wanted.mass["self"], "mass")


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_statistics_of_a_read_in_half_precision_are_taken_in_single(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(B, n, m, 32).to(dtype) for n, m in ((H, 29), (G, 67), (G, 67)))
    found = FLEX.read(composed(q, k, v, masked=mask.causal("end")), Wanted(NAMES))
    exact = Reference().read(composed(q.double(), k.double(), v.double(), masked=mask.causal("end")), Wanted(NAMES))
    assert found.output.dtype == dtype
    for name in ("lse", "entropy", "distance"):
        assert (getattr(found, name) - getattr(exact, name)).abs().max() < 1e-3, name


# ---- rows and slots that hold nothing -------------------------------------------------------------------------------


@pytest.mark.usefixtures("backward")
@pytest.mark.parametrize("normalised", ["softmax", "sink"])
def test_a_query_that_may_see_nothing_reads_nothing(normalised: str) -> None:
    for masked in ("padding", "segments"):
        c = lawful("dot", normalised, masked)
        leaves = [x.clone().requires_grad_() for x in (c.q, c.k, c.v)]
        r = FLEX.read(replace(c, q=leaves[0], k=leaves[1], v=leaves[2]), Wanted(NAMES, groups=IN))
        empty = r.seen == 0
        assert empty.any()
        assert (r.output[empty] == 0).all()
        assert (r.lse[empty] == -math.inf).all()
        assert r.entropy is not None
        assert r.bound is not None
        assert r.distance is not None
        for measured in (r.entropy, r.bound, r.distance, *r.mass.values()):
            assert (measured[empty] == 0).all()
        loss = r.output.sum() + r.entropy.sum() + r.distance.sum() + r.lse[~empty].sum()
        for x, gradient in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
            assert gradient.isfinite().all()
            assert x is not leaves[0] or (gradient[empty] == 0).all()


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("masked", [mask.padding([4, 4]), mask.padding([4, 4]) & mask.strided(1, "end")], ids=repr)
def test_rubbish_in_a_masked_slot_is_not_read(masked: Mask) -> None:
    q, k, v = (x.clone() for x in inputs("scaled dot"))
    clean = FLEX.read(composed(q, k, v, masked=masked), Wanted(NAMES, groups=IN))
    k[:, :, 4:] = v[:, :, 4:] = math.nan
    dirty = FLEX.read(composed(q, k, v, masked=masked), Wanted(NAMES, groups=IN))
    for name in ("output", "lse", "entropy", "distance", "bound"):
        close(getattr(dirty, name), getattr(clean, name), name)


# ---- no silent choice -----------------------------------------------------------------------------------------------


def test_what_it_does_not_run_it_refuses_with_the_reason() -> None:
    q, k, v = (torch.randn(2, n, 4, 8) for n in (6, 3, 3))

    class Odd(score.Bias):
        def forward(self, grid: Grid) -> Tensor:
            return (grid.j % 2).float()

    def reason(**more: Any) -> str:
        with torch.no_grad():
            return FLEX.refuses(composed(q, k, v, **more))

    assert "does not factor" in reason(scored=score.Additive(8, 8, 3))
    assert "does not factor" in reason(scored=score.Additive(8, 8, 3).capped(1.0))
    assert "the bias Odd" in reason(scored=ScaledDot() + Odd())
    assert "softmax alone" in reason(normalised=normalize.Sparsemax())
    assert "softmax alone" in reason(normalised=normalize.TopK(2))
    assert "dropout" in reason(dropout=0.1)
    assert "nothing to read" in FLEX.refuses(composed(q, k[:, :, :0], v[:, :, :0]))
    assert reason() == ""
    assert "on cpu" in Flex().refuses(composed(q, k, v))
    assert "no backward" in FLEX.refuses(composed(q.requires_grad_(), k, v))


@pytest.mark.usefixtures("direct")
def test_telemetry_it_does_not_measure_is_an_error_by_name_and_none_otherwise() -> None:
    c = lawful("scaled dot", "softmax", "none")
    with pytest.raises(RegardError, match=r'engine "flex" does not measure peak, spread; ask for fewer'):
        FLEX.read(c, Wanted(frozenset({"peak", "spread", "entropy"})))
    r = FLEX.read(c, Wanted(cheap=True))
    assert r.peak is None
    assert r.spread is None
    assert r.entropy is not None
    c = lawful("capped", "softmax", "none")
    with pytest.raises(RegardError, match="entropy of a score with a bias or a cap"):
        FLEX.read(c, Wanted(frozenset({"entropy"})))
    assert FLEX.read(c, Wanted(cheap=True)).entropy is None


def test_the_cost_counts_the_tiles_that_run_and_what_is_held() -> None:
    q, k, v = (torch.randn(1, n, 640, 64) for n in (4, 2, 2))
    whole, window = (Flex().cost(composed(q, k, v, masked=m)) for m in (None, mask.window(64, 0)))
    assert (whole.tiles, whole.held) == ((100, 100), 0)
    assert (window.tiles, window.held) == ((4 * 9, 100), 640 * 640)
    assert whole.flops == 2 * 4 * 640**2 * 128 > 2 * window.flops
    assert window.seconds < Flex().cost(composed(q, k, v, masked=mask.window(64, 0)), telemetry=True).seconds


def test_a_bias_built_for_other_heads_says_so() -> None:
    q, k, v = (torch.randn(2, n, 4, 8) for n in (6, 3, 3))
    with pytest.raises(RegardError, match="built for H = 5 heads"):
        FLEX.attend(composed(q, k, v, ScaledDot() + position.ALiBi(5)))


# ---- the compiler ---------------------------------------------------------------------------------------------------


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the compiler does before it writes a kernel, which it can for CUDA alone."""
    torch._dynamo.reset()
    engine._compiled.cache_clear()
    monkeypatch.setattr(engine, "_BACKEND", "aot_eager")


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("masked", ["none", "window", "padding", "segments", "dense", "blocks", "causal & padding"])
def test_the_compiler_takes_masks_and_steps_in_one_graph(masked: str) -> None:
    for scored in ("capped alibi", "relative bias"):
        c = lawful(scored, "tempered", masked)
        with torch.no_grad():
            close(Flex().attend(c), truth(scored, "tempered", masked).output, f"{scored}, {masked}", 1e-8)


@pytest.mark.usefixtures("traced")
def test_more_kinds_of_masks_than_the_compiler_compiles_one_function_for() -> None:
    kinds: list[Mask | None] = [
        *(None, mask.causal(), mask.window(3, 0), mask.window(5, 0), mask.padding([40]), mask.strided(3)),
        *(mask.segments(torch.arange(48) // 16), mask.blocks(torch.eye(3, dtype=torch.bool), 16)),
        *(mask.causal() & mask.padding([30]), mask.causal() | mask.strided(2)),
        *(mask.where(lambda b, h, i, j: i % 2 == 0), mask.where(lambda b, h, i, j: j % 3 == 0)),
    ]
    q, k, v = (torch.randn(1, n, 48, 16, dtype=torch.float64) for n in (2, 1, 1))
    with torch.no_grad():
        for m in kinds:
            close(Flex().attend(composed(q, k, v, masked=m)), Reference().attend(composed(q, k, v, masked=m)), repr(m))
