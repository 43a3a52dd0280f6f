"""Normalisers: known values, optimality, gradients, draws."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import regard
from regard import RegardError, normalize
from regard.normalize import Annealed, Entmax, GumbelSoftmax, Hardmax, Normalizer, Softmax, Sparsemax, TopK, solved

F64 = torch.float64
INF = math.inf
TOY = torch.tensor([1.0, 0.5, 0.0, -0.8], dtype=F64)

ALL: dict[str, Callable[[], Normalizer]] = {
    "softmax": Softmax,
    "tempered": lambda: Softmax(0.5),
    "sink": lambda: Softmax(sink=0.0),
    "sparsemax": Sparsemax,
    "entmax 1.5": lambda: Entmax(1.5),
    "entmax 1.3": lambda: Entmax(1.3),
    "entmax 3": lambda: Entmax(3.0),
    "learnt alpha": lambda: Entmax(nn.Parameter(torch.tensor(1.4))),
    "top 1": lambda: TopK(1),
    "top 4": lambda: TopK(4),
    "hardmax": Hardmax,
    "gumbel": lambda: GumbelSoftmax(0.5),
    "hard gumbel": lambda: GumbelSoftmax(0.5, hard=True),
    "gumbel in eval": lambda: GumbelSoftmax(0.5).eval(),
}
every_part = pytest.mark.parametrize("build", ALL.values(), ids=ALL)
ALPHAS = [1.05, 1.25, 1.5, 1.7, 2.0, 3.0]


def jacobian(part: Normalizer, s: Tensor) -> Tensor:
    found: Tensor = torch.autograd.functional.jacobian(part, s)
    return found


# ---- every normaliser -----------------------------------------------------------------------------------------------


@every_part
def test_a_row_is_a_distribution_and_a_hidden_key_has_no_weight(build: Callable[[], Normalizer]) -> None:
    s = 3 * torch.randn(50, 9, dtype=F64)
    s[:, 2] = -INF
    s[7:9, 1:] = -INF
    s[9] = -INF
    part = build()
    w = part(s)
    assert (w >= 0).all()
    assert (w[s == -INF] == 0).all()
    sums = w.sum(-1)
    assert sums[9] == 0
    if isinstance(part, Softmax) and part.sink is not None:
        assert (sums < 1).all()
    else:
        assert (sums[:9] - 1).abs().max() < 1e-12
        assert (sums[10:] - 1).abs().max() < 1e-12


@every_part
def test_gradients_are_finite_beside_hidden_keys_and_none_reaches_an_empty_row(build: Callable[[], Normalizer]) -> None:
    s = torch.randn(5, 9, dtype=F64)
    s[:, 2] = s[3] = -INF
    s.requires_grad_()
    part = build()
    loss = (part(s) * torch.randn(5, 9, dtype=F64)).sum()
    for gradient in torch.autograd.grad(loss, [s, *part.parameters()]):
        assert gradient.isfinite().all()
    (gradient,) = torch.autograd.grad((build()(s) ** 2).sum(), s)
    assert (gradient[3] == 0).all()
    assert (gradient[:, 2] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every_part
def test_half_precision_is_finite_and_keeps_its_type(build: Callable[[], Normalizer], dtype: torch.dtype) -> None:
    s = torch.full((3, 128), -1005.0, dtype=dtype)
    s[:, 5] = -900.0
    s[1, :] = 60_000.0
    s[1, 3] = -60_000.0
    s[2] = -INF
    part = build()
    w = part(s)
    assert w.dtype == dtype
    assert w.isfinite().all()
    if not (isinstance(part, Softmax) and part.sink is not None):  # a sink at 0 takes it all
        assert w[0].argmax() == 5
    assert w[2].sum() == 0
    assert w[1, 3] == 0


@pytest.mark.parametrize("name", sorted(ALL.keys() - {"sink", "gumbel", "hard gumbel"}))
def test_adding_a_number_to_a_row_changes_nothing(name: str) -> None:
    part = ALL[name]()  # but a sink stays where it is, and noise is drawn anew
    s = torch.randn(6, 7, dtype=F64)
    assert (part(s + 1000.0) - part(s)).abs().max() < 1e-10


# ---- softmax --------------------------------------------------------------------------------------------------------


def test_the_softmax_jacobian_is_diag_w_less_w_wt_and_never_stretches_beyond_a_half() -> None:
    largest = 0.0
    for _ in range(100):
        s = 2 * torch.randn(5, dtype=F64)
        w = torch.exp(s) / torch.exp(s).sum()
        j = jacobian(Softmax(), s)
        assert (j - (torch.diag(w) - torch.outer(w, w))).abs().max() < 1e-12
        largest = max(largest, torch.linalg.matrix_norm(j, 2).item())
    assert largest <= 0.5 + 1e-12
    half = torch.linalg.matrix_norm(jacobian(Softmax(), torch.zeros(2, dtype=F64)), 2)
    assert half.item() == pytest.approx(0.5, abs=1e-12)


def test_a_falling_temperature_shares_the_weight_among_ties_and_does_not_pick_one() -> None:
    w = Softmax(1e-4)(torch.tensor([1.0, 1.0, 0.5], dtype=F64))
    assert w.tolist() == pytest.approx([0.5, 0.5, 0.0])


@pytest.mark.parametrize(("dtype", "under", "over"), [(torch.float32, 100.0, 105.0), (F64, 740.0, 747.0)])
def test_a_softmax_weight_does_become_exactly_0_in_floating_point(
    dtype: torch.dtype, under: float, over: float
) -> None:
    assert Softmax()(torch.tensor([0.0, -under], dtype=dtype))[1] > 0
    assert Softmax()(torch.tensor([0.0, -over], dtype=dtype))[1] == 0


def test_large_scores_do_not_overflow_because_the_maximum_is_taken_off() -> None:
    assert torch.exp(torch.tensor(89.0)).isinf()
    w = Softmax()(torch.tensor([1000.0, 999.0]))
    assert w.tolist() == pytest.approx([0.7310586, 0.2689414])
    assert Softmax()(torch.tensor([-1000.0, -1001.0])).tolist() == pytest.approx([0.7310586, 0.2689414])


def test_entropy_and_its_gradient_are_those_of_the_formula() -> None:
    q, k = torch.randn(1, 5, dtype=F64, requires_grad=True), torch.eye(5, dtype=F64)
    for engine in ("reference", "sdpa"):
        r = regard.read(q, k, k, score="dot", engine=engine, telemetry="entropy")
        assert r.entropy is not None
        (gradient,) = torch.autograd.grad(r.entropy.sum(), q)
        w = torch.softmax(q.detach(), -1)
        entropy = -(w * w.log()).sum()
        assert (gradient + w * (w.log() + entropy)).abs().max() < 1e-9
        even = regard.read(torch.zeros_like(k), k, k, score="dot", engine=engine, telemetry="entropy")
        assert even.entropy is not None
        assert (even.entropy - math.log(5)).abs().max() < 1e-12
        assert (even.evenness - 1).abs().max() < 1e-12


def test_a_sink_takes_what_the_keys_do_not_want() -> None:
    s = torch.tensor([1.0, 2.0, 0.0], dtype=F64)
    w = Softmax(sink=0.0)(s)
    assert (w - torch.exp(s) / (1 + torch.exp(s).sum())).abs().max() < 1e-12
    assert Softmax(sink=50.0)(s).sum() < 1e-15
    assert (Softmax(sink=-50.0)(s) - Softmax()(s)).abs().max() < 1e-12
    extra = torch.softmax(torch.cat([s, torch.zeros(1, dtype=F64)]), -1)  # one more key, whose value is 0
    assert (w - extra[:3]).abs().max() < 1e-12


def test_a_learnt_sink_is_a_parameter_with_the_right_gradient() -> None:
    part = Softmax(sink=nn.Parameter(torch.tensor([0.3, -0.4], dtype=F64)))
    assert [name for name, _ in part.named_parameters()] == ["sink"]
    s = torch.randn(2, 3, 4, dtype=F64)
    w = part(s)
    assert isinstance(part.sink, Tensor)
    (gradient,) = torch.autograd.grad(w.sum(), part.sink)
    kept = w.sum(-1)
    assert (gradient + (kept * (1 - kept)).sum(-1)).abs().max() < 1e-12


# ---- sparsemax and entmax -------------------------------------------------------------------------------------------


def test_known_rows_of_sparsemax_and_entmax() -> None:
    assert Sparsemax()(TOY).tolist() == pytest.approx([0.75, 0.25, 0.0, 0.0], abs=1e-12)
    assert Entmax(1.5)(TOY).tolist() == pytest.approx([0.62420, 0.29167, 0.08414, 0.0], abs=1e-5)
    assert Entmax(1.5)(TOY)[3] == 0


@pytest.mark.parametrize(("alpha", "margin"), [(1.25, 4.0), (1.5, 2.0), (2.0, 1.0), (3.0, 0.5)])
def test_a_winner_takes_all_exactly_from_its_margin_on(alpha: float, margin: float) -> None:
    part = Entmax(alpha)
    assert part(torch.tensor([margin + 1e-6, 0.0], dtype=F64)).tolist() == [1.0, 0.0]
    assert part(torch.tensor([margin * 0.9, 0.0], dtype=F64))[1] > 0


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_conditions_of_the_optimum_hold_on_random_rows_with_ties_and_hidden_keys(alpha: float) -> None:
    s = 2 * torch.randn(1000, 11, dtype=F64)
    s[:300] = (2 * s[:300]).round() / 2  # ties
    s[torch.rand(1000, 11) < 0.2] = -INF
    s[:, 4] = torch.randn(1000, dtype=F64)
    p = Entmax(alpha)(s)
    assert (p.sum(-1) - 1).abs().max() < 1e-10
    # Stationarity: s − p^{α−1}/(α−1) is one number t on the support, and no hidden or zero key lies above it.
    level = s - p ** (alpha - 1) / (alpha - 1)
    support = p > 0
    t = torch.where(support, level, 0.0).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
    # Where p is tiny its power is ill-conditioned: weigh the residual by p, as the objective does.
    assert ((level - t).abs() * p)[support].max() < 1e-10
    assert (torch.where(support, -INF, s) - t).max() < 1e-9


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    s = torch.randn(200, 6, dtype=F64)
    p = Sparsemax()(s)
    for _ in range(50):
        other = torch.distributions.Dirichlet(torch.ones(6, dtype=F64) * 0.5).sample(torch.Size([200]))
        assert ((other - s).square().sum(-1) - (p - s).square().sum(-1)).min() > 0


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
def test_entmax_maximises_the_score_with_its_own_entropy(alpha: float) -> None:
    def objective(p: Tensor, s: Tensor) -> Tensor:
        return (p * s).sum(-1) + (p - p**alpha).sum(-1) / (alpha * (alpha - 1))

    s = torch.randn(100, 6, dtype=F64)
    best = objective(Entmax(alpha)(s), s)
    for _ in range(50):
        other = torch.distributions.Dirichlet(torch.ones(6, dtype=F64) * 0.5).sample(torch.Size([100]))
        assert (objective(other, s) - best).max() < 1e-12


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_sorting_and_bisection_are_two_ways_to_one_answer(alpha: float) -> None:
    s = 2 * torch.randn(300, 13, dtype=F64)
    exact, bisected = Entmax(alpha), Entmax(torch.tensor(alpha, dtype=F64))
    assert (exact(s) - bisected(s)).abs().max() < 1e-12
    single = s.float()
    assert (exact(single) - exact(s)).abs().max() < 2e-6


def test_alpha_close_to_1_is_softmax() -> None:
    assert (Entmax(1.0001)(TOY) - Softmax()(TOY)).abs().max() < 4.3e-5
    assert (Entmax(1.01)(TOY) - Softmax()(TOY)).abs().max() > 1e-4


@pytest.mark.parametrize("alpha", [1.25, 1.5, 1.7, 2.0])
def test_the_jacobian_of_entmax_lives_on_its_support(alpha: float) -> None:
    s = torch.randn(6, dtype=F64)
    p = Entmax(alpha)(s)
    slope = torch.where(p > 0, p ** (2 - alpha), 0.0)
    wanted = torch.diag(slope) - torch.outer(slope, slope) / slope.sum()
    assert (jacobian(Entmax(alpha), s) - wanted).abs().max() < 1e-8


def test_the_slope_of_sparsemax_jumps_where_that_of_entmax_goes_to_0() -> None:
    def slope(part: Normalizer, gap: float) -> float:
        return jacobian(part, torch.tensor([gap, 0.0], dtype=F64))[0, 0].item()

    assert slope(Sparsemax(), 0.999) == pytest.approx(0.5)
    assert slope(Sparsemax(), 1.001) == 0
    assert slope(Entmax(1.5), 1.9) == pytest.approx(0.0465, abs=2e-4)
    assert slope(Entmax(1.5), 1.999) == pytest.approx(0.0005, abs=1e-4)
    assert slope(Entmax(1.5), 2.001) == 0


@pytest.mark.parametrize("alpha", [1.2, 1.5, 1.7, 2.0, 2.5])
def test_the_gradient_in_alpha_is_that_of_differences_and_of_the_published_formula(alpha: float) -> None:
    s, away = torch.randn(5, 7, dtype=F64), torch.randn(5, 7, dtype=F64)
    a = nn.Parameter(torch.tensor(alpha, dtype=F64))
    (gradient,) = torch.autograd.grad((Entmax(a)(s) * away).sum(), a)

    def at(value: float) -> Tensor:
        w: Tensor = Entmax(torch.tensor(value, dtype=F64))(s)
        return (w * away).sum()

    step = 1e-5
    assert gradient.item() == pytest.approx(((at(alpha + step) - at(alpha - step)) / (2 * step)).item(), rel=2e-4)
    p = Entmax(a)(s).detach()
    slope = torch.where(p > 0, p ** (2 - alpha), 0.0)
    share = slope / slope.sum(-1, keepdim=True)
    h = -torch.xlogy(p, p)
    published = (p - share) / (alpha - 1) ** 2 + (h - share * h.sum(-1, keepdim=True)) / (alpha - 1)
    assert gradient.item() == pytest.approx((published * away).sum().item(), rel=1e-8)
    flipped = (p - share) / (alpha - 1) ** 2 - (h - share * h.sum(-1, keepdim=True)) / (alpha - 1)
    assert abs(gradient.item() - (flipped * away).sum().item()) > 1e-3  # the other sign is another number


def test_alpha_learns_in_every_head_by_itself() -> None:
    a = nn.Parameter(torch.tensor([1.2, 1.5, 2.0], dtype=F64))
    s = torch.randn(2, 3, 5, 7, dtype=F64)
    s[..., 3] = -INF
    part = Entmax(a)
    assert list(part.parameters()) == [a]
    w = part(s)
    for h in range(3):
        assert (w[:, h] - Entmax(a[h].item())(s[:, h])).abs().max() < 1e-12
    (gradient,) = torch.autograd.grad(w.square().sum(), a)
    assert gradient.isfinite().all()
    assert (gradient > 0).all()  # a larger alpha is sharper


@pytest.mark.parametrize("build", [Sparsemax, lambda: Entmax(1.5), lambda: Entmax(1.3), lambda: Entmax(1.001)])
def test_a_very_long_row_is_still_a_distribution_in_single_precision(build: Callable[[], Normalizer]) -> None:
    w = build()(torch.randn(3, 20_000))
    assert (w.sum(-1) - 1).abs().max() < 1e-4
    equal = build()(torch.zeros(1, 4096))
    assert (equal - 1 / 4096).abs().max() < 1e-6


# ---- by the kernel --------------------------------------------------------------------------------------------------


@pytest.fixture
def eager_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes work of any size, so that small shapes show what it does."""
    monkeypatch.setattr(solved, "WORTH", 0)


PER_HEAD = [1.2, 1.5, 2.0]


def sparse(alpha: float | list[float], dtype: torch.dtype) -> Entmax:
    return Entmax(alpha if isinstance(alpha, float) else nn.Parameter(torch.tensor(alpha, dtype=dtype)))


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.parametrize("alpha", [1.1, 1.3, 1.5, 1.7, 2.0, 2.5, [1.4], PER_HEAD])
def test_the_kernel_and_the_readable_operators_agree_on_weights_and_gradients(alpha: float | list[float]) -> None:
    s = 2 * torch.randn(2, 3, 5, 67)
    s[0, 1, 2], s[1, :, :, 7] = -INF, -INF
    away = torch.randn_like(s)
    found = []
    for dtype in (torch.float32, F64):
        x, part = s.to(dtype).requires_grad_(), sparse(alpha, dtype)
        assert solved.solves(x, part.alpha) == (dtype == torch.float32)
        w = part(x)
        found.append([w.detach(), *torch.autograd.grad((w * away).sum(), [x, *part.parameters()])])
    (w, ds, *slopes), (wanted, wanted_ds, *wanted_slopes) = found
    assert (w - wanted).abs().max() < 1e-6
    # Where a weight is nearly 0 and α > 2 the slope is as good as unknown.
    assert (ds - wanted_ds).abs().max() < (1e-5 if not isinstance(alpha, float) or alpha <= 2 else 1e-3)
    for one, other in zip(slopes, wanted_slopes, strict=True):
        assert (one - other).abs().max() < 1e-4


@pytest.mark.parametrize("alpha", [[1.4], PER_HEAD])
def test_the_kernel_has_a_gradient_of_its_gradient(alpha: list[float]) -> None:
    s, a = torch.randn(2, 3, 2, 5, dtype=F64, requires_grad=True), torch.tensor(alpha, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(solved.solved, (s, a))
    assert torch.autograd.gradgradcheck(solved.solved, (s, a))


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_kernel_widens_half_precision(dtype: torch.dtype) -> None:
    s = (3 * torch.randn(5, 130)).to(dtype)
    w = Entmax(1.5)(s)
    assert w.dtype == dtype
    assert torch.equal(w, Entmax(1.5)(s.float()).to(dtype))


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # jvp imports what uses it
def test_the_kernel_leaves_transforms_tracers_and_tangents_to_the_operators() -> None:
    part, s = Entmax(1.5), torch.randn(3, 5, 67)
    w = part(s)
    assert (torch.vmap(part)(s) - w).abs().max() < 1e-6
    tangent = torch.func.jvp(part, (s,), (torch.ones_like(s),))[1]
    assert tangent.abs().max() < 1e-5
    with torch._subclasses.FakeTensorMode() as mode:
        assert part(mode.from_tensor(s)).shape == s.shape
    compiled = torch.compile(part, backend="eager", fullgraph=True)
    assert (compiled(s) - w).abs().max() < 1e-6
    assert solved.solves(s, 1.5)
    assert not solved.solves(s, torch.ones(2) * 1.5)  # what does not fit the heads is the operators' to refuse


@pytest.mark.usefixtures("eager_kernel")
def test_the_kernel_takes_rows_that_are_not_side_by_side() -> None:
    s = torch.randn(7, 5, 3).transpose(0, 2)
    assert torch.equal(Sparsemax()(s), Sparsemax()(s.contiguous()))
    away = torch.randn(7, 5, 3).transpose(0, 2)
    x = s.clone().requires_grad_()
    (ds,) = torch.autograd.grad(Sparsemax()(x), x, away)
    assert (ds.sum(-1)).abs().max() < 1e-5


def test_only_work_that_is_worth_it_loads_the_kernel() -> None:
    code = """
import sys, torch
from regard.normalize import Entmax
Entmax(1.5)(torch.randn(100, 100))
assert "numba" not in sys.modules
Entmax(1.5)(torch.randn(400, 400))
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- top-k ----------------------------------------------------------------------------------------------------------


def test_known_rows_of_top_k_and_the_form_that_leaks() -> None:
    s = torch.tensor([2.0, 0.0, -1.0, -3.0], dtype=F64)
    assert TopK(2)(s).tolist() == pytest.approx([0.8808, 0.1192, 0.0, 0.0], abs=1e-4)
    assert (TopK(2)(s)[2:] == 0).all()
    leaks = Softmax()(torch.where(s >= 0, s, 0.0))  # what falls out is scored 0 and not −∞
    assert leaks.tolist() == pytest.approx([0.7112, 0.0963, 0.0963, 0.0963], abs=1e-4)
    assert TopK(1)(TOY).tolist() == [1, 0, 0, 0]


def test_all_keys_that_tie_at_the_threshold_stay_in_wherever_they_stand() -> None:
    s = torch.tensor([1.0, 3.0, 1.0, 0.0, 1.0, -INF], dtype=F64)
    w = TopK(2)(s)
    assert (w > 0).tolist() == [True, True, True, False, True, False]
    assert w[1].item() == pytest.approx(1 / (1 + 3 * math.exp(-2)))
    for order in (torch.randperm(6) for _ in range(20)):
        assert (TopK(2)(s[order]) - w[order]).abs().max() < 1e-15
    assert TopK(3)(torch.zeros(5)).tolist() == pytest.approx([0.2] * 5)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_the_ends_of_k_are_hardmax_and_softmax(size: float) -> None:
    s = size * torch.randn(50, 9, dtype=F64)
    s[7:9, 3:] = -INF
    s[9] = -INF
    assert torch.equal(TopK(1)(s), Hardmax()(s))
    for k in (9, 10, 10**9):
        assert torch.equal(TopK(k)(s), Softmax()(s))
    assert torch.equal(TopK(3)(s)[7:10], Softmax()(s)[7:10])  # no more than three may be seen
    w = TopK(4)(s)
    assert ((w[:7] > 0).sum(-1) <= 4).all()
    assert (w.sum(-1)[9], w.sum(-1)[:9].min()) == (0, pytest.approx(1))


@pytest.mark.parametrize("wrong", [math.nan, INF])
def test_top_k_of_what_is_no_number_is_none_as_the_softmax_says(wrong: float) -> None:
    s = torch.randn(3, 9, dtype=F64)
    s[1, 4] = wrong
    for k in (1, 3, 9):
        assert TopK(k)(s).isnan().all(-1).tolist() == Softmax()(s).isnan().all(-1).tolist() == [False, True, False]


def test_the_gradient_of_top_k_is_the_softmaxs_over_the_keys_that_stay() -> None:
    s = torch.randn(8, dtype=F64)
    w = TopK(3)(s)
    assert (jacobian(TopK(3), s) - (torch.diag(w) - torch.outer(w, w))).abs().max() < 1e-15
    rows = torch.randn(4, 8, dtype=F64)
    rows[1, 2:] = rows[2] = -INF
    visible = (rows > -INF).nonzero(as_tuple=True)

    def function(x: Tensor) -> Tensor:
        found: Tensor = TopK(3)(torch.full_like(rows, -INF).index_put(visible, x))
        return found

    leaf = rows[visible].requires_grad_()
    assert torch.autograd.gradcheck(function, leaf)
    assert torch.autograd.gradgradcheck(function, leaf)


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.parametrize("k", [1, 2, 7, 66, 67])
def test_the_kernel_and_the_readable_operators_agree_on_top_k(k: int) -> None:
    s = (4 * torch.randn(2, 3, 5, 67)).round() / 4  # with ties
    s[0, 1, 2], s[1, :, :, 7] = -INF, -INF
    away = torch.randn_like(s)
    found = []
    for dtype in (torch.float32, F64):
        x = s.to(dtype).requires_grad_()
        assert solved.solves(x) == (dtype == torch.float32)
        w = TopK(k)(x)
        found.append([w.detach(), *torch.autograd.grad((w * away).sum(), x)])
    (w, ds), (wanted, wanted_ds) = found
    assert torch.equal(w > 0, wanted > 0)
    assert (w - wanted).abs().max() < 1e-6
    assert (ds - wanted_ds).abs().max() < 1e-6


def test_the_kernel_of_top_k_has_a_gradient_of_its_gradient() -> None:
    s = torch.randn(2, 3, 7, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: solved.chosen(x, 3), s)
    assert torch.autograd.gradgradcheck(lambda x: solved.chosen(x, 3), s)


@pytest.mark.usefixtures("eager_kernel")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_kernel_of_top_k_widens_half_precision(dtype: torch.dtype) -> None:
    s = (3 * torch.randn(5, 130)).to(dtype)
    assert TopK(9)(s).dtype == dtype
    assert torch.equal(TopK(9)(s), TopK(9)(s.float()).to(dtype))


@pytest.mark.parametrize("k", [0, -3, 2.0, 2.5, math.nan, "2", None, True, torch.tensor(1.5)])
def test_a_k_that_is_no_whole_number_from_1_is_refused_in_a_line(k: object) -> None:
    with pytest.raises(RegardError, match=r"^TopK: k is .*, wanted a whole number of at least 1: .*$"):
        TopK(k)  # type: ignore[arg-type]


# ---- hardmax --------------------------------------------------------------------------------------------------------


def test_hardmax_is_exactly_one_hot_and_takes_the_first_of_equals() -> None:
    s = torch.randn(20_000, 6)
    w = Hardmax()(s)
    assert ((w == 0) | (w == 1)).all()
    assert torch.equal(w.argmax(-1), s.argmax(-1))
    assert Hardmax()(torch.tensor([1.0, 3.0, 3.0, 3.0])).tolist() == [0, 1, 0, 0]


def test_hardmax_reads_one_value_whose_gradient_is_the_identity() -> None:
    q, k = torch.randn(1, 5, dtype=F64), torch.randn(7, 5, dtype=F64)
    v = torch.randn(7, 3, dtype=F64, requires_grad=True)
    out = regard.attend(q, k, v, normalize="hardmax")
    chosen = int((q @ k.T).argmax())
    assert torch.equal(out[0], v[chosen])
    (gradient,) = torch.autograd.grad(out.sum(), v)
    assert torch.equal(gradient, nn.functional.one_hot(torch.tensor(chosen), 7).to(F64)[:, None].expand(7, 3))


def test_a_plain_argmax_moves_nothing_and_the_straight_through_gradient_is_the_softmaxs() -> None:
    s = torch.randn(7, dtype=F64, requires_grad=True)
    v = torch.randn(7, dtype=F64)
    base = Hardmax()(s) @ v
    for j in range(7):  # a small step of any score leaves the read where it was: the true gradient is 0
        assert Hardmax()(s + 1e-6 * nn.functional.one_hot(torch.tensor(j), 7)) @ v == base
    (through,) = torch.autograd.grad(base, s)
    (soft,) = torch.autograd.grad(torch.softmax(s, -1) @ v, s)
    assert (through - soft).abs().max() < 1e-12


# ---- gumbel ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_key_wins_as_often_as_its_softmax_weight_at_any_temperature(temperature: float, seed: int) -> None:
    n = 100_000
    part = GumbelSoftmax(temperature, generator=torch.Generator().manual_seed(seed))
    wins = part(TOY.float().expand(n, 4)).argmax(-1).bincount(minlength=4).double() / n
    p = torch.softmax(TOY, -1)
    z = (wins - p) / (p * (1 - p) / n).sqrt()
    assert z.abs().max() < 4.5


def test_the_mean_of_the_soft_draws_is_the_softmax_only_as_the_temperature_falls() -> None:
    def mean(temperature: float) -> list[float]:
        part = GumbelSoftmax(temperature, generator=torch.Generator().manual_seed(1))
        found: list[float] = part(TOY.float().expand(100_000, 4)).mean(0).tolist()
        return found

    assert mean(1.0) == pytest.approx([0.400, 0.287, 0.201, 0.112], abs=0.005)
    assert mean(0.02) == pytest.approx(torch.softmax(TOY, -1).tolist(), abs=0.006)


def test_draws_harden_as_the_temperature_falls() -> None:
    found = []
    for temperature in (5.0, 1.0, 0.5, 0.1):
        w = GumbelSoftmax(temperature)(TOY.expand(20_000, 4))
        found.append(-torch.xlogy(w, w).sum(-1).mean().item())
    assert found == pytest.approx([1.35, 0.91, 0.55, 0.11], abs=0.03)


def test_bias_falls_and_variance_rises_as_the_temperature_falls() -> None:
    value = torch.tensor([0.0, 3.0, -2.0, 5.0], dtype=F64)
    logits = TOY.clone()
    p = torch.softmax(logits, -1)
    exact = p * (value**2 - (p * value**2).sum())  # of E f(c)², by enumeration
    for seed in range(3):
        biases, spreads = [], []
        for temperature in (2.0, 0.5, 0.1):
            part = GumbelSoftmax(temperature, generator=torch.Generator().manual_seed(seed))
            s = logits.expand(60_000, 4).clone().requires_grad_()
            (gradient,) = torch.autograd.grad((part(s) @ value).square().sum(), s)
            biases.append((gradient.mean(0) - exact).norm().item())
            spreads.append(gradient.std(0).norm().item())
        assert biases[0] > biases[1] > biases[2]
        assert spreads[0] < spreads[1] < spreads[2]


def test_a_hard_draw_is_one_key_and_lets_the_soft_gradient_through() -> None:
    s = torch.randn(500, 6, dtype=F64, requires_grad=True)
    w = GumbelSoftmax(0.5, hard=True)(s)
    assert ((w == 0) | (w == 1)).all()
    (gradient,) = torch.autograd.grad((w * torch.randn(500, 6)).sum(), s)
    assert gradient.abs().sum() > 0
    assert gradient.sum(-1).abs().max() < 1e-12


def test_a_generator_repeats_a_run_and_without_one_draws_differ() -> None:
    s = torch.randn(5, 7)

    def run(seed: int) -> Tensor:
        part = GumbelSoftmax(0.5, generator=torch.Generator().manual_seed(seed))
        return torch.stack([part(s), part(s)])

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))
    assert not torch.equal(run(1)[0], run(1)[1])
    free = GumbelSoftmax(0.5)
    assert not torch.equal(free(s), free(s))


def test_evaluation_draws_nothing_and_takes_the_likeliest_key() -> None:
    part = GumbelSoftmax(0.5).eval()
    s = torch.randn(50, 7)
    assert torch.equal(part(s), part(s))
    assert torch.equal(part(s), Hardmax()(s))
    assert part.step == 0


def test_noise_never_revives_a_hidden_key() -> None:
    s = torch.tensor([0.0, -INF, 0.0]).expand(10_000, 3)
    w = GumbelSoftmax(0.5)(s)
    assert (w[:, 1] == 0).all()
    assert w.isfinite().all()


def test_an_annealed_temperature_falls_with_the_steps_of_training_to_its_floor() -> None:
    schedule = Annealed(rate=1e-4, floor=0.5)
    assert [schedule(step) for step in (0, 1000, 5000)] == pytest.approx([1.0, math.exp(-0.1), math.exp(-0.5)])
    assert schedule(10**6) == 0.5
    part = GumbelSoftmax(Annealed(rate=0.5, floor=0.1), generator=torch.Generator().manual_seed(0))
    s = TOY.float().expand(5000, 4)
    entropies = []
    for _ in range(4):
        w = part(s)
        entropies.append(-torch.xlogy(w, w).sum(-1).mean().item())
    assert entropies == sorted(entropies, reverse=True)
    assert part.step == 4


# ---- names and refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(normalize.NAMES))
def test_a_normaliser_may_be_named(name: str) -> None:
    assert normalize.named(name) is normalize.NAMES[name]


def test_an_unknown_normaliser_lists_the_known_ones_and_suggests_the_nearest() -> None:
    with pytest.raises(
        RegardError, match=r"normalize: unknown name 'sofmax'; did you mean 'softmax'\? Known: entmax15"
    ):
        normalize.named("sofmax")


@pytest.mark.parametrize("alpha", [1.0, 0.5, -2.0, math.nan])
def test_alpha_of_1_or_less_is_refused(alpha: float) -> None:
    with pytest.raises(RegardError, match=r"Entmax: alpha is .*, wanted above 1 \(1 itself is Softmax\(\)"):
        Entmax(alpha)
    with pytest.raises(RegardError, match="wanted above 1"):
        Entmax(torch.tensor([1.5, alpha]))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("kind", [Softmax, GumbelSoftmax])
def test_a_temperature_of_0_or_less_is_refused(kind: type[Softmax] | type[GumbelSoftmax], temperature: float) -> None:
    with pytest.raises(RegardError, match=rf"{kind.__name__}: temperature is .*, wanted above 0 .*Hardmax\(\)"):
        kind(temperature)


def test_a_schedule_that_reaches_0_is_refused() -> None:
    with pytest.raises(RegardError, match="temperature is 0"):
        GumbelSoftmax(Annealed(floor=0.0))
