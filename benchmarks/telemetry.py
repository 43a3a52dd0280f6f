"""What it costs to know a statistic of the weights at a length where the weights can hardly be stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.harness.memory import memory_row
from benchmarks.harness.peers import attention_cost, sdpa
from benchmarks.harness.report import figure
from benchmarks.harness.row import Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

TITLE = "statistics of the weights, L=8,192, H=4 D=64: time and memory against eager weights, and on sdpa"

H, D = 4, 64
FASTER, LESS = at_least(8), at_least(50)
RATIO, MIB = at_most(3), at_most(100)
CASES = [
    ("entropy", False),
    ("peak", False),
    ("mass", False),
    ("distance", False),
    ("spread", False),
    ("entropy", True),
]


def rows(setting: Setting) -> Iterator[Row]:
    L = setting.size(8192, quick=131)
    small = min(1024, L)
    for name, causal in CASES:
        pairs = L * (L + 1) / 2 if causal else L * L
        work = f"{name}, {'causal' if causal else 'full'}, L={L:,}"
        found = race(
            setting,
            [
                Contender("regard", partial(statistic, setting, L, name, causal)),
                Contender("eager weights", partial(eager_statistic, setting, L, name, causal)),
            ],
            rounds=min(5, setting.rounds),
        )
        yield found.row(
            "eager weights", work, goal=FASTER, cost=attention_cost(setting, pairs, 1, H, L, D, backward=False)
        )
        yield memory_row(
            setting,
            work,
            statistic,
            (small, name, causal),
            (L, name, causal),
            goal=LESS,
            peer=("eager weights", eager_statistic, (L, name, causal)),
        )
    yield from _on_sdpa(setting, L, small)


def _on_sdpa(setting: Setting, L: int, small: int) -> Iterator[Row]:
    """Entropy, a bound on the peak and the sink's mass from the fused kernel alone."""
    peer, work = "F.scaled_dot_product_attention", f"entropy, bound and mass on sdpa, causal, L={L:,}"
    found = race(
        setting,
        [
            Contender("regard", partial(on_sdpa, setting, L)),
            Contender(peer, lambda: sdpa(*setting.qkv(1, H, L, D), causal=True)),
        ],
    )
    yield found.row(peer, work, goal=RATIO)
    weights = setting.bytes(H, L, L) / 2**20
    yield memory_row(
        setting, work, on_sdpa, (small,), (L,), goal=MIB, note=f"the weights would take {figure(weights)} MiB"
    )


def statistic(setting: Setting, L: int, name: str, causal: bool) -> Callable[[], object]:
    """One statistic by `regard.read`."""
    import regard

    q, k, v = setting.qkv(1, H, L, D)
    mask = regard.mask.causal() if causal else None
    read = partial(regard.read, q, k, v, mask=mask, engine=setting.engine)
    if name == "mass":
        first = torch.arange(L, device=q.device) < 1
        return lambda: read(telemetry=False, groups={"first": first}).mass["first"]
    return lambda: getattr(read(telemetry=(name,)), name)


def eager_statistic(setting: Setting, L: int, name: str, causal: bool) -> Callable[[], object]:
    """The same from the matrix of weights, as one writes it."""
    q, k, _ = setting.qkv(1, H, L, D)
    measure = EAGER[name]

    def call() -> Tensor:
        scores = q @ k.mT * D**-0.5
        if causal:
            hidden = torch.ones(L, L, dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(hidden, -torch.inf)
        return measure(scores) if name == "spread" else measure(scores.softmax(-1))

    return call


def on_sdpa(setting: Setting, L: int) -> Callable[[], object]:
    import regard

    q, k, v = setting.qkv(1, H, L, D)
    sink = {"sink": torch.arange(L, device=q.device) < 1}
    causal, wanted = regard.mask.causal(), ("entropy", "bound")
    return lambda: regard.read(q, k, v, mask=causal, telemetry=wanted, groups=sink, engine="sdpa").output


def _distance(weights: Tensor) -> Tensor:
    i = torch.arange(weights.shape[-1], device=weights.device, dtype=weights.dtype)
    return (weights * (i - i[:, None]).abs()).sum(-1)


EAGER: dict[str, Callable[[Tensor], Tensor]] = {
    "entropy": lambda weights: torch.special.entr(weights).sum(-1),
    "peak": lambda weights: weights.amax(-1),
    "mass": lambda weights: weights[..., :1].sum(-1),
    "distance": _distance,
    "spread": lambda scores: scores.std((-2, -1), correction=0),
}
