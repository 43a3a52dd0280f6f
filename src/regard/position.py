"""Positions: what a read knows of the order of its memory. Without one, attention does not see order at all."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.grid import Anchor, Grid
from regard.score import Bias, Score, Wrapped


def sinusoidal(length: int, width: int, base: float = 10_000.0, start: int = 0) -> Tensor:
    """PE(p, 2c) = sin(p / base^{2c/D}), PE(p, 2c+1) = cos(…): a table (L, D) (Vaswani et al. 2017).

    Every row has norm √(D/2), and PE(p + k) is a fixed rotation of PE(p). The places before ``start`` are left out.

    >>> sinusoidal(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    if width % 2:
        raise RegardError(f"sinusoidal: width is {width}, wanted an even number (sines and cosines come in pairs)")
    phase = _phases(torch.arange(start, length, dtype=torch.float64), width, base)
    return torch.stack([phase.sin(), phase.cos()], dim=-1).flatten(-2).to(torch.get_default_dtype())


class Rotary(Wrapped):
    """Turns q and k by angles that grow with their places: q′·k′ depends on i − j only (Su et al. 2021).

    Pairs of columns (c, c + D/2) turn by p / base^{2c/D}; with ``interleaved`` the pairs are (2c, 2c + 1). Both are the
    same model up to a permutation of columns, but weights trained with one are wrong with the other. Phases are
    computed in float64 whatever the inputs are, because half precision cannot count past 2,048. Where L ≠ S an
    ``anchor`` is needed.

    >>> import torch
    >>> from regard.score import ScaledDot
    >>> q = torch.ones(1, 1, 5, 4)
    >>> s = Rotary(ScaledDot())(q, q)
    >>> bool(torch.allclose(s[0, 0, 1, 0], s[0, 0, 4, 3]))  # the same distance, the same score
    True
    """

    def __init__(self, inner: Score, base: float = 10_000.0, interleaved: bool = False, anchor: Anchor = None) -> None:
        super().__init__(inner)
        self.base, self.interleaved, self.anchor = base, interleaved, anchor

    def check_widths(self, query_width: int, key_width: int) -> None:
        super().check_widths(query_width, key_width)
        for name, width in (("q", query_width), ("k", key_width)):
            if width % 2:
                raise RegardError(f"Rotary: {name} has width D = {width}, wanted an even one (columns turn in pairs)")

    def queries(self, q: Tensor, grid: Grid | None = None) -> Tensor:
        places = (
            torch.arange(q.shape[-2], device=q.device) if grid is None else grid.query_places(self.anchor, "Rotary")
        )
        return self.inner.queries(self.turned(q, places.flatten()), grid)

    def keys(self, k: Tensor, grid: Grid | None = None) -> Tensor:
        places = torch.arange(k.shape[-2], device=k.device) if grid is None else grid.j
        return self.inner.keys(self.turned(k, places.flatten()), grid)

    def turned(self, x: Tensor, places: Tensor) -> Tensor:
        """x (…, L, D) turned by where each stands: places (L,), or (B, L) for x (B, H, L, D)."""
        phase = _phases(places.to(torch.float64), x.shape[-1], self.base)  # (L, D/2)
        if places.dim() == 2:
            phase = phase.unsqueeze(1)  # heads
        cos, sin = phase.cos().to(x.dtype), phase.sin().to(x.dtype)
        if self.interleaved:
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class ALiBi(Bias):
    """bias = −m_h · |i − j|, with slopes m_h = 2^{−8(h+1)/H} (Press et al. 2022).

    When H is no power of two the slopes are those of the next lower power, then every other one of the next higher, as
    the authors' code has it. Where L ≠ S an ``anchor`` is needed.

    >>> import torch
    >>> from regard.grid import Grid
    >>> ALiBi(8)(Grid.of(1, 8, 2, 2))[0, 0]
    tensor([[-0.0000, -0.5000],
            [-0.5000, -0.0000]])
    """

    slopes: Tensor

    def __init__(self, heads: int, anchor: Anchor = None) -> None:
        super().__init__()
        self.anchor = anchor
        self.register_buffer("slopes", torch.tensor(_alibi_slopes(heads)), persistent=False)

    def forward(self, grid: Grid) -> Tensor:
        _check_heads("ALiBi", self.slopes.numel(), grid)
        distance = (grid.query_places(self.anchor, "ALiBi") - grid.j).abs()
        return -self.slopes.to(grid.i.device)[grid.h] * distance


class RelativeBias(Bias):
    """bias = table[h, clip(j − i, −reach, reach)], learnt, 0 at the start (Shaw et al. 2018, as a bias on the score).

    ``weight`` is (H, 2·reach + 1). Where L ≠ S an ``anchor`` is needed.

    >>> from regard.grid import Grid
    >>> RelativeBias(heads=2, reach=3)(Grid.of(1, 2, 5, 5)).shape
    torch.Size([1, 2, 5, 5])
    """

    def __init__(self, heads: int, reach: int, anchor: Anchor = None) -> None:
        super().__init__()
        if reach < 1:
            raise RegardError(f"RelativeBias: reach is {reach}, wanted at least 1")
        self.reach, self.anchor = reach, anchor
        self.weight = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def forward(self, grid: Grid) -> Tensor:
        _check_heads("RelativeBias", self.weight.shape[0], grid)
        step = (grid.j - grid.query_places(self.anchor, "RelativeBias")).clamp(-self.reach, self.reach)
        return self.weight[grid.h, step + self.reach]


def _check_heads(who: str, built: int, grid: Grid) -> None:
    if grid.shape[1] != built:
        raise RegardError(
            f"{who}: built for H = {built} heads, the read has H = {grid.shape[1]}; build it with heads={grid.shape[1]}"
        )


def _phases(places: Tensor, width: int, base: float) -> Tensor:
    """p / base^{2c/D} for c = 0 … D/2 − 1, in the precision of ``places``: (…) → (…, D/2)."""
    columns = torch.arange(0, width, 2, device=places.device, dtype=places.dtype)
    return places.unsqueeze(-1) * torch.exp(columns * (-math.log(base) / width))


def _alibi_slopes(heads: int) -> list[float]:
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
    between = [2.0 ** (-8 * (h + 1) / (2 * power)) for h in range(0, 2 * power, 2)]
    return slopes + between[: heads - power]
