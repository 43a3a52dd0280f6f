"""The verbs: what they accept, what they refuse and how they say it, and the plan."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import Plan, RegardError, RegardWarning, mask, normalize, score
from regard.engines import ENGINES

zeros = torch.zeros
VERBS = [regard.attend, regard.read, regard.explain]


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """A RegardError on one line with all of these words."""
    with pytest.raises(RegardError) as raised:
        yield
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 400
    for word in words:
        assert word in message, message


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_every_mistake_names_the_argument_what_was_found_what_is_wanted_and_what_to_do(verb: Any) -> None:
    q, k, v = zeros(2, 6, 5, 11), zeros(2, 3, 7, 11), zeros(2, 3, 7, 13)
    with refused("q has width D = 10", "k has D = 11", "wanted equal", "project one of them"):
        verb(q[..., :10], k, v)
    with refused("k: found G = 4 key heads for H = 6 query heads", "wanted H a multiple of G", "unsqueeze(1)"):
        verb(q, zeros(2, 4, 7, 11), zeros(2, 4, 7, 13))
    with refused("v: found S = 6 values for S = 7 keys", "(2, 3, 7, 11)", "(2, 3, 6, 13)", "one value a key"):
        verb(q, k, v[:, :, :6])
    with refused("v: found (2, 1, 7, 13)", "k is (2, 3, 7, 11)", "the same G key-value heads"):
        verb(q, k, v[:, :1])
    with refused("k: found leading axes (3,)", "q has (2,)", "wanted the same, 1, or none"):
        verb(q, zeros(3, 3, 7, 11), zeros(3, 3, 7, 13))
    with refused("v: found leading axes", "q has (2,)"):
        verb(q, k, zeros(5, 3, 7, 13))
    with refused("q: found (11,) of torch.float32", "(…, H, L, D)", "two axes or more"):
        verb(q[0, 0, 0], k, v)
    with refused("k: found", "of torch.int64", "wanted a floating tensor (…, G, S, D)"):
        verb(q, k.long(), v)
    with refused("v: found torch.float64", "q is torch.float32", "wanted the same", "v.to(q)"):
        verb(q, k, v.double())
    with refused("k: found list", "wanted a tensor"):
        verb(q, [[0.0]], v)
    with refused("mask: found str", "wanted an object of regard.mask"):
        verb(q, k, v, mask="causal")
    with refused("mask dense: found torch.int64, wanted booleans", "True = may look", "from_huggingface"):
        verb(q, k, v, mask=torch.ones(5, 7, dtype=torch.long))
    with refused("mask dense: found (B, H, L, S) = (1, 1, 7, 5)", "the read has (2, 6, 5, 7)"):
        verb(q, k, v, mask=torch.ones(7, 5, dtype=torch.bool))
    with refused("causal()", "L = 5", "S = 7", 'anchor="end"', 'anchor="start"'):
        verb(q, k, v, mask=mask.causal())


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_name_lists_the_known_ones_and_suggests_the_nearest(verb: Any) -> None:
    q = zeros(1, 1, 3, 4)
    with refused("score: unknown name 'cosin'", "did you mean 'cosine'?", "Known: cosine, dot, euclidean, scaled_dot"):
        verb(q, q, q, score="cosin")
    with refused("normalize: unknown name 'entmax'", "did you mean 'entmax15'?", "gumbel, hardmax, softmax, sparsemax"):
        verb(q, q, q, normalize="entmax")
    with refused("engine: unknown name 'flash'", "auto", "reference", "sdpa"):
        verb(q, q, q, engine="flash")
    with refused("engine: unknown name 'spda'", "did you mean 'sdpa'?"):
        verb(q, q, q, engine="spda")
    with refused("score: unknown name"):
        verb(q, q, q, score=score.Dot)  # the class, not an object


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 2.0, math.nan])
def test_dropout_is_a_probability(dropout: float) -> None:
    q = zeros(1, 1, 3, 4)
    with refused(f"dropout: found {dropout}", "0 ≤ dropout < 1"):
        regard.attend(q, q, q, dropout=dropout)


def test_a_batch_without_its_head_axis_is_told_about_it() -> None:
    q, k = zeros(4, 5, 8), zeros(3, 7, 8)
    with refused("G = 3", "H = 4", "(B, L, D) is read as (H, L, D)"):
        regard.attend(q, k, k)
    with refused("padding: lengths is for 4 batch rows, the read has B = 1", "unsqueeze(1)"):
        regard.attend(q, q, q, mask=mask.padding([1, 2, 3, 4]))


# ---- numbers that are not numbers -----------------------------------------------------------------------------------


def caught(*args: Tensor, **more: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        regard.attend(*args, **more)
    assert all(issubclass(w.category, RegardWarning) for w in found)
    assert all(w.filename == __file__ for w in found), "a warning points at the caller"
    return [str(w.message) for w in found]


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_numbers_that_are_not_finite_are_reported_with_how_many(engine: str) -> None:
    q, k, v = torch.randn(2, 6, 5, 11), torch.randn(2, 3, 7, 11), torch.randn(2, 3, 7, 13)
    assert caught(q, k, v, engine=engine) == []
    k[0, 1, 2, 3:5] = math.nan
    k[1, 0, 0, 0] = -math.inf
    (message,) = caught(q, k, v, engine=engine)
    for word in ("k (2, 3, 7, 11) holds 2 NaN and 1 ±inf", "overflow", "mask"):
        assert word in message
    q[0, 0, 0, 0] = math.inf
    both = caught(q, k, v, engine=engine)
    assert len(both) == 2
    assert both[0].startswith("q (2, 6, 5, 11) holds 0 NaN and 1 ±inf")


def test_numbers_that_are_not_finite_are_reported_once_for_a_line_of_code() -> None:
    q = torch.full((1, 1, 3, 4), math.nan)
    k = torch.randn(1, 1, 3, 4)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(5):
            regard.attend(q, k, k)
    assert len(found) == 1


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_what_a_mask_hides_is_not_reported(engine: str) -> None:
    q, k, v = torch.randn(2, 6, 5, 11), torch.randn(2, 3, 7, 11), torch.randn(2, 3, 7, 13)
    k[:, :, 4] = math.nan
    v[:, :, 4] = math.inf
    hidden = mask.dense(torch.arange(7) != 4)
    assert caught(q, k, v, engine=engine, mask=hidden) == []
    assert regard.attend(q, k, v, engine=engine, mask=hidden).isfinite().all()
    assert len(caught(q, k, v, engine=engine, mask=mask.padding([7, 3]))) == 1


def test_large_finite_numbers_are_no_reason_to_warn() -> None:
    big = torch.full((1, 1, 64, 8), 3e38)
    assert caught(big * 1e-30, big, big * 1e-30) == []


# ---- what comes back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_a_read_keeps_the_type_of_its_query(dtype: torch.dtype, engine: str) -> None:
    q, k, v = (torch.randn(2, n, 5, 8).to(dtype) for n in (6, 3, 3))
    r = regard.read(q, k, v, engine=engine, telemetry=["entropy", "peak", "distance", "spread", "bound"])
    assert r.output.dtype == dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    for name in ("lse", "entropy", "peak", "distance", "spread", "bound"):
        assert getattr(r, name).dtype == wide, name
    assert regard.attend(q, k, v, engine=engine).dtype == dtype


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_query_heads_share_key_heads_side_by_side(engine: str) -> None:
    q, k = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8)
    v = torch.arange(2.0).view(1, 2, 1, 1).expand(1, 2, 5, 3).contiguous()
    out = regard.attend(q, k, v, engine=engine)
    assert out[0, :, 0, 0].tolist() == pytest.approx([0, 0, 1, 1])


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_transposed_memories_are_read_as_they_stand(engine: str) -> None:
    base = torch.randn(2, 5, 3, 8)
    out = regard.attend(base.transpose(1, 2), base.transpose(1, 2), base.transpose(1, 2), engine=engine)
    plain = base.transpose(1, 2).contiguous()
    assert torch.allclose(out, regard.attend(plain, plain, plain, engine=engine), atol=1e-6)


def test_scores_and_weights_are_two_things() -> None:
    q, k = torch.randn(2, 6, 5, 11), torch.randn(2, 3, 7, 11)
    s, w = regard.scores(q, k), regard.weights(q, k)
    assert s.shape == w.shape == (2, 6, 5, 7)
    assert torch.allclose(torch.softmax(s, -1), w, atol=1e-6)
    assert regard.scores(q[0, 0], k[0, 0]).shape == (5, 7)


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_dropout_drops_weights_and_keeps_the_mean(engine: str) -> None:
    q, k, v = torch.randn(400, 1, 5, 8), torch.randn(1, 1, 7, 8), torch.eye(7).view(1, 1, 7, 7)
    q = q[:1].expand(400, 1, 5, 8)
    out = regard.attend(q, k, v, dropout=0.4, engine=engine)
    assert 0.3 < (out == 0).float().mean() < 0.5
    exact = regard.attend(q[:1], k, v)
    assert (out.mean(0, keepdim=True) - exact).abs().max() < 0.12
    assert torch.equal(regard.attend(q, k, v, engine=engine), regard.attend(q, k, v, engine=engine))
    r = regard.read(q, k, v, dropout=0.4, engine=engine)
    assert (r.output == 0).any()
    clean = regard.read(q, k, v, engine=engine)
    assert torch.allclose(r.lse, clean.lse, atol=1e-6)  # the look itself is not dropped


# ---- the plan -------------------------------------------------------------------------------------------------------


def test_a_plan_says_what_runs_why_and_what_it_costs_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = torch.randn(2, 6, 5, 11), torch.randn(2, 3, 7, 11), torch.randn(2, 3, 7, 13)
    for engine in ENGINES:
        monkeypatch.setattr(type(engine), "attend", lambda *_: pytest.fail("it ran"))
        monkeypatch.setattr(type(engine), "read", lambda *_: pytest.fail("it ran"))
    plan = regard.explain(q, k, v)
    assert isinstance(plan, Plan)
    assert plan.engine == "sdpa"
    assert plan.flops == 2 * 2 * 6 * 5 * 7 * (11 + 13)
    assert plan.bytes >= 2 * 6 * 5 * 13 * 4
    assert set(plan.refused) == {"flex", "triton"}  # which are for CUDA
    assert str(plan).startswith("engine   sdpa: the least time by rough count")
    other = regard.explain(q, k, v, normalize="sparsemax")
    assert other.engine == "reference"
    assert "only softmax is fused" in other.refused["sdpa"]
    assert "refused  sdpa: normalize Sparsemax" in str(other)
    assert other.to_dict()["refused"] == dict(other.refused)
    assert other.bytes > plan.bytes
    halved = regard.explain(q, k, v, mask=mask.causal("start"))
    assert halved.flops < plan.flops


def test_a_plan_prints_itself_on_a_console() -> None:
    from rich.console import Console

    q = torch.randn(1, 1, 3, 4)
    console = Console(width=200)
    with console.capture() as captured:
        console.print(regard.explain(q, q, q, score=score.Additive(4, 4, width=2)))
    assert "refused  sdpa: score Additive: vᵀ tanh" in captured.get()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"normalize": "entmax15"}, "normalize Entmax: only softmax is fused"),
        ({"normalize": normalize.GumbelSoftmax()}, "normalize GumbelSoftmax"),
        ({"normalize": normalize.Softmax(sink=0.0)}, "the fused kernel has no sink"),
        ({"score": score.Dot().capped(3.0)}, "the tanh cap is applied after the product"),
        ({"score": score.Learned.mlp(4, 4, 2)}, "no dot form"),
        ({"score": score.Concat(4, 4, 2)}, "does not factor"),
    ],
)
def test_the_fused_kernel_asked_for_where_it_cannot_run_raises_and_says_why(parts: Any, reason: str) -> None:
    q = torch.randn(1, 1, 3, 4)
    with refused('engine "sdpa" cannot run this', reason, 'engine="auto" takes another that can'):
        regard.attend(q, q, q, engine="sdpa", **parts)
    assert regard.read(q, q, q, telemetry=False, **parts).engine == "reference"


def test_a_subclass_of_softmax_is_not_taken_for_softmax() -> None:
    class Sharper(normalize.Softmax):
        def forward(self, scores: Tensor) -> Tensor:
            return super().forward(scores * 3)

    q = torch.randn(1, 1, 3, 4)
    assert regard.explain(q, q, q, normalize=Sharper()).engine == "reference"


def test_the_engine_is_the_one_that_costs_least_time() -> None:
    def engine(length: int, **parts: Any) -> str:
        q = torch.zeros(1, 4, length, 64)
        return regard.explain(q, q, q, **parts).engine

    assert engine(2048) == engine(2048, mask=mask.causal()) == "sdpa"
    assert engine(2048, mask=mask.window(64, 0)) == "tiled"
    assert engine(2048, normalize="entmax15") == engine(2048, score=score.Additive(64, 64, 16)) == "tiled"
    assert engine(3, normalize="entmax15") == "reference"


def test_a_plan_counts_the_tiles_that_run() -> None:
    q = torch.zeros(1, 2, 1000, 16)
    plan = regard.explain(q, q, q, mask=mask.window(10, 0), engine="tiled")
    assert plan.tiles is not None
    run, of = plan.tiles
    assert (run, of) == (2 * 16, 2 * 16 * 2)  # a block of 64 queries looks at 74 keys, which is one tile
    assert f"tiles    {run} run of {of}" in str(plan)
    assert plan.flops < regard.explain(q, q, q, engine="tiled").flops / 2
    halves = torch.eye(2, dtype=torch.bool).repeat_interleave(500, 0).repeat_interleave(500, 1)
    gapped = regard.explain(q, q, q, mask=mask.dense(halves) & mask.strided(2), engine="tiled")
    assert gapped.tiles is not None
    assert 0 < gapped.tiles[0] < gapped.tiles[1]
    assert plan.bound > 0
    assert "GFLOP/s" in str(plan)
