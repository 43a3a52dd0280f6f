"""The nine laws, for every score × normaliser × mask, on every engine that runs them.

A new part joins by one entry in ``SCORES``, ``NORMALISERS`` or ``MASKS``: how it is built, and its definition written
out by hand for one pair, one row or one cell. The definitions here share no code with the package.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

import regard
from regard import RegardError, mask, normalize, position, score
from regard.engines import ENGINES, Tiled, reference
from regard.grid import Grid
from regard.mask import Mask
from regard.normalize import Normalizer
from regard.reading import TELEMETRY, Reading
from regard.score import Score

# Law 9: every axis has its own prime (H is the one multiple it must be), so that a swapped axis cannot pass.
B, G, L, S, D, E, A = 2, 3, 5, 7, 11, 13, 17
H = 2 * G
EVEN = 14  # the width of rotary queries and keys, which turn in pairs

Pair = Callable[[Any, Tensor, Tensor, int, int, int], Tensor]
"""s of one query (D,) and one key (D,), of head h, standing at i and j on the keys' own ruler."""


@dataclass(frozen=True)
class ScoreCase:
    build: Callable[[], Score]
    pair: Pair
    widths: tuple[int, int] = (D, D)
    placed: bool = False  # whether positions matter, so that keys cannot move


def turned(x: Tensor, place: int, interleaved: bool) -> Tensor:
    """x as complex numbers, each multiplied by its own power of the place."""
    half = x.numel() // 2
    numbers = torch.complex(x[0::2], x[1::2]) if interleaved else torch.complex(x[:half], x[half:])
    for c in range(half):
        angle = place / 10_000.0 ** (2 * c / x.numel())
        numbers[c] = numbers[c] * complex(math.cos(angle), math.sin(angle))
    return torch.view_as_real(numbers).flatten()


def perceptron(p: Any, q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
    f = p.function
    hidden = torch.tanh(f.hidden.weight @ torch.cat([q, k, q * k]) + f.hidden.bias)
    s: Tensor = (f.out.weight[0] @ hidden) + f.out.bias[0]
    return s


def dot(p: Any, q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
    return (q * k).sum()


def scaled(p: Any, q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
    return (q * k).sum() / math.sqrt(q.numel())


def alibi(h: int, i: int, j: int) -> float:
    return -(2.0 ** -[2, 4, 6, 8, 1, 3][h]) * abs(i - j)  # the published slopes for six heads


SCORES = {
    "dot": ScoreCase(score.Dot, dot),
    "scaled dot": ScoreCase(score.ScaledDot, scaled),
    "cosine": ScoreCase(lambda: score.Cosine(3.0), lambda p, q, k, h, i, j: 3 * (q @ k) / (q.norm() * k.norm())),
    "euclidean": ScoreCase(score.Euclidean, lambda p, q, k, h, i, j: -((q - k) ** 2).sum()),
    "general": ScoreCase(lambda: score.General(D, A), lambda p, q, k, h, i, j: q @ p.weight @ k, (D, A)),
    "general per head": ScoreCase(
        lambda: score.General(A, D, heads=H), lambda p, q, k, h, i, j: q @ p.weight[h] @ k, (A, D)
    ),
    "concat": ScoreCase(
        lambda: score.Concat(D, A, width=3),
        lambda p, q, k, h, i, j: p.energy @ torch.tanh(p.weight @ torch.cat([q, k])),
        (D, A),
    ),
    "additive": ScoreCase(
        lambda: score.Additive(A, D, width=3),
        lambda p, q, k, h, i, j: p.energy @ torch.tanh(p.query.weight @ q + p.key.weight @ k),
        (A, D),
    ),
    "perceptron": ScoreCase(lambda: score.Learned.mlp(D, D, width=3), perceptron),
    "bilinear module": ScoreCase(
        lambda: score.Learned(nn.Bilinear(D, A, 1)),
        lambda p, q, k, h, i, j: q @ p.function.weight[0] @ k + p.function.bias[0],
        (D, A),
    ),
    "alibi": ScoreCase(
        lambda: score.ScaledDot() + position.ALiBi(H, anchor="end"),
        lambda p, q, k, h, i, j: scaled(p, q, k, h, i, j) + alibi(h, i, j),
        placed=True,
    ),
    "relative bias": ScoreCase(
        lambda: score.Dot() + position.RelativeBias(H, reach=2, anchor="end"),
        lambda p, q, k, h, i, j: (q @ k) + p.bias.weight[h, max(-2, min(2, j - i)) + 2],
        placed=True,
    ),
    "capped": ScoreCase(lambda: score.Dot().capped(1.5), lambda p, q, k, h, i, j: 1.5 * torch.tanh((q @ k) / 1.5)),
    "capped alibi": ScoreCase(
        lambda: (score.ScaledDot() + position.ALiBi(H, anchor="end")).capped(2.0),
        lambda p, q, k, h, i, j: 2 * torch.tanh((scaled(p, q, k, h, i, j) + alibi(h, i, j)) / 2),
        placed=True,
    ),
    "rotary": ScoreCase(
        lambda: position.Rotary(score.ScaledDot(), anchor="end"),
        lambda p, q, k, h, i, j: scaled(p, turned(q, i, False), turned(k, j, False), h, i, j),
        (EVEN, EVEN),
        placed=True,
    ),
    "rotary interleaved": ScoreCase(
        lambda: position.Rotary(score.Dot(), interleaved=True, anchor="end"),
        lambda p, q, k, h, i, j: turned(q, i, True) @ turned(k, j, True),
        (EVEN, EVEN),
        placed=True,
    ),
    "keyed additive": ScoreCase(
        lambda: score.Additive(D, 2, width=A).keyed,
        lambda p, q, k, h, i, j: p.inner.energy @ torch.tanh(p.inner.query.weight @ q + k),
        (D, A),
    ),
    "keyed cosine": ScoreCase(lambda: score.Cosine(2.0).keyed, lambda p, q, k, h, i, j: 2 * (q @ k) / q.norm()),
}


def softmax_rows(s: Tensor, temperature: float = 1.0, sink: Tensor | None = None) -> Tensor:
    powers = torch.exp(s / temperature)  # the scores of these tests are small: no maximum is subtracted
    total = powers.sum(-1, keepdim=True) + (0.0 if sink is None else torch.exp(sink))
    return torch.where(total > 0, powers / total, 0.0)


def simplex_rows(s: Tensor, alpha: Tensor | float) -> Tensor:
    """[(α−1)s − t]₊^{1/(α−1)} by bisection on t, over the visible keys."""
    z = (alpha - 1) * torch.where(s == -math.inf, -1e6, s)
    low, high = z.amax(-1, keepdim=True) - 1, z.amax(-1, keepdim=True)
    for _ in range(70):
        middle = (low + high) / 2
        heavy = ((z - middle).clamp(min=0) ** (1 / (alpha - 1))).sum(-1, keepdim=True) >= 1
        low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
    return torch.where(s == -math.inf, 0.0, (z - low).clamp(min=0) ** (1 / (alpha - 1)))


def hard_rows(s: Tensor) -> Tensor:
    w = torch.zeros_like(s)
    for cell in itertools.product(*map(range, s.shape[:-1])):
        row = s[cell].tolist()
        if max(row) > -math.inf:
            w[cell][row.index(max(row))] = 1.0
    return w


def top_rows(s: Tensor, k: int) -> Tensor:
    """exp of what is no lower than the kth of a row when sorted, over its sum."""
    w = torch.zeros_like(s)
    for cell in itertools.product(*map(range, s.shape[:-1])):
        row = [x for x in s[cell].tolist() if x > -math.inf]
        last = sorted(row)[-min(k, len(row))] if row else math.inf
        for j, x in enumerate(s[cell].tolist()):
            w[cell][j] = math.exp(x) / sum(math.exp(y) for y in row if y >= last) if x >= last else 0.0
    return w


PER_HEAD_ALPHA = torch.tensor([1.1, 1.3, 1.5, 1.7, 2.0, 2.5], dtype=torch.float64)
ONE_SINK = torch.tensor(0.25, dtype=torch.float64)
PER_HEAD_SINK = torch.tensor([0.5, -1.0, 0.0, 2.0, -3.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True)
class NormaliserCase:
    build: Callable[[], Normalizer]
    rows: Callable[[Tensor], Tensor]
    temperature: float = 1.0
    sink: Tensor | None = None
    merges: bool = False
    surrogate: bool = False  # its gradient is another function's, so finite differences do not know it


NORMALISERS = {
    "softmax": NormaliserCase(normalize.Softmax, softmax_rows, merges=True),
    "tempered": NormaliserCase(
        lambda: normalize.Softmax(0.5), lambda s: softmax_rows(s, 0.5), temperature=0.5, merges=True
    ),
    "sink": NormaliserCase(
        lambda: normalize.Softmax(sink=0.25),
        lambda s: softmax_rows(s, sink=ONE_SINK),
        sink=ONE_SINK,
        merges=True,
    ),
    "tempered sink per head": NormaliserCase(
        lambda: normalize.Softmax(2.0, sink=nn.Parameter(PER_HEAD_SINK.clone())),
        lambda s: softmax_rows(s, 2.0, PER_HEAD_SINK[:, None, None]),
        temperature=2.0,
        sink=PER_HEAD_SINK[:, None],
        merges=True,
    ),
    "sparsemax": NormaliserCase(normalize.Sparsemax, lambda s: simplex_rows(s, 2.0)),
    "entmax 1.5": NormaliserCase(lambda: normalize.Entmax(1.5), lambda s: simplex_rows(s, 1.5)),
    "entmax 1.3": NormaliserCase(lambda: normalize.Entmax(1.3), lambda s: simplex_rows(s, 1.3)),
    "learnt alpha per head": NormaliserCase(
        lambda: normalize.Entmax(nn.Parameter(PER_HEAD_ALPHA.clone())),
        lambda s: simplex_rows(s, PER_HEAD_ALPHA[:, None, None]),
    ),
    "top 3": NormaliserCase(lambda: normalize.TopK(3), lambda s: top_rows(s, 3)),
    "hardmax": NormaliserCase(normalize.Hardmax, hard_rows, surrogate=True),
    "gumbel in eval": NormaliserCase(lambda: normalize.GumbelSoftmax(0.7).eval(), hard_rows, surrogate=True),
}

LENGTHS = [0, 4]
IDS = [[0, 0, 1, 1, -1, 2, 2], [3, -1, 3, 3, 4, 4, 4]]
QUERY_IDS = [[0, 1, 2, -1, 0], [3, 4, 4, 5, 3]]
TABLE = torch.randn(H, 3, 4, generator=torch.Generator().manual_seed(1)) > 0
DENSE = torch.randn(B, H, L, S, generator=torch.Generator().manual_seed(2)) > 0.3
KEYS = torch.tensor([[True, False, True, True, False, True, True], [False, True, True, True, True, True, False]])
END = S - L  # where query 0 stands when the last query is the last key


@dataclass(frozen=True)
class MaskCase:
    build: Callable[[], Mask | None]
    sees: Callable[[int, int, int, int], bool]


MASKS = {
    "none": MaskCase(lambda: None, lambda b, h, i, j: True),
    "causal from the start": MaskCase(lambda: mask.causal("start"), lambda b, h, i, j: j <= i),
    "causal to the end": MaskCase(lambda: mask.causal("end"), lambda b, h, i, j: j <= i + END),
    "window": MaskCase(lambda: mask.window(1, 2, "end"), lambda b, h, i, j: i + END - 1 <= j <= i + END + 2),
    "window to the left": MaskCase(lambda: mask.window(2, 0, "start"), lambda b, h, i, j: i - 2 <= j <= i),
    "padding": MaskCase(lambda: mask.padding(LENGTHS), lambda b, h, i, j: j < LENGTHS[b]),
    "segments": MaskCase(
        lambda: mask.segments(torch.tensor(IDS), torch.tensor(QUERY_IDS)),
        lambda b, h, i, j: IDS[b][j] == QUERY_IDS[b][i] and IDS[b][j] >= 0,
    ),
    "strided": MaskCase(lambda: mask.strided(3, "end"), lambda b, h, i, j: (i + END - j) % 3 == 0),
    "blocks": MaskCase(lambda: mask.blocks(TABLE, 2), lambda b, h, i, j: bool(TABLE[h, i // 2, j // 2])),
    "dense": MaskCase(lambda: mask.dense(DENSE), lambda b, h, i, j: bool(DENSE[b, h, i, j])),
    "dense over keys": MaskCase(lambda: mask.dense(KEYS[:, None, None]), lambda b, h, i, j: bool(KEYS[b, j])),
    "where": MaskCase(
        lambda: mask.where(lambda b, h, i, j: (i * j + h + b) % 3 != 0), lambda b, h, i, j: (i * j + h + b) % 3 != 0
    ),
    "where over queries": MaskCase(lambda: mask.where(lambda b, h, i, j: i != 2), lambda b, h, i, j: i != 2),
    "causal & padding": MaskCase(
        lambda: mask.causal("end") & mask.padding(LENGTHS), lambda b, h, i, j: j <= i + END and j < LENGTHS[b]
    ),
    "window | strided": MaskCase(
        lambda: mask.window(0, 0, "start") | mask.strided(4, "start"), lambda b, h, i, j: j == i or (i - j) % 4 == 0
    ),
    "~causal": MaskCase(lambda: ~mask.causal("start"), lambda b, h, i, j: j > i),
    "(causal | dense) & ~segments": MaskCase(
        lambda: (mask.causal("start") | mask.dense(DENSE)) & ~mask.segments(torch.tensor(IDS), torch.tensor(QUERY_IDS)),
        lambda b, h, i, j: (
            (j <= i or bool(DENSE[b, h, i, j])) and not (IDS[b][j] == QUERY_IDS[b][i] and IDS[b][j] >= 0)
        ),
    ),
}

FUSED = [name for name, case in SCORES.items() if not case.build().no_dot_form]
PLAIN = [name for name, case in NORMALISERS.items() if case.merges and case.sink is None]
UNPLACED = [name for name, case in SCORES.items() if not case.placed]
TRUE_GRADIENT = [
    name for name, case in NORMALISERS.items() if not case.surrogate
]  # the others' is softmax's, on purpose
RUN = [(engine, name) for engine in ("reference", "tiled") for name in SCORES] + [("sdpa", name) for name in FUSED]
RUN_ON_ITSELF = [(engine, name) for engine, name in RUN if SCORES[name].widths[0] == SCORES[name].widths[1]]
GROUPS: dict[str, Mask | Tensor] = {
    "some keys": torch.tensor([True, False, False, True, False, True, False]),
    "keys of a row": KEYS,
    "self": mask.window(0, 0, "end"),
    "odd heads": mask.where(lambda b, h, i, j: (h + j) % 2 == 1),
}
IN_GROUP: dict[str, Callable[[int, int, int, int], bool]] = {
    "some keys": lambda b, h, i, j: j in (0, 3, 5),
    "keys of a row": lambda b, h, i, j: bool(KEYS[b, j]),
    "self": lambda b, h, i, j: j == i + END,
    "odd heads": lambda b, h, i, j: (h + j) % 2 == 1,
}


@pytest.fixture(autouse=True)
def _tiles_that_are_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 2 × 3, so that five queries and seven keys cross every kind of boundary."""
    monkeypatch.setattr(Tiled, "rows", 2)
    monkeypatch.setattr(Tiled, "columns", 3)


def engines_of(scored: str, normalised: str) -> list[str]:
    """The engines that run this on the CPU."""
    return ["reference", "tiled"] + ["sdpa"] * (scored in FUSED and normalised in PLAIN)


every_score = pytest.mark.parametrize("scored", SCORES)
every_normaliser = pytest.mark.parametrize("normalised", NORMALISERS)
every_mask = pytest.mark.parametrize("masked", MASKS)


# ---- the definition, cell by cell -----------------------------------------------------------------------------------


@functools.cache
def score_part(name: str) -> Score:
    """The part in float64, with parameters that are not at their quiet beginning."""
    part = SCORES[name].build().double()
    generator = torch.Generator().manual_seed(3)
    for parameter in part.parameters():
        with torch.no_grad():
            parameter.normal_(0.0, 0.4, generator=generator)
    return part


@functools.cache
def normaliser_part(name: str) -> Normalizer:
    return NORMALISERS[name].build().double()


@functools.cache
def inputs(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v in float64 for this score; the caller may not write into them."""
    generator = torch.Generator().manual_seed(4)
    q_width, k_width = SCORES[name].widths
    shapes = ((B, H, L, q_width), (B, G, S, k_width), (B, G, S, E))
    q, k, v = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return 0.6 * q, 0.6 * k, v


@functools.cache
def true_scores(name: str) -> Tensor:
    q, k, _ = inputs(name)
    pair, part = SCORES[name].pair, score_part(name)
    s = torch.empty(B, H, L, S, dtype=torch.float64)
    with torch.no_grad():
        for b, h, i, j in itertools.product(range(B), range(H), range(L), range(S)):
            s[b, h, i, j] = pair(part, q[b, h, i], k[b, h // 2, j], h, i + END, j)  # two query heads to a key head
    return s


def cells(rule: Callable[[int, int, int, int], bool]) -> Tensor:
    table = torch.empty(B, H, L, S, dtype=torch.bool)
    for at in itertools.product(range(B), range(H), range(L), range(S)):
        table[at] = rule(*at)
    return table


@functools.cache
def visible(name: str) -> Tensor:
    return cells(MASKS[name].sees)


@functools.cache
def in_group(name: str) -> Tensor:
    return cells(IN_GROUP[name])


@dataclass(frozen=True)
class Truth:
    weights: Tensor
    output: Tensor
    lse: Tensor
    seen: Tensor
    entropy: Tensor
    peak: Tensor
    distance: Tensor
    spread: Tensor
    mass: dict[str, Tensor]


@functools.cache
def truth(scored: str, normalised: str, masked: str) -> Truth:
    """A read by its definition, in float64."""
    case, sees = NORMALISERS[normalised], visible(masked)
    s = true_scores(scored).masked_fill(~sees, -math.inf)
    w = case.rows(s)
    values = inputs(scored)[2].repeat_interleave(2, dim=1)
    places = torch.arange(L)[:, None] + END - torch.arange(S)
    spread = torch.zeros(B, H, dtype=torch.float64)
    for b, h in itertools.product(range(B), range(H)):
        seen_scores = true_scores(scored)[b, h][sees[b, h]]
        spread[b, h] = seen_scores.std(correction=0) if seen_scores.numel() else 0.0
    return Truth(
        weights=w,
        output=torch.einsum("bhls,bhse->bhle", w, values),
        lse=torch.exp(s / case.temperature).sum(-1).log(),
        seen=sees.sum(-1),
        entropy=-torch.xlogy(w, w).sum(-1),
        peak=w.amax(-1),
        distance=(w * places.abs()).sum(-1),
        spread=spread,
        mass={name: (w * in_group(name)).sum(-1) for name in GROUPS},
    )


def close(found: Tensor | None, wanted: Tensor, what: str, tolerance: float = 1e-9) -> None:
    """Equal to ``tolerance``, infinities in the same places, no NaN."""
    assert found is not None, f"{what} was not measured"
    x, y = found.detach().double(), wanted.detach().double()
    assert x.shape == y.shape, f"{what}: shape {tuple(x.shape)}, wanted {tuple(y.shape)}"
    alike = torch.isclose(x, y, rtol=tolerance, atol=tolerance)
    if not alike.all():
        raise AssertionError(f"{what}: {(~alike).sum()} of {x.numel()} differ, by up to {(x - y).abs().max():.3g}")


def read(scored: str, normalised: str, masked: str, engine: str = "reference", **more: Any) -> Reading:
    q, k, v = inputs(scored)
    parts = {"score": score_part(scored), "normalize": normaliser_part(normalised), "mask": MASKS[masked].build()}
    with torch.no_grad():
        return regard.read(q, k, v, engine=engine, **(parts | more))


def check_truth(r: Reading, t: Truth, what: str, tolerance: float = 1e-9) -> None:
    close(r.output, t.output, f"{what}: output", tolerance)
    close(r.lse, t.lse, f"{what}: lse", tolerance)
    assert torch.equal(r.seen, t.seen), f"{what}: seen"
    close(r.entropy, t.entropy, f"{what}: entropy", tolerance)
    close(r.peak, t.peak, f"{what}: peak", tolerance)
    close(r.distance, t.distance, f"{what}: distance", tolerance)
    close(r.spread, t.spread, f"{what}: spread", tolerance)
    assert r.mass.keys() == t.mass.keys()
    for name in t.mass:
        close(r.mass[name], t.mass[name], f"{what}: mass of {name}", tolerance)
    assert r.peak_at is not None
    first = torch.where(t.seen > 0, (t.weights > t.peak.unsqueeze(-1) - 1e-9).int().argmax(-1), -1)
    assert torch.equal(r.peak_at, first), f"{what}: peak_at"


# ---- 1. Truth -------------------------------------------------------------------------------------------------------


@every_score
@every_normaliser
def test_law_1_the_reference_reads_what_the_definition_says(scored: str, normalised: str) -> None:
    for masked in MASKS:
        r = read(scored, normalised, masked, groups=GROUPS)
        check_truth(r, truth(scored, normalised, masked), masked)
        close(r.bound, truth(scored, normalised, masked).peak, f"{masked}: bound")


@every_score
@every_normaliser
def test_law_1_scores_and_weights_are_those_of_the_definition(scored: str, normalised: str) -> None:
    q, k, _ = inputs(scored)
    for masked in ("none", "dense", "causal & padding"):
        m = MASKS[masked].build()
        s = regard.scores(q, k, score=score_part(scored), mask=m)
        close(s, true_scores(scored).masked_fill(~visible(masked), -math.inf), masked)
        w = regard.weights(q, k, score=score_part(scored), normalize=normaliser_part(normalised), mask=m)
        close(w, truth(scored, normalised, masked).weights, masked)


@every_score
@every_normaliser
def test_law_1_tiled_reads_what_the_definition_says(scored: str, normalised: str) -> None:
    for masked in MASKS:
        t = truth(scored, normalised, masked)
        r = read(scored, normalised, masked, "tiled", groups=GROUPS)  # all of its telemetry is of the same pass
        check_truth(r, t, masked)
        close(r.bound, t.peak, f"{masked}: bound")
        close(read(scored, normalised, masked, "tiled", telemetry=False).output, t.output, f"{masked}: output alone")


@pytest.mark.parametrize("scored", FUSED)
@pytest.mark.parametrize("normalised", PLAIN)
@every_mask
def test_law_1_sdpa_measures_what_the_definition_says(scored: str, normalised: str, masked: str) -> None:
    t = truth(scored, normalised, masked)
    check_truth(read(scored, normalised, masked, "sdpa", telemetry=TELEMETRY - {"mass"}, groups=GROUPS), t, masked)
    cheap = read(scored, normalised, masked, "sdpa", groups=GROUPS)
    close(cheap.entropy, t.entropy, "entropy without a second look")
    close(cheap.distance, t.distance, "distance without a second look")
    assert cheap.bound is not None
    assert (cheap.bound >= t.peak - 1e-12).all()
    assert (cheap.bound <= t.peak * S ** (1 / 32) + 1e-12).all()
    assert cheap.peak is None
    assert cheap.spread is None


@every_score
@every_normaliser
def test_law_1_telemetry_in_single_precision_is_true_to_a_ten_thousandth(scored: str, normalised: str) -> None:
    q, k, v = (x.float() for x in inputs(scored))
    for masked, engine in itertools.product(MASKS, engines_of(scored, normalised)):
        r = regard.read(
            q,
            k,
            v,
            score=copy.deepcopy(score_part(scored)).float(),
            normalize=copy.deepcopy(normaliser_part(normalised)).float(),
            mask=MASKS[masked].build(),
            engine=engine,
            telemetry=TELEMETRY - {"mass"},
            groups=GROUPS,
        )
        assert r.output.dtype == torch.float32
        check_truth(r, truth(scored, normalised, masked), f"{engine}, {masked}", 1e-4)


class Composed(nn.Module):
    """A read as a function of everything that may learn."""

    def __init__(self, scored: str, normalised: str, masked: str, engine: str) -> None:
        super().__init__()
        self.score, self.normalize = score_part(scored), normaliser_part(normalised)
        self.mask, self.engine = MASKS[masked].build(), engine

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        r = regard.read(
            q,
            k,
            v,
            score=self.score,
            normalize=self.normalize,
            mask=self.mask,
            engine=self.engine,
            telemetry="entropy",
            groups={"some keys": GROUPS["some keys"]},
        )
        assert r.entropy is not None
        lse = torch.where(r.seen > 0, r.lse, 0.0)
        return r.output, lse, r.entropy, r.mass["some keys"]


def everything(scored: str, normalised: str, masked: str, engine: str) -> tuple[Callable[..., Any], list[Tensor]]:
    module = Composed(scored, normalised, masked, engine)
    names = [name for name, _ in module.named_parameters()]
    learnt = [p.detach().clone().requires_grad_() for _, p in module.named_parameters()]
    given = [x.clone().requires_grad_() for x in inputs(scored)]

    def function(q: Tensor, k: Tensor, v: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        replaced = dict(zip(names, parameters, strict=True))
        found: tuple[Tensor, ...] = torch.func.functional_call(module, replaced, (q, k, v))
        return found

    return function, given + learnt


@every_score
@pytest.mark.parametrize("normalised", TRUE_GRADIENT)
def test_law_1_gradients_are_those_of_finite_differences(scored: str, normalised: str) -> None:
    turn = list(SCORES).index(scored) + 5 * list(NORMALISERS).index(normalised)
    masked = list(MASKS)[turn % len(MASKS)]  # all masks come round
    function, leaves = everything(scored, normalised, masked, "reference")
    assert torch.autograd.gradcheck(function, leaves, fast_mode=True, atol=1e-5, rtol=1e-4), masked


@pytest.mark.parametrize("normalised", [name for name, case in NORMALISERS.items() if case.surrogate])
def test_law_1_a_hard_choice_has_the_gradient_of_the_softmax(normalised: str) -> None:
    s = true_scores("dot").masked_fill(~visible("dense"), -math.inf)
    s = s.requires_grad_()
    away = torch.randn(s.shape, dtype=s.dtype)
    (hard,) = torch.autograd.grad((normaliser_part(normalised)(s) * away).sum(), s)
    (soft,) = torch.autograd.grad((softmax_rows(s) * away).sum(), s)
    close(hard, torch.where(visible("dense"), soft, 0.0), "gradient")


@every_score
@every_normaliser
def test_law_1_every_gradient_is_that_of_the_reference(scored: str, normalised: str) -> None:
    for masked in MASKS:
        gradients = {}
        for engine in engines_of(scored, normalised):
            function, leaves = everything(scored, normalised, masked, engine)
            found = function(*leaves)
            generator = torch.Generator().manual_seed(5)
            loss = sum((x * torch.randn(x.shape, generator=generator, dtype=x.dtype)).sum() for x in found)
            assert isinstance(loss, Tensor)
            gradients[engine] = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        for engine, found in gradients.items():
            for at, (fast, dense) in enumerate(zip(found, gradients["reference"], strict=True)):
                what = "qkv"[at] if at < 3 else "a parameter"
                close(fast, dense, f"{engine}, {masked}: gradient of {what}", 1e-8)


@pytest.mark.parametrize("scored", FUSED)
def test_law_1_gradients_of_sdpa_are_those_of_finite_differences(scored: str) -> None:
    for masked in ("none", "causal from the start", "dense", "causal & padding"):
        function, leaves = everything(scored, "tempered", masked, "sdpa")
        assert torch.autograd.gradcheck(function, leaves, fast_mode=True, atol=1e-5, rtol=1e-4), masked


@hypothesis.settings(deadline=None, derandomize=True, max_examples=40)
@hypothesis.given(
    sizes=st.tuples(*(st.integers(1, 4) for _ in range(4)), *(st.integers(1, 9) for _ in range(4))),
    seed=st.integers(0, 2**16),
    size=st.sampled_from([1e-3, 1.0, 30.0, 1e4]),
    causal=st.sampled_from([None, "start", "end"]),
)
def test_law_1_all_engines_agree_with_a_loop_on_any_shape(
    sizes: tuple[int, ...], seed: int, size: float, causal: Any
) -> None:
    b, g, repeat, _, length, keys, width, value = sizes
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(b, g * repeat, length, width, generator=generator, dtype=torch.float64) * size
    k = torch.randn(b, g, keys, width, generator=generator, dtype=torch.float64)
    v = torch.randn(b, g, keys, value, generator=generator, dtype=torch.float64)
    m = None if causal is None else mask.causal(causal)
    found = {engine: regard.attend(q, k, v, mask=m, engine=engine) for engine in ("reference", "sdpa", "tiled")}
    for at in itertools.product(range(b), range(g * repeat), range(length)):
        last = keys - 1 if causal is None else at[2] + (keys - length if causal == "end" else 0)
        picked = [j for j in range(keys) if j <= last]
        head = at[1] // repeat
        s = [float(q[at] @ k[at[0], head, j]) / math.sqrt(width) for j in picked]
        e = [math.exp(x - max(s)) for x in s]
        expected = torch.zeros(value, dtype=torch.float64)
        for weight, j in zip(e, picked, strict=True):
            expected += weight / sum(e) * v[at[0], head, j]
        for engine, out in found.items():
            close(out[at], expected, engine, 1e-8)


# ---- 2. Hull --------------------------------------------------------------------------------------------------------


@every_score
@every_normaliser
def test_law_2_weights_are_a_distribution_and_a_read_stays_inside_its_values(scored: str, normalised: str) -> None:
    q, k, v = inputs(scored)
    values = v.repeat_interleave(2, dim=1).unsqueeze(2)  # (B, H, 1, S, E)
    for masked in MASKS:
        w = regard.weights(
            q, k, score=score_part(scored), normalize=normaliser_part(normalised), mask=MASKS[masked].build()
        )
        sees = visible(masked)
        looks = sees.any(-1)
        assert (w >= 0).all()
        assert (w[~sees] == 0).all()
        if NORMALISERS[normalised].sink is None:
            close(w.sum(-1), looks, f"{masked}: row sums", 1e-12)
        else:
            assert (w.sum(-1) < 1).all()
            assert (w.sum(-1)[looks] > 0).all()
        out = read(scored, normalised, masked, telemetry=False).output
        low = torch.where(sees.unsqueeze(-1), values, math.inf).amin(-2)
        high = torch.where(sees.unsqueeze(-1), values, -math.inf).amax(-2)
        if NORMALISERS[normalised].sink is not None:  # what went to the sink reads 0
            low, high = low.clamp(max=0), high.clamp(min=0)
        inside = (out >= low - 1e-12) & (out <= high + 1e-12)
        assert inside[looks].all(), masked


@pytest.mark.parametrize("engine", ["reference", "sdpa", "tiled"])
def test_law_2_equal_values_are_read_exactly_as_they_are(engine: str) -> None:
    q, k, _ = inputs("dot")
    out = regard.attend(q, k, torch.full((B, G, S, E), 2.5, dtype=q.dtype), engine=engine)
    close(out, torch.full((B, H, L, E), 2.5), "the average of equal values")


# ---- 3. Delete ------------------------------------------------------------------------------------------------------

HIDDEN = torch.tensor([False, True, False, False, True, False, True])  # keys that are taken away


@every_score
@every_normaliser
def test_law_3_masking_a_key_equals_deleting_it(scored: str, normalised: str) -> None:
    q, k, v = inputs(scored)
    keep = ~HIDDEN
    for masked in MASKS:
        m = MASKS[masked].build()
        gone = mask.dense(keep) if m is None else m & mask.dense(keep)
        whole = read(scored, normalised, "none", mask=gone)
        left = true_scores(scored).masked_fill(~visible(masked), -math.inf)[..., keep]
        w = NORMALISERS[normalised].rows(left)
        close(whole.output, w @ v[:, :, keep].repeat_interleave(2, dim=1), f"{masked}: the rest, renormalised")
        if scored in UNPLACED:
            rest = regard.read(
                q,
                k[:, :, keep],
                v[:, :, keep],
                score=score_part(scored),
                normalize=normaliser_part(normalised),
                mask=mask.dense(visible(masked)[..., keep]),
                engine="reference",
            )
            close(whole.output, rest.output, masked, 1e-12)
            close(whole.lse, rest.lse, masked, 1e-12)
            close(whole.entropy, rest.entropy if rest.entropy is not None else whole.lse, masked, 1e-12)


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, -math.inf, 1e30])
@pytest.mark.parametrize(("engine", "scored"), RUN)
def test_law_3_rubbish_in_a_masked_slot_reaches_neither_the_read_nor_a_gradient(
    scored: str, engine: str, rubbish: float
) -> None:
    part = score_part(scored)
    for m in (mask.dense(~HIDDEN), mask.dense(~HIDDEN) & mask.causal("end"), mask.dense((~HIDDEN).expand(B, H, L, S))):
        found = []
        for dirty in (False, True):
            q, k, v = (x.clone() for x in inputs(scored))
            if dirty:
                k[:, :, HIDDEN] = rubbish
                v[:, :, HIDDEN] = rubbish
            leaves = [x.requires_grad_() for x in (q, k, v)]
            r = regard.read(q, k, v, score=part, mask=m, engine=engine, telemetry=("entropy", "peak", "spread"))
            assert r.entropy is not None
            assert r.peak is not None
            assert r.spread is not None
            loss = r.output.square().sum() + r.entropy.sum() + r.lse[r.seen > 0].sum()
            gradients = torch.autograd.grad(loss, [*leaves, *part.parameters()], allow_unused=True)
            found.append([r.output, r.lse, r.entropy, r.peak, r.spread, *(g for g in gradients if g is not None)])
        for clean, rubbished in zip(*found, strict=True):
            close(rubbished, clean, f"{rubbish}", 1e-9)
        assert (found[1][6][:, :, HIDDEN] == 0).all(), "a masked key got a gradient"
        assert (found[1][7][:, :, HIDDEN] == 0).all(), "a masked value got a gradient"


@every_normaliser
@pytest.mark.parametrize("engine", ["reference", "tiled"])
def test_law_3_rubbish_in_a_masked_slot_reaches_no_normaliser(normalised: str, engine: str) -> None:
    part = normaliser_part(normalised)
    found = []
    for rubbish in (0.0, math.nan):
        q, k, v = (x.clone() for x in inputs("dot"))
        k[:, :, HIDDEN] = v[:, :, HIDDEN] = rubbish
        leaves = [x.requires_grad_() for x in (q, k, v)]
        out = regard.attend(q, k, v, score="dot", normalize=part, mask=mask.dense(~HIDDEN), engine=engine)
        found.append([out, *torch.autograd.grad(out.square().sum(), [*leaves, *part.parameters()])])
    for clean, rubbished in zip(*found, strict=True):
        close(rubbished, clean, "read and gradients")


@pytest.mark.parametrize("engine", ["reference", "sdpa", "tiled"])
def test_law_3_rubbish_beyond_every_query_of_a_causal_read_is_not_seen(engine: str) -> None:
    q, k, v = (x.clone() for x in inputs("dot"))
    clean = regard.attend(q, k, v, mask=mask.causal("start"), engine=engine)
    k[:, :, L:] = v[:, :, L:] = math.nan
    close(regard.attend(q, k, v, mask=mask.causal("start"), engine=engine), clean, "keys after the last query")


@pytest.mark.parametrize("engine", ["reference", "sdpa", "tiled"])
def test_law_3_rubbish_in_the_padding_of_one_row_stays_there(engine: str) -> None:
    q, k, v = (x.clone() for x in inputs("scaled dot"))
    m = mask.padding([S, 4])
    clean = regard.read(q, k, v, mask=m, engine=engine)
    k[1, :, 4:] = v[1, :, 4:] = math.nan
    dirty = regard.read(q, k, v, mask=m, engine=engine)
    close(dirty.output, clean.output, "output")
    close(dirty.entropy, clean.entropy if clean.entropy is not None else clean.lse, "entropy")


# ---- 4. Empty row ---------------------------------------------------------------------------------------------------


def check_empty_row(scored: str, normalised: str, engine: str, m: Mask, empty: Tensor) -> None:
    part, normaliser = score_part(scored), normaliser_part(normalised)
    leaves = [x.clone().requires_grad_() for x in inputs(scored)]
    r = regard.read(
        *leaves,
        score=part,
        normalize=normaliser,
        mask=m,
        engine=engine,
        telemetry=TELEMETRY - {"mass"},
        groups=GROUPS,
    )
    assert (r.output[empty] == 0).all()
    assert (r.lse[empty] == -math.inf).all()
    assert (r.lse[~empty] > -math.inf).all()
    assert r.peak_at is not None
    assert (r.peak_at[empty] == -1).all()
    assert (r.seen[empty] == 0).all()
    for name in ("entropy", "peak", "bound", "distance"):
        measured = getattr(r, name)
        assert (measured[empty] == 0).all(), name
        assert measured.isfinite().all(), name
    for name, mass in r.mass.items():
        assert (mass[empty] == 0).all(), name
    assert r.entropy is not None
    assert r.distance is not None
    parameters = [*part.parameters(), *normaliser.parameters()]
    loss = r.output.sum() + r.entropy.sum() + r.distance.sum() + r.lse[~empty].sum()
    gradients = torch.autograd.grad(loss, [*leaves, *parameters], allow_unused=True)
    for gradient in gradients:
        assert gradient is None or gradient.isfinite().all()
    assert gradients[0] is not None
    assert (gradients[0][empty] == 0).all(), "an empty row sent a gradient to its query"


@every_score
@every_normaliser
def test_law_4_a_query_that_may_see_nothing_reads_nothing(scored: str, normalised: str) -> None:
    for masked in ("padding", "segments", "dense", "causal & padding", "where over queries"):
        m, empty = MASKS[masked].build(), ~visible(masked).any(-1)
        assert m is not None
        if masked != "dense":
            assert empty.any(), masked
        for engine in engines_of(scored, normalised):
            check_empty_row(scored, normalised, engine, m, empty)


@pytest.mark.parametrize("engine", ["reference", "sdpa", "tiled"])
def test_law_4_more_queries_than_keys_leave_the_first_queries_with_nothing(engine: str) -> None:
    q, k, v = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 2, 4), torch.randn(1, 2, 2, 3)
    r = regard.read(q, k, v, mask=mask.causal("end"), engine=engine)
    assert (r.output[:, :, :3] == 0).all()
    assert r.seen[0, 0].tolist() == [0, 0, 0, 1, 2]
    close(r.output[:, :, 3], v[:, :, 0], "the first query that sees a key reads it", 1e-6)
    started = regard.read(q, k, v, mask=mask.causal("start"), engine=engine)
    assert started.seen[0, 0].tolist() == [1, 2, 2, 2, 2]


@every_score
@every_normaliser
def test_law_4_an_empty_memory_reads_nothing(scored: str, normalised: str) -> None:
    q, k, v = (x.clone().requires_grad_() for x in inputs(scored))
    for engine in ("auto", "reference", "tiled"):
        r = regard.read(
            q,
            k[:, :, :0],
            v[:, :, :0],
            score=score_part(scored),
            normalize=normaliser_part(normalised),
            engine=engine,
            telemetry=TELEMETRY - {"mass"},
            groups={"none": torch.zeros(0, dtype=torch.bool)},
        )
        assert r.output.shape == (B, H, L, E)
        assert (r.output == 0).all()
        assert (r.lse == -math.inf).all()
        assert r.peak_at is not None
        assert (r.peak_at == -1).all()
        for name in ("entropy", "peak", "bound", "distance", "spread"):
            assert (getattr(r, name) == 0).all(), name
        assert (r.mass["none"] == 0).all()
        (gradient,) = torch.autograd.grad(r.output.sum() + r.lse.nan_to_num(neginf=0).sum(), q, allow_unused=True)
        assert gradient is None or (gradient == 0).all()


def test_law_4_no_queries_read_nothing() -> None:
    q, k, v = inputs("dot")
    assert regard.attend(q[:, :, :0], k, v).shape == (B, H, 0, E)
    assert regard.read(q[:, :, :0], k, v, mask=mask.causal("end")).output.shape == (B, H, 0, E)


# ---- 5. Merge -------------------------------------------------------------------------------------------------------

THIRDS = torch.tensor([0, 2, 1, 0, 0, 2, 1])  # which of three parts each key is in: no part is a slice


def same_reading(found: Reading, wanted: Reading, tolerance: float = 1e-9) -> None:
    close(found.output, wanted.output, "output", tolerance)
    close(found.lse, wanted.lse, "lse", tolerance)
    assert torch.equal(found.seen, wanted.seen)
    for name in ("entropy", "peak", "bound"):
        one, other = getattr(found, name), getattr(wanted, name)
        if one is not None and other is not None:
            close(one, other, name, tolerance)
    for name in wanted.mass:
        close(found.mass[name], wanted.mass[name], name, tolerance)


@every_score
@pytest.mark.parametrize("normalised", [name for name, case in NORMALISERS.items() if case.merges])
def test_law_5_reading_in_parts_and_merging_equals_reading_the_whole(scored: str, normalised: str) -> None:
    engines = engines_of(scored, normalised)
    for masked, engine in itertools.product(MASKS, engines):
        m = MASKS[masked].build()
        parts = []
        for third in range(3):
            inside: Mask = mask.dense(torch.eq(THIRDS, third))
            parts.append(
                read(
                    scored,
                    normalised,
                    "none",
                    engine,
                    mask=inside if m is None else m & inside,
                    telemetry=("entropy", "peak"),
                    groups=GROUPS,
                )
            )
        whole = read(scored, normalised, masked, engine, telemetry=("entropy", "peak"), groups=GROUPS)
        a, b, c = parts
        merged = Reading.merge(a, b, c)
        same_reading(merged, whole)
        if NORMALISERS[normalised].sink is None:
            assert merged.entropy is not None
        assert merged.peak is not None
        assert merged.peak_at is None
        assert merged.mass.keys() == whole.mass.keys()
        same_reading(Reading.merge(Reading.merge(a, b), c), Reading.merge(a, Reading.merge(b, c)))  # associative
        same_reading(Reading.merge(c, a, b), merged)  # commutative


@pytest.mark.parametrize("scored", UNPLACED)
@pytest.mark.parametrize("normalised", [name for name, case in NORMALISERS.items() if case.merges])
def test_law_5_the_reading_of_an_empty_memory_is_the_identity(scored: str, normalised: str) -> None:
    q, k, v = inputs(scored)
    parts: dict[str, Any] = {"score": score_part(scored), "normalize": normaliser_part(normalised)}
    whole = regard.read(q, k, v, **parts)
    nothing = regard.read(q, k[:, :, :0], v[:, :, :0], **parts)
    same_reading(Reading.merge(whole, nothing), whole, 1e-12)
    same_reading(Reading.merge(nothing, whole), whole, 1e-12)
    same_reading(Reading.merge(nothing, nothing), nothing, 1e-12)
    same_reading(Reading.merge(whole), whole, 1e-12)


@hypothesis.settings(deadline=None, derandomize=True, max_examples=30)
@hypothesis.given(cuts=st.lists(st.integers(0, S), max_size=4), scored=st.sampled_from(UNPLACED), sink=st.booleans())
def test_law_5_any_split_of_the_memory_will_do(cuts: list[int], scored: str, sink: bool) -> None:
    q, k, v = inputs(scored)
    parts: dict[str, Any] = {"score": score_part(scored), "normalize": normaliser_part("sink" if sink else "softmax")}
    edges = [0, *sorted(cuts), S]
    slices = [slice(a, b) for a, b in itertools.pairwise(edges)]
    readings = [regard.read(q, k[:, :, s], v[:, :, s], engine="reference", **parts) for s in slices]
    same_reading(Reading.merge(*readings), regard.read(q, k, v, engine="reference", **parts))


def test_law_5_gradients_merge_too() -> None:
    q, k, v = (x.clone().requires_grad_() for x in inputs("scaled dot"))
    a = regard.read(q, k[:, :, :3], v[:, :, :3], mask=mask.padding([0, 3]))
    b = regard.read(q, k[:, :, 3:], v[:, :, 3:], mask=mask.padding([0, 2]))
    merged = Reading.merge(a, b)
    whole = regard.read(q, k, v, mask=mask.padding([0, 5]))
    assert merged.entropy is not None
    assert whole.entropy is not None
    one = torch.autograd.grad(merged.output.square().sum() + merged.entropy.sum(), (q, k, v))
    other = torch.autograd.grad(whole.output.square().sum() + whole.entropy.sum(), (q, k, v))
    for x, y in zip(one, other, strict=True):
        close(x, y, "gradient", 1e-8)


@pytest.mark.parametrize("normalised", [name for name, case in NORMALISERS.items() if not case.merges])
def test_law_5_readings_that_cannot_be_merged_refuse_and_say_why(normalised: str) -> None:
    one = read("dot", normalised, "none")
    assert one.no_merge
    with pytest.raises(RegardError, match=r"cannot be merged: .*read the whole memory at once"):
        Reading.merge(one, one)


# ---- 6. Order -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scored", UNPLACED)
@every_normaliser
def test_law_6_permuting_the_memory_permutes_the_weights_and_leaves_the_read_alone(
    scored: str, normalised: str
) -> None:
    q, k, v = inputs(scored)
    order = torch.tensor([3, 6, 0, 2, 5, 1, 4])
    parts: dict[str, Any] = {"score": score_part(scored), "normalize": normaliser_part(normalised)}
    for masked in MASKS:
        m, moved = mask.dense(visible(masked)), mask.dense(visible(masked)[..., order])
        w = regard.weights(q, k, mask=m, **parts)
        close(regard.weights(q, k[:, :, order], mask=moved, **parts), w[..., order], f"{masked}: weights")
        for engine in engines_of(scored, normalised):
            out = regard.attend(q, k, v, mask=m, engine=engine, **parts)
            close(
                regard.attend(q, k[:, :, order], v[:, :, order], mask=moved, engine=engine, **parts), out, masked, 1e-9
            )


@pytest.mark.parametrize(("engine", "scored"), RUN_ON_ITSELF)
def test_law_6_self_attention_is_equivariant_until_something_tells_the_places(scored: str, engine: str) -> None:
    case = SCORES[scored]
    x = 0.3 * torch.randn(B, H, S, case.widths[0], dtype=torch.float64)  # so that no query sees itself alone
    order = torch.tensor([3, 6, 0, 2, 5, 1, 4])

    def own(x: Tensor, m: Mask | None = None) -> Tensor:
        return regard.attend(x, x, x, score=score_part(scored), mask=m, engine=engine)

    moved = (own(x[:, :, order]) - own(x)[:, :, order]).abs().max().item()
    assert moved > 1e-3 if case.placed else moved < 1e-12
    causal = mask.causal()
    assert (own(x[:, :, order], causal) - own(x, causal)[:, :, order]).abs().max() > 1e-3


# ---- 7. True = may look ---------------------------------------------------------------------------------------------


@every_mask
def test_law_7_true_is_may_look(masked: str) -> None:
    m = MASKS[masked].build()
    if m is not None:
        assert torch.equal(m.tensor(B, H, L, S).expand(B, H, L, S), visible(masked))
        assert torch.equal((~m).tensor(B, H, L, S).expand(B, H, L, S), ~visible(masked))
    q, k, v = inputs("dot")
    w = regard.weights(q, k, score="dot", mask=m)
    assert torch.equal(w > 0, visible(masked))
    assert torch.equal(regard.scores(q, k, mask=m) > -math.inf, visible(masked))
    for engine in ("reference", "sdpa", "tiled"):  # the measured reach: which values move which read
        values = v.clone().requires_grad_()
        out = regard.attend(q, k, values, score="dot", mask=m, engine=engine).sum(-1)
        for h, i in itertools.product(range(H), range(L)):
            (moved,) = torch.autograd.grad(out[:, h, i].sum(), values, retain_graph=True)
            assert torch.equal(moved[:, h // 2].abs().sum(-1) > 0, visible(masked)[:, h, i]), engine


@pytest.mark.parametrize(("first", "second"), list(itertools.product(list(MASKS)[1:], repeat=2)))
def test_law_7_masks_compose_as_booleans_do(first: str, second: str) -> None:
    a, b = MASKS[first].build(), MASKS[second].build()
    assert a is not None
    assert b is not None
    size, shape = (B, H, L, S), torch.Size((B, H, L, S))
    x, y = visible(first), visible(second)
    assert torch.equal((a & b).tensor(*size).expand(shape), x & y)
    assert torch.equal((a | b).tensor(*size).expand(shape), x | y)
    assert torch.equal((~(a & b)).tensor(*size).expand(shape), (~a | ~b).tensor(*size).expand(shape))


# ---- 8. No silent choice --------------------------------------------------------------------------------------------


@every_score
@every_normaliser
def test_law_8_an_engine_asked_for_by_name_runs_or_raises(scored: str, normalised: str) -> None:
    q, k, v = inputs(scored)
    parts: dict[str, Any] = {"score": score_part(scored), "normalize": normaliser_part(normalised)}
    plan = regard.explain(q, k, v, **parts)
    assert regard.read(q, k, v, telemetry=False, **parts).engine == plan.engine
    assert (plan.engine == "sdpa") == (scored in FUSED and normalised in PLAIN), "on what is small sdpa is the fastest"
    for engine in ENGINES:
        if engine.name in plan.refused:
            assert plan.refused[engine.name] in str(plan)
            for verb in (regard.attend, regard.read, regard.explain):
                with pytest.raises(RegardError) as raised:
                    verb(q, k, v, engine=engine.name, **parts)
                assert plan.refused[engine.name] in str(raised.value)
                assert 'engine="auto"' in str(raised.value)
        else:
            named = regard.explain(q, k, v, engine=engine.name, **parts)
            assert (named.engine, named.why) == (engine.name, "asked for by name")
            assert regard.read(q, k, v, engine=engine.name, telemetry=False, **parts).engine == engine.name


# ---- 9. Prime shapes ------------------------------------------------------------------------------------------------


def test_law_9_no_two_axes_have_the_same_size() -> None:
    sizes = [B, G, H, L, S, D, E, A, EVEN]
    assert len(set(sizes)) == len(sizes)
    assert all(all(n % d for d in range(2, n)) for n in (B, G, L, S, D, E, A))


@every_score
def test_law_9_a_swapped_axis_does_not_pass(scored: str) -> None:
    q, k, v = inputs(scored)
    part = score_part(scored)
    swaps = [
        (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)),  # (B, L, H, D)
        (q.transpose(2, 3), k, v),
        (q, k.transpose(2, 3), v),
        (q, k, v.transpose(2, 3)),
        (q, k.transpose(1, 2), v.transpose(1, 2)),
        (q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)),
    ]
    for number, swapped in enumerate(swaps):
        if number == 5 and not SCORES[scored].placed and "per head" not in scored:
            continue  # (H, B, …): two heads over two heads are a read of their own
        with pytest.raises((RegardError, RuntimeError)):
            regard.attend(*swapped, score=part)


# ---- the laws catch what they are for -------------------------------------------------------------------------------


@pytest.fixture
def _fresh() -> Iterator[None]:
    yield
    truth.cache_clear()


@pytest.mark.usefixtures("_fresh")
class TestTheLawsCatch:
    """Each well-known bug, put in on purpose, breaks the law that is there for it."""

    def test_query_heads_tiled_over_the_key_heads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def tiled(x: Tensor, heads: int) -> Tensor:
            return x.repeat(1, heads // x.shape[1], 1, 1)

        monkeypatch.setattr(reference, "_for_each_head", tiled)
        with pytest.raises(AssertionError, match="output"):
            test_law_1_the_reference_reads_what_the_definition_says("dot", "softmax")

    def test_a_causal_mask_anchored_at_the_wrong_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mask.causal, "allows", lambda self, grid: grid.j <= grid.i)
        with pytest.raises(AssertionError, match="causal to the end"):
            test_law_1_the_reference_reads_what_the_definition_says("dot", "softmax")
        with pytest.raises(AssertionError):
            test_law_7_true_is_may_look("causal to the end")

    def test_a_softmax_over_the_queries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(normalize.Softmax, "forward", lambda self, s: torch.softmax(s, -2).nan_to_num())
        with pytest.raises(AssertionError, match="row sums"):
            test_law_2_weights_are_a_distribution_and_a_read_stays_inside_its_values("dot", "softmax")
        with pytest.raises(AssertionError, match="output"):
            test_law_1_the_reference_reads_what_the_definition_says("dot", "softmax")

    def test_a_mask_multiplied_after_the_softmax(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def late(self: reference.Reference, c: Any) -> Tensor:
            s = c.score(c.q, c.k.repeat_interleave(2, dim=1), c.grid)
            w = torch.softmax(s, -1)
            return w if c.mask is None else w * c.mask.allows(c.grid)

        monkeypatch.setattr(reference.Reference, "weights", late)
        with pytest.raises(AssertionError):
            test_law_1_scores_and_weights_are_those_of_the_definition("dot", "softmax")
        with pytest.raises(AssertionError, match="row sums"):
            test_law_2_weights_are_a_distribution_and_a_read_stays_inside_its_values("dot", "softmax")

    def test_a_large_negative_number_in_place_of_minus_infinity(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def finite(self: reference.Reference, c: Any) -> Tensor:
            s: Tensor = c.score(c.q, c.k.repeat_interleave(2, dim=1), c.grid)
            return s if c.mask is None else s.masked_fill(~c.mask.allows(c.grid), -1e9)

        monkeypatch.setattr(reference.Reference, "scores", finite)
        with pytest.raises(AssertionError):
            test_law_4_a_query_that_may_see_nothing_reads_nothing("dot", "softmax")

    def test_a_mask_that_is_inverted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mask.padding, "allows", lambda self, grid: grid.j >= self.lengths[grid.b])
        with pytest.raises(AssertionError):
            test_law_7_true_is_may_look("padding")

    def test_parts_averaged_without_their_sizes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from regard import reading

        monkeypatch.setattr(reading, "_ratio", lambda part, whole: torch.full_like(part, 1 / 3))
        with pytest.raises(AssertionError):
            test_law_5_reading_in_parts_and_merging_equals_reading_the_whole("dot", "softmax")


def test_the_grid_of_the_tests_is_the_grid_of_the_package() -> None:
    assert Grid.of(B, H, L, S).shape == (B, H, L, S)
