"""The tiled engine beyond the laws: extremes, memory, dropout, threads, forks, the compiler, and what it refuses."""

from __future__ import annotations

import math
import multiprocessing
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import RegardError, mask, normalize, position, score
from regard.engines import Tiled
from regard.engines.tiled import by_reference, calls, ops
from regard.kernels import blas, workers
from regard.mask import tiles as mask_tiles
from regard.normalize import Normalizer, TopK

TOP = TopK(6)


def randn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def inputs(L: int = 37, S: int = 41, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [randn(2, 6, L, 11, dtype=dtype), randn(2, 3, S, 11, dtype=dtype), randn(2, 3, S, 13, dtype=dtype)]


@pytest.fixture
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiled, "rows", 16)
    monkeypatch.setattr(Tiled, "columns", 16)


def both(*given: Tensor, **parts: Any) -> tuple[regard.Reading, regard.Reading]:
    wide = [x.detach().double() for x in given]
    truth = regard.read(*wide, engine="reference", **parts)
    return regard.read(*given, engine="tiled", **parts), truth


# ---- numbers at their limits ----------------------------------------------------------------------------------------


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


# ---- dropout and noise ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize("normalised", ["softmax", "entmax15", TOP, "hardmax"], ids=str)
@pytest.mark.parametrize("masked", [None, mask.strided(2, "end")])
def test_dropout_is_the_same_forward_and_backward(normalised: str | Normalizer, masked: Any) -> None:
    q, k, v = inputs(7, 9)

    def read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(1)
        return regard.attend(q, k, v, normalize=normalised, mask=masked, dropout=0.4, engine="tiled")

    if normalised == "hardmax":  # its gradient is another's, by intent
        assert torch.autograd.gradcheck(lambda v: read(q.detach(), k.detach(), v), (v,), fast_mode=True)
    else:
        assert torch.autograd.gradcheck(read, (q, k, v), fast_mode=True, atol=1e-5)
    assert not torch.equal(
        regard.attend(q, k, v, dropout=0.4, engine="tiled"), regard.attend(q, k, v, dropout=0.4, engine="tiled")
    )


@pytest.mark.usefixtures("_small_tiles")
@pytest.mark.parametrize("normalised", ["softmax", "entmax15", TOP, "hardmax"], ids=str)
def test_dropout_leaves_the_mean_where_it_is_and_drops_each_weight_as_often_as_asked(
    normalised: str | Normalizer,
) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 40, 4) / 4
    v = torch.eye(40).view(1, 1, 40, 40)
    q = q.expand(1, 1, 4000, 4)
    out = regard.attend(q, k, v, normalize=normalised, dropout=0.3, engine="tiled")
    clean = regard.attend(q, k, v, normalize=normalised, engine="tiled")
    seen = clean > 0
    assert abs((out[seen] == 0).float().mean() - 0.3) < 0.02
    assert torch.allclose(out[out > 0], (clean / 0.7)[out > 0], rtol=1e-4)
    assert torch.allclose(out.mean(2), clean.mean(2), atol=0.03)
    together = (out[0, 0] == 0).float()[:, seen[0, 0, 0]]
    if together.shape[1] > 2:  # no two keys are dropped together more than chance has it, and no two queries either
        assert torch.corrcoef(together.T).fill_diagonal_(0).abs().max() < 0.08
        assert (together[1:] == together[:-1]).float().mean() < 0.62


def test_gumbel_noise_draws_each_key_as_often_as_the_softmax_says() -> None:
    torch.manual_seed(0)
    k = torch.tensor([[0.0], [1.0], [2.0], [-1.0]]).view(1, 1, 4, 1)
    q = torch.ones(1, 1, 20_000, 1)
    v = torch.eye(4).view(1, 1, 4, 4)
    drawn = normalize.GumbelSoftmax(0.5, hard=True).train()
    out = regard.attend(q, k, v, score="dot", normalize=drawn, engine="tiled")
    assert ((out == 0) | ((out - 1).abs() < 1e-5)).all()
    assert torch.allclose(out.mean(2).flatten(), torch.softmax(k.flatten(), 0), atol=0.015)
    assert drawn.step == 1
    soft = regard.attend(q, k, v, score="dot", normalize=normalize.GumbelSoftmax(0.5).train(), engine="tiled")
    assert torch.allclose(soft.sum(-1), torch.ones(1, 1, 20_000), atol=1e-5)
    seeded = [
        regard.attend(
            q, k, v, normalize=normalize.GumbelSoftmax(generator=torch.Generator().manual_seed(3)), engine="tiled"
        )
        for _ in range(2)
    ]
    assert torch.equal(*seeded)


@pytest.mark.usefixtures("_small_tiles")
def test_gumbel_noise_has_the_gradient_of_its_draw() -> None:
    q, k, v = inputs(5, 7)

    def read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        part = normalize.GumbelSoftmax(0.7, generator=torch.Generator().manual_seed(2)).train()
        return regard.attend(q, k, v, normalize=part, engine="tiled")

    assert torch.autograd.gradcheck(read, (q, k, v), fast_mode=True, atol=1e-5)
    part = score.Learned.mlp(11, 11, 3).double()  # drawn in bands, by the reference

    def learnt(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        noise = normalize.GumbelSoftmax(0.7, generator=torch.Generator().manual_seed(2)).train()
        return regard.attend(q, k, v, score=part, normalize=noise, engine="tiled")

    assert torch.autograd.gradcheck(learnt, (q, k, v), fast_mode=True, atol=1e-5)


# ---- gaps -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_tiles")
def test_a_mask_with_gaps_is_read_by_its_bits_and_a_score_that_no_kernel_knows_in_bands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, v = inputs(150, 41)
    scored = score.Learned.mlp(11, 11, 3).double()
    cases: list[dict[str, Any]] = [
        {"mask": mask.strided(3, "end") & mask.window(20, 9, "end")},
        {"mask": mask.strided(3, "end"), "score": score.ScaledDot() + position.ALiBi(6, "end")},
        {"mask": mask.causal("end"), "score": scored, "normalize": "sparsemax"},
    ]
    for parts in cases:
        whole = regard.read(q, k, v, engine="reference", groups={"self": mask.window(0, 0, "end")}, **parts)
        monkeypatch.setattr(mask_tiles, "_PAIRS", 3 * 16**2)  # three tiles at a time
        monkeypatch.setattr(by_reference, "HELD", 12 * 41 * 20)
        r = regard.read(q, k, v, engine="tiled", groups={"self": mask.window(0, 0, "end")}, **parts)
        for name in ("output", "lse", "entropy", "peak", "distance", "spread"):
            assert torch.allclose(getattr(r, name), getattr(whole, name), atol=1e-9), name
        assert torch.allclose(r.mass["self"], whole.mass["self"])
        assert r.peak_at is not None
        assert whole.peak_at is not None
        assert torch.equal(r.peak_at, whole.peak_at)
        grads = [
            torch.autograd.grad(x.output.sum() + x.entropy.sum() + x.spread.sum(), (q, k, v))  # type: ignore[union-attr]
            for x in (r, whole)
        ]
        for one, other in zip(*grads, strict=True):
            assert torch.allclose(one, other, atol=1e-9)


# ---- memory ---------------------------------------------------------------------------------------------------------

MEMORY = """
import sys, torch, regard
from regard import mask, score
def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1024
def go(L):
    q, k, v = (torch.randn(1, 1, L, 32, requires_grad=True) for _ in range(3))
    part = score.Additive(32, 32, 16)
    for parts in ({}, {"mask": mask.window(256, 0)}, {"normalize": "entmax15", "mask": mask.window(256, 0)},
                  {"score": part, "mask": mask.window(256, 0)}, {"mask": mask.strided(97) & mask.window(600, 0)}):
        regard.read(q, k, v, engine="tiled", **parts).output.sum().backward()
go(600)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
go(12000)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the high-water mark where Linux keeps it")
def test_memory_is_of_the_order_of_the_inputs() -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 150  # MiB; the weights of one head alone would take 549


# ---- threads and forks ----------------------------------------------------------------------------------------------


def test_any_number_of_threads_gives_the_same_read() -> None:
    q, k, v = (x.detach() for x in inputs(700, 700, torch.float32))
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(regard.attend(q, k, v, engine="tiled"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_python_threads_may_call_at_once() -> None:
    q, k, v = inputs(300, 300, torch.float32)
    wanted = regard.attend(q, k, v, engine="tiled")
    found: list[Tensor] = []

    def call() -> None:
        for _ in range(5):
            out = regard.attend(q, k, v, engine="tiled")
            torch.autograd.grad(out.sum(), q)
            found.append(out.detach())

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 20
    assert all(torch.equal(x, wanted) for x in found)


def _in_child(given: list[Tensor], answer: Any) -> None:
    torch.set_num_threads(1)  # as every data loader's worker does: torch's own threads do not survive a fork
    out = regard.attend(*given, engine="tiled").sum().item()
    torch.get_num_threads = lambda: 3
    taken: list[int] = []
    workers.share(lambda first, last: taken.append(first), [(n, n + 1) for n in range(9)])
    answer.put((out, sorted(taken)))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_makes_threads_of_its_own() -> None:
    given = [x.detach() for x in inputs(700, 700, torch.float32)]
    wanted = regard.attend(*given, engine="tiled").sum().item()  # the parent's threads are running
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(given, answer))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    found, taken = answer.get()
    assert found == pytest.approx(wanted, rel=1e-5)
    assert taken == list(range(9))


def test_an_error_in_a_kernel_reaches_the_caller() -> None:
    def broken(first: int, last: int) -> None:
        raise ValueError(f"{first}-{last}")

    with pytest.raises(ValueError, match="-"):
        workers.share(broken, [(0, 1), (1, 2), (2, 3)])


# ---- the compiler, autograd and functorch ---------------------------------------------------------------------------


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


# ---- in a fresh process ---------------------------------------------------------------------------------------------


def test_the_compiler_is_not_imported_by_a_read() -> None:
    code = (
        "import sys, torch, regard; q = torch.randn(1, 2, 5, 4, requires_grad=True);"
        "regard.attend(q, q, q, engine='tiled').sum().backward();"
        "print([m for m in ('torch._dynamo', 'sympy', 'triton') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_new_length_compiles_nothing() -> None:
    from regard.engines.tiled import softmax

    for L, S in ((5, 7), (64, 300), (1, 1)):
        q, k, v = inputs(L, S)
        regard.read(q, k, v, mask=mask.causal("end"), engine="tiled", groups={"a": torch.ones(S, dtype=torch.bool)})
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
        regard.attend(q, k, v, mask=mask.strided(2, "end"), engine="tiled", dropout=0.1).sum().backward()
    known = {f.__name__: len(f.signatures) for f in (softmax.forward, softmax.backward)}
    assert max(known.values()) <= 2, known  # single and double precision


def test_unaligned_tables_are_taken_apart() -> None:
    assert calls.strides(torch.zeros(2, 3, 5, 7)) == (105, 35, 7)
    assert calls.rows_apart(torch.zeros(1, 1, 7, 5).transpose(2, 3)).is_contiguous()
