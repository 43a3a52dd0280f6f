"""Looking at every head of a model: what a text of 32,768 tokens costs beyond the model and the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from benchmarks.harness.memory import memory_row
from benchmarks.harness.row import Row
from benchmarks.harness.setting import Setting

TITLE = "regard inspect, 2 layers of 4 heads, D=64: memory for the statistics and the maps of all heads"

H, D, LAYERS = 4, 64, 2


def rows(setting: Setting) -> Iterator[Row]:
    L, small = setting.size(32_768, quick=331), setting.size(2048, quick=257)
    note = f"a layer's weights are {4 * H * L * L / 2**20:,.0f} MiB"
    yield memory_row(setting, f"L={L:,}, heads in numbers", statistics, (small,), (L,), note=note)
    yield memory_row(setting, f"L={L:,}, numbers and 8 maps of 512 × 512", maps, (small,), (L,), note=note)


class _Decoder(torch.nn.Module):
    """Layers that read, and nothing else: what is weighed is the looking."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(H * D, 3 * H * D) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            q, k, v = (part.unflatten(-1, (H, D)).transpose(1, 2) for part in layer(x).chunk(3, -1))
            read = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + read.transpose(1, 2).flatten(2)
        return x


def statistics(setting: Setting, L: int) -> Callable[[], object]:
    from regard.bridge.load import Loaded
    from regard.doctor.inspect.looking import look

    torch.manual_seed(0)
    loaded = Loaded(_Decoder().to(**setting.place()), (setting.randn(1, L, H * D),), "decoder")
    return lambda: look(loaded)


def maps(setting: Setting, L: int) -> Callable[[], object]:
    from regard.bridge.load import Loaded
    from regard.doctor.inspect.looking import look, mapped, sides

    torch.manual_seed(0)
    loaded = Loaded(_Decoder().to(**setting.place()), (setting.randn(1, L, H * D),), "decoder")

    def call() -> object:
        seen = look(loaded)
        return mapped(loaded, seen, sides(seen, 512))

    return call
