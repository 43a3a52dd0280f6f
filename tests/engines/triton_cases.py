"""The laws on Triton's kernels, for its interpreter, which runs them on the CPU; test_triton.py starts it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard import mask, position, score
from regard.engines import Reference
from regard.engines.triton import Triton
from regard.errors import RegardError
from regard.mask import Mask
from regard.normalize import Entmax, Normalizer, Softmax, Sparsemax
from regard.plan import Composition, Wanted
from regard.reading import TELEMETRY, Reading
from regard.score import ScaledDot, Score
from tests.engines.composing import IN, composed, gradients, lawful
from tests.laws.masks import MASKS
from tests.laws.normalisers import NORMALISERS
from tests.laws.scores import SCORES
from tests.laws.truth import check_truth, close, truth

TRITON = Triton(tile=16, columns=16)
NAMES = TELEMETRY - {"mass"}
RUN = [name for name in SCORES if name not in ("perceptron", "bilinear module")]
SOFT = [name for name, case in NORMALISERS.items() if case.merges]
SPARSE = ["sparsemax", "entmax 1.5", "entmax 1.3", "learnt alpha per head"]
BY_KEY = {name: IN[name] for name in ("some keys", "keys of a row")}


def check_law(scored: str, normalised: str, masked: str, groups: dict[str, Mask] | None = None) -> None:
    c, t = lawful(scored, normalised, masked), truth(scored, normalised, masked)
    groups = groups or BY_KEY
    assert TRITON.refuses(c) == ""
    with torch.no_grad():
        r = TRITON.read(c, Wanted(NAMES, groups=groups))
    check_truth(r, replace(t, mass={name: t.mass[name] for name in groups}), masked)


# ---- truth ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scored", RUN)
def test_it_reads_every_score_as_the_definition_says(scored: str) -> None:
    turn = RUN.index(scored)
    check_law(scored, SOFT[turn % len(SOFT)], list(MASKS)[turn])


@pytest.mark.parametrize("normalised", SPARSE)
def test_it_reads_every_normaliser_as_the_definition_says(normalised: str) -> None:
    check_law("additive" if normalised == "entmax 1.5" else "dot", normalised, "dense")


@pytest.mark.parametrize("masked", [*list(MASKS)[len(RUN) :], "window"])
def test_it_reads_under_every_mask_as_the_definition_says(masked: str) -> None:
    check_law("scaled dot", "softmax", masked)


def test_it_measures_groups_that_differ_from_query_to_query() -> None:
    check_law("scaled dot", "tempered", "(causal | dense) & ~segments", IN)


def additive() -> Score:
    part = score.Additive(11, 11, 19)
    for parameter in part.parameters():
        nn.init.normal_(parameter, 0.0, 0.4)
    return part


def biased() -> Score:
    table = position.RelativeBias(2, 3, "end")
    nn.init.normal_(table.weight)
    return ((score.Euclidean().capped(4.0) + table).capped(3.0) + position.ALiBi(2, "start")).capped(2.0)


def shapes(
    L: int = 37,
    S: int = 53,
    heads: tuple[int, int] = (2, 1),
    D: int = 11,
    E: int = 13,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor, Tensor]:
    (H, G), randn = heads, torch.randn
    return randn(1, H, L, D, dtype=dtype), randn(1, G, S, D, dtype=dtype), randn(1, G, S, E, dtype=dtype)


def learning(*x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (one.detach().clone().requires_grad_() for one in x)
    return q, k, v


LONG: dict[str, tuple[Any, Normalizer, Mask | None]] = {
    "softmax": (None, Softmax(0.5), None),
    "causal": (None, Softmax(), mask.causal("end")),
    "window and sink": (
        score.Cosine(5.0),
        Softmax(2.0, sink=nn.Parameter(torch.tensor([0.2, -1.0]))),
        mask.window(17, 3, "end"),
    ),
    "gaps": (score.Euclidean(), Softmax(3.0), mask.strided(3, "end") & mask.where(lambda b, h, i, j: i % 5 != h)),
    "additive": (additive, Softmax(), mask.causal("start")),
    "sparsemax": (None, Sparsemax(), mask.causal("end")),
    "entmax, gaps": (None, Entmax(1.5), mask.strided(2, "end") | mask.window(1, 0, "end")),
    "learnt alphas": (None, Entmax(nn.Parameter(torch.tensor([1.2, 2.4]))), mask.padding([21])),
    "cap of biases": (biased, Softmax(0.5), mask.strided(2, "end")),
    "bias, entmax": (lambda: ScaledDot() + position.RelativeBias(2, 3, "start"), Entmax(1.5), mask.padding([21])),
    "additive, learnt alpha": (additive, Entmax(nn.Parameter(torch.tensor(1.7))), None),
}


@pytest.mark.parametrize("name", LONG)
def test_across_tiles_everything_and_every_gradient_is_that_of_the_reference(name: str) -> None:
    build, normaliser, m = LONG[name]
    scored = build if build is None or isinstance(build, Score) else build().double()
    c = composed(*shapes(19, 29), scored, normaliser.double(), m)
    found, wanted = (engine.read(c, Wanted(NAMES, groups=BY_FIRST)) for engine in (TRITON, Reference()))
    check_alike(found, wanted, 1e-9)
    close(TRITON.attend(c), wanted.output, "attend")
    for x, y in zip(*(gradients(engine, c, sorted(NAMES), BY_FIRST) for engine in (TRITON, Reference())), strict=True):
        close(x, y, "gradient", 1e-8)


@pytest.mark.parametrize(("scored", "normalised"), [("general per head", "tempered"), ("dot", "learnt alpha per head")])
def test_heads_that_share_keys_give_them_the_gradients_of_the_reference(scored: str, normalised: str) -> None:
    c = lawful(scored, normalised, "dense")
    for x, y in zip(*(gradients(engine, c, ["entropy"], BY_KEY) for engine in (TRITON, Reference())), strict=True):
        close(x, y, "gradient", 1e-8)


BY_FIRST: dict[str, Mask] = {"first": mask.where(lambda b, h, i, j: j < 3)}


def check_alike(found: Reading, wanted: Reading, tolerance: float) -> None:
    assert torch.equal(found.seen, wanted.seen)
    for name in ("output", "lse", *sorted(NAMES)):
        close(getattr(found, name), getattr(wanted, name), name, tolerance)
    for name in wanted.mass:
        close(found.mass[name], wanted.mass[name], name, tolerance)


def test_gradients_of_a_read_without_statistics_are_those_of_the_reference() -> None:
    leaves = learning(*shapes(19, 37))
    for normaliser in (Softmax(), Entmax(1.5)):
        found, wanted = (
            torch.autograd.grad(engine.attend(composed(*leaves, normalised=normaliser)).square().sum(), leaves)
            for engine in (TRITON, Reference())
        )
        for x, y in zip(found, wanted, strict=True):
            close(x, y, "gradient", 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sums_are_taken_in_single_precision(dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in shapes(17, 19, (1, 1), D=32, E=32))
    for scored, normaliser in ((None, Softmax()), (score.Euclidean(), Softmax(8.0)), (None, Entmax(1.5))):
        c = composed(q, k, v, scored, normaliser, mask.causal("end"))
        found = TRITON.read(c, Wanted(NAMES))
        exact = Reference().read(replace(c, q=q.double(), k=k.double(), v=v.double()), Wanted(NAMES))
        assert found.output.dtype == dtype
        assert (found.output - exact.output).abs().max() < (1e-5 if dtype == torch.float32 else 2e-2)
        for name in ("lse", "entropy", "peak", "distance", "spread"):
            assert (getattr(found, name) - getattr(exact, name)).abs().max() < 2e-3, name
        gave = [gradients(engine, c, ["entropy"], {}) for engine in (TRITON, Reference())]
        for x, y in zip(*gave, strict=True):
            assert x.dtype == dtype
            assert (x - y).abs().max() < (1e-4 if dtype == torch.float32 else 5e-2) * y.abs().max()


# ---- rows that are hard ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normaliser", [Softmax(), Entmax(1.05), Entmax(1.5), Sparsemax(), Entmax(3.0)], ids=str)
def test_rows_that_are_hard_are_read_as_the_reference_reads_them(normaliser: Normalizer) -> None:
    S = 19
    rows = [
        torch.zeros(S),  # all alike
        torch.full((S,), 1e4),
        torch.cat([torch.tensor([1e4]), torch.full((S - 1,), -1e4)]),
        torch.cat([torch.full((S - 1,), -1e4), torch.tensor([1e4])]),
        1e4 * torch.randn(S),
        torch.linspace(-1.0, 1.0, S),
        torch.cat([torch.zeros(S // 2), torch.full((S - S // 2,), -1e-9)]),  # nearly ties
        torch.cat([torch.zeros(1), torch.full((S - 1,), -1.0)]),  # at the edge of sparsemax' support
        torch.arange(S) * 1e-3,
    ]
    q = torch.stack(rows).double()[None, None]  # scores of a memory of unit vectors are the queries themselves
    k = torch.eye(S, dtype=torch.float64)[None, None]
    v = torch.randn(1, 1, S, 5, dtype=torch.float64)
    c = composed(q, k, v, score.Dot(), normaliser)
    found, wanted = (engine.read(c, Wanted(NAMES)) for engine in (TRITON, Reference()))
    assert (
        torch.equal(found.peak_at, wanted.peak_at)
        if found.peak_at is not None and wanted.peak_at is not None
        else False
    )
    check_alike(found, wanted, 1e-7 if normaliser.__class__ is Entmax else 1e-9)


@pytest.mark.parametrize("normaliser", [Softmax(), Entmax(1.5)], ids=str)
def test_rows_with_one_key_and_with_none(normaliser: Normalizer) -> None:
    leaves = learning(*shapes(19, 19, (1, 1)))
    seen = torch.zeros(19, 19, dtype=torch.bool)
    seen[3, 17] = seen[18, 0] = True
    for m in (mask.dense(seen), mask.dense(seen) & mask.strided(1)):  # an interval, and as if there were gaps
        r = TRITON.read(composed(*leaves, normalised=normaliser, masked=m), Wanted(NAMES, groups=BY_FIRST))
        empty = r.seen[0, 0] == 0
        assert empty.sum() == 17
        close(r.output[0, 0, 3], leaves[2][0, 0, 17], "one key", 1e-12)
        assert r.peak_at is not None
        assert r.peak_at[0, 0].tolist() == [{3: 17, 18: 0}.get(i, -1) for i in range(19)]
        assert (r.output[0, 0, empty] == 0).all()
        assert (r.lse[0, 0, empty] == -math.inf).all()
        for measured in (r.entropy, r.peak, r.distance, r.mass["first"]):
            assert measured is not None
            assert (measured[0, 0, empty] == 0).all()
        assert r.entropy is not None
        assert r.distance is not None
        loss = r.output.sum() + r.entropy.sum() + r.distance.sum() + r.lse[r.seen > 0].sum()
        dq, dk, dv = torch.autograd.grad(loss, leaves)
        assert (dq[0, 0, empty] == 0).all()
        assert dk[0, 0, 0].any()
        assert not dk[0, 0, 1:17].any()
        assert (dv[0, 0, [0, 17]] == 1).all()


@pytest.mark.parametrize("m", [mask.padding([29]), mask.padding([29]) & mask.strided(2, "end")], ids=repr)
def test_rubbish_in_a_masked_slot_reaches_neither_the_read_nor_a_gradient(m: Mask) -> None:
    found = []
    q, k, v = shapes(19, 37)
    for rubbish in (0.0, math.nan):
        k[:, :, 29:] = v[:, :, 29:] = rubbish
        leaves = learning(q, k, v)
        r = TRITON.read(composed(*leaves, masked=m), Wanted(NAMES))
        assert r.entropy is not None
        found.append([r.output, r.entropy, *torch.autograd.grad(r.output.square().sum() + r.entropy.sum(), leaves)])
    for clean, dirty in zip(*found, strict=True):
        close(dirty, clean, "read and gradients")


def test_parts_merge_into_the_whole() -> None:
    q, k, v = shapes(19, 37)
    whole = TRITON.read(composed(q, k, v), Wanted(NAMES))
    parts = [TRITON.read(composed(q, k[:, :, at], v[:, :, at]), Wanted(NAMES)) for at in (slice(11), slice(11, 37))]
    merged = Reading.merge(*parts)
    for name in ("output", "lse", "entropy", "peak"):
        close(getattr(merged, name), getattr(whole, name), name)
    assert TRITON.read(composed(q, k, v, normalised=Sparsemax()), Wanted()).no_merge


# ---- memory and work ------------------------------------------------------------------------------------------------


class Largest(TorchDispatchMode):
    """Remembers the largest floating tensor that any operation gave out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numel, self.by = 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for x in found if isinstance(found, tuple | list) else (found,):
            if isinstance(x, Tensor) and x.is_floating_point() and x.numel() > self.numel:
                self.numel, self.by = x.numel(), str(func)
        return found


def test_a_read_with_its_gradients_never_holds_a_number_for_every_pair() -> None:
    leaves = learning(*shapes(151, 149, (1, 1), 4, 4))
    with Largest() as largest:
        r = TRITON.read(composed(*leaves, masked=mask.window(20, 0, "end")), Wanted(NAMES))
        torch.autograd.backward(r.output.sum())
    assert largest.numel < 151 * 149 // 8, largest.by


@pytest.mark.parametrize(
    ("m", "live"),
    [
        (None, 16),
        (mask.causal(), 10),
        (mask.window(8, 0), 7),
        (mask.segments(torch.arange(64) // 16), 4),
        (mask.blocks(torch.eye(4, dtype=torch.bool)[[1, 3, 0, 2]], 16), 4),
        (mask.strided(32) & mask.causal(), 6),
        (mask.padding([17]), 8),
    ],
    ids=repr,
)
def test_tiles_that_nobody_sees_are_never_touched(m: Mask | None, live: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.engines.triton.kernels import backward, forward, tiles

    touched = []

    def counted(*args: Any, **more: Any) -> Any:
        touched.append(1)
        return tiles.product(*args, **more)

    for module in (forward, backward):
        monkeypatch.setattr(module, "product", counted)
    leaves = learning(*shapes(64, 64, (1, 1)))
    out = TRITON.attend(composed(*leaves, masked=m))
    assert len(touched) == live
    torch.autograd.backward(out.sum())
    assert len(touched) == 3 * live


# ---- no silent choice -----------------------------------------------------------------------------------------------


def test_groups_that_differ_from_query_to_query_are_measured_under_softmax_alone() -> None:
    c = lawful("dot", "sparsemax", "none")
    with pytest.raises(RegardError, match=r"groups: self, odd heads differ from query to query"):
        TRITON.read(c, Wanted(groups=IN))


def test_cheap_telemetry_is_all_of_it_and_none_is_none() -> None:
    c = lawful("dot", "softmax", "none")
    every, nothing = TRITON.read(c, Wanted(cheap=True)), TRITON.read(c, Wanted())
    for name in NAMES:
        assert getattr(every, name) is not None
        assert getattr(nothing, name) is None


# ---- PyTorch's own checks -------------------------------------------------------------------------------------------


def test_the_operator_is_registered_as_pytorch_wants_it() -> None:
    from regard.engines.triton.lowering import lowered
    from regard.engines.triton.operators import triton_read

    scored = (score.Euclidean() + position.RelativeBias(2, 2, "end")).capped(2.0)
    alphas = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
    low, v = lowered(composed(*shapes(5, 7), scored.double(), Entmax(alphas)), 16)
    made, sight = low.recipe, low.sight
    learnt = [None if x is None else x.detach().requires_grad_() for x in low.scores[:-1]]
    edges = (sight.lo, sight.hi, sight.first, sight.last, None, None)
    steps = [n for step in made.steps for n in step]
    given = (*learning(made.q, made.k, v), *learnt, low.scores[-1], *edges, made.scale, steps, True, 16, 16)
    torch.library.opcheck(triton_read, given)


@pytest.mark.parametrize("m", [None, mask.causal("end"), mask.strided(2, "end")], ids=repr)
def test_a_read_compiles_in_one_graph_with_its_gradients(m: Mask | None) -> None:
    torch._dynamo.reset()
    leaves = learning(*shapes(5, 7))

    def look(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        r = TRITON.read(composed(q, k, v, ScaledDot(), Softmax(), m), Wanted(NAMES))
        assert r.entropy is not None
        return r.output.sum(-1) + r.lse + r.entropy

    compiled = torch.compile(look, fullgraph=True, backend="aot_eager")
    found, wanted = (
        [out, *torch.autograd.grad(out.square().sum(), leaves)] for out in (f(*leaves) for f in (compiled, look))
    )
    for x, y in zip(found, wanted, strict=True):
        close(x, y, "compiled")


def test_rotary_queries_are_turned_before_the_kernel() -> None:
    q, k, v = shapes(19, 37, D=12)
    c: Composition = composed(q, k, v, position.Rotary(ScaledDot(), anchor="end").keyed, masked=mask.causal("end"))
    close(TRITON.attend(c), Reference().attend(c), "output")
