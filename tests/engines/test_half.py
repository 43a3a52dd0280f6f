"""Half precision on tiled: a few heads at a time, the same whatever their number, and without float32 copies of all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regard
from regard import mask, normalize, position, score
from regard.engines import Tiled
from regard.engines.tiled import chunks
from regard.mask import Mask
from regard.normalize import Normalizer
from regard.score import Score

B, H, G, L, S, D, E = 3, 10, 5, 37, 41, 6, 7
HALVES = [torch.float16, torch.bfloat16]
RANDOM = torch.Generator().manual_seed(3)
SCORES: dict[str, Callable[[], Score]] = {
    "scaled dot": score.ScaledDot,
    "biased and capped": lambda: (
        (score.ScaledDot() + position.RelativeBias(H, reach=4, anchor="end")).capped(3.0) + position.ALiBi(H, "end")
    ),
    "euclidean": score.Euclidean,
    "additive": lambda: score.Additive(D, D, width=5),
}
NORMALISERS: dict[str, Callable[[], Normalizer]] = {
    "softmax": lambda: normalize.Softmax(sink=nn.Parameter(torch.linspace(-1, 1, H))),
    "learnt alpha": lambda: normalize.Entmax(nn.Parameter(torch.linspace(1.2, 2.3, H))),
    "top-k": lambda: normalize.TopK(5),
    "hardmax": normalize.Hardmax,
    "noise": lambda: normalize.GumbelSoftmax(0.7, generator=torch.Generator().manual_seed(2)).train(),
}
MASKS: dict[str, Mask | None] = {
    "no mask": None,
    "one for each row": mask.padding([41, 17, 30]),
    "one for each head": mask.blocks(torch.rand(H, 5, 5, generator=RANDOM) < 0.6, 9) & mask.padding([40, 41, 9]),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tiled, "rows", 16)
    monkeypatch.setattr(Tiled, "columns", 16)
    torch.set_num_threads(1)  # sums in one order


def look(dtype: torch.dtype, scored: str, normalised: str, masked: str, dropout: float = 0.0) -> list[Tensor]:
    """Output, statistics and every gradient."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((B, H, L, D), (B, G, S, D), (B, G, S, E))
    leaves = [torch.randn(*shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]
    parts: Any = nn.ModuleList([SCORES[scored](), NORMALISERS[normalised]()])
    for p in parts[0].parameters():
        nn.init.normal_(p, 0.0, 0.4, generator=generator)
    torch.manual_seed(7)
    if dropout:
        out = regard.attend(
            *leaves, score=parts[0], normalize=parts[1], mask=MASKS[masked], engine="tiled", dropout=dropout
        )
        found = [out]
    else:
        r = regard.read(
            *leaves,
            score=parts[0],
            normalize=parts[1],
            mask=MASKS[masked],
            engine="tiled",
            telemetry=True,
            groups={"first": mask.where(lambda b, h, i, j: j < 2 + b + h)},
        )
        assert r.entropy is not None
        assert r.distance is not None
        found = [r.output, torch.where(r.seen > 0, r.lse, 0.0), r.entropy, r.distance, r.mass["first"]]
    away = [torch.randn(x.shape, generator=generator) for x in found]
    loss = torch.stack([(x.float() * y).sum() for x, y in zip(found, away, strict=True)]).sum()
    learnt = [*leaves, *parts.parameters()]
    return [*found, *torch.autograd.grad(loss, learnt, allow_unused=True, materialize_grads=True)]


@pytest.mark.parametrize(
    ("scored", "normalised", "masked", "dropout"),
    [
        ("biased and capped", "softmax", "one for each head", 0.0),
        ("biased and capped", "softmax", "one for each row", 0.3),
        ("biased and capped", "learnt alpha", "one for each head", 0.0),
        ("scaled dot", "learnt alpha", "no mask", 0.3),
        ("scaled dot", "top-k", "one for each row", 0.0),
        ("scaled dot", "hardmax", "no mask", 0.3),
        ("scaled dot", "noise", "one for each row", 0.0),
        ("euclidean", "softmax", "one for each row", 0.0),
        ("additive", "learnt alpha", "one for each head", 0.0),
    ],
)
def test_how_many_heads_go_together_changes_nothing(
    scored: str, normalised: str, masked: str, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for held in (1, 4 * 1500, 1 << 30):  # a key head, a few of one batch row, all
        monkeypatch.setattr(chunks, "HELD", held)
        found.append(look(torch.bfloat16, scored, normalised, masked, dropout))
    for some in found[:2]:
        for one, all_ in zip(some, found[2], strict=True):
            assert one.dtype == all_.dtype
            assert torch.allclose(one, all_, rtol=1e-2, atol=1e-4)
        assert torch.equal(some[0], found[2][0])  # the read of a head does not know the others


def test_the_chunks_are_every_head_once() -> None:
    for held in (1, 2000, 6000, 20_000, 1 << 30):
        chunks_held, chunks.HELD = chunks.HELD, held
        try:
            seen = torch.zeros(B, G, dtype=torch.int64)
            for one in chunks.chunks(given(torch.float16)):
                seen[one.b, one.g] += 1
                assert one.h == slice(one.g.start * (H // G), one.g.stop * (H // G))
                assert one.before == one.b.start * H + one.h.start
                assert one.b.stop - one.b.start == 1 or one.g == slice(0, G)
        finally:
            chunks.HELD = chunks_held
        assert (seen == 1).all()
    assert chunks.widens(given(torch.float16))
    assert not chunks.widens(given(torch.float32))


def given(dtype: torch.dtype) -> Any:
    from regard.engines.tiled.given import Given

    q, k, v = torch.zeros(B, H, L, D), torch.zeros(B, G, S, D), torch.zeros(B, G, S, E)
    rest: list[Any] = [None] * 17
    return Given(q.to(dtype), k.to(dtype), v.to(dtype), *rest)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_operator_says_what_it_gives(dtype: torch.dtype) -> None:
    from regard.engines.tiled.ops import tiled_softmax

    q, k, v = (torch.randn(1, 2, n, 4).to(dtype).requires_grad_() for n in (5, 7, 7))
    lo, hi, tags = torch.zeros(1, 1, 1, dtype=torch.int64), torch.full((1, 1, 1), 7), torch.ones(1, 1, 7)
    torch.library.opcheck(
        tiled_softmax,
        (
            q, k, v, None, None, None, lo, hi, None, None, tags, torch.empty(0, 2), [], 0, 0.3, 0.0, 5, 2, 15, [2, 3],
        ),
    )  # fmt: skip


MEMORY = """
import sys, torch, regard
from regard import mask
def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1024
def go(L, normalize):
    q, k, v = (torch.randn(1, 16, L, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    open("/proc/self/clear_refs", "w").write("5")
    before = status("VmRSS")
    out = regard.attend(q, k, v, mask=mask.window(64, 0), normalize=normalize, engine="tiled")
    return out, before
for normalize in ("softmax", "entmax15"):
    go(300, normalize)[0].sum().backward()
    out, before = go(8192, normalize)
    forward = status("VmHWM") - before
    out.sum().backward()
    print(forward, status("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the high-water mark where Linux keeps it")
def test_no_float32_copy_of_all_heads_is_ever_held() -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        forward, backward = map(float, line.split())
        one = 16.0  # MiB of one of q, k, v and the output in bfloat16; in float32 it is twice that
        # The output, then the gradients of it, q, k and v; four float32 copies more would be 128, seven 224.
        assert forward < one + 48
        assert backward < 5 * one + 80
