"""What it costs to watch every head of a decoder while it runs, at a length where its weights can hardly be stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness.memory import extra_mib
from benchmarks.harness.report import figure
from benchmarks.harness.row import Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race, reason

TITLE = "watching all heads of a 4-layer decoder, L=16,384, H=4 D=64: its time and memory beside the plain forward"

LAYERS, H, D = 4, 4, 64
TILED, SDPA, MIB, WEIGHTS = at_most(1.3), at_most(3), at_most(300), at_least(16)


def rows(setting: Setting) -> Iterator[Row]:
    L = setting.size(16384, quick=131)
    small = min(2048, L)  # large enough to be measured by the same kernels
    for path, goal in (("tiled", TILED), ("sdpa", SDPA)):
        if path == "tiled" and setting.device != "cpu":
            continue
        work = f"forward on {path}, L={L:,}"
        found = race(
            setting,
            [
                Contender("watched", partial(watched, setting, L, path)),
                Contender("plain forward", partial(plain, setting, L, path)),
            ],
            rounds=min(3, setting.rounds),
        )
        yield found.row("plain forward", work, goal=goal)
        yield _memory(setting, work, path, small, L)
    weights = LAYERS * H * L * L * setting.bytes(1) / 2**30
    note = "computed, not run: the weights of all layers, as output_attentions=True keeps them"
    yield Row("eager weights of every head", "", "GiB", value=weights, goal=WEIGHTS, judged=setting.judged, note=note)


def _memory(setting: Setting, work: str, path: str, small: int, L: int) -> Row:
    """What watching adds to what the forward takes by itself, each in a process of its own."""
    try:
        ours = extra_mib(setting, watched, (small, path), (L, path))
        theirs = extra_mib(setting, plain, (small, path), (L, path))
    except Exception as error:
        return Row(work, "", "MiB more", goal=MIB, judged=setting.judged, problem=reason("watch", error))
    note = f"{figure(ours)} MiB watched, {figure(theirs)} MiB plain"
    value = max(0.0, ours - theirs)
    return Row(work, "", "MiB more", value=value, amount="MiB", goal=MIB, judged=setting.judged, note=note)


class Layer(nn.Module):
    """A pre-norm decoder layer: causal attention and a feed-forward part."""

    def __init__(self, path: str) -> None:
        super().__init__()
        width = H * D
        self.path = path
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        import regard

        B, L, width = x.shape
        q, k, v = (y.view(B, L, H, D).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        if self.path == "sdpa":
            read = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            read = regard.attend(q, k, v, mask=regard.mask.causal(), engine=self.path)
        x = x + self.out(read.transpose(1, 2).reshape(B, L, width))
        y: Tensor = x + self.outer(F.gelu(self.inner(self.norm2(x))))
        return y


def decoder(setting: Setting, L: int, path: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(path) for _ in range(LAYERS))).eval().to(**setting.place())
    return model, setting.randn(1, L, H * D)


def plain(setting: Setting, L: int, path: str) -> Callable[[], object]:
    model, x = decoder(setting, L, path)

    def call() -> Tensor:
        with torch.no_grad():
            y: Tensor = model(x)
        return y

    return call


def watched(setting: Setting, L: int, path: str) -> Callable[[], object]:
    import regard

    model, x = decoder(setting, L, path)

    def call() -> Tensor:
        with torch.no_grad(), regard.watch(model) as seen:
            y: Tensor = model(x)
        assert len(seen.compute()) == LAYERS * H
        return y

    return call
