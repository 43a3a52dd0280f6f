"""A composition in FlexAttention's words: a scaled product, what is done to a score after it, and a block mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.engines.memory import without_hidden
from regard.engines.visible import counts, depends, on
from regard.grid import Anchor, Grid
from regard.mask import Mask
from regard.normalize import Softmax
from regard.plan import Composition
from regard.position import ALiBi, RelativeBias
from regard.score import Biased, Capped, Score, Wrapped

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

Step = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""(s, b, h, i, j) → s: what is done to one score after the product."""

BLOCK = 128  # FlexAttention's tile


@dataclass(frozen=True)
class Lowered:
    """Scores as ``order · steps(scale · q·k)``; ``row`` (B, H, L, 1) stands aside where it moves no weight."""

    q: Tensor
    k: Tensor
    scale: float
    steps: tuple[Step, ...]
    row: Tensor | None
    mask: Mask | None
    block_mask: BlockMask | None
    order: float = 1.0

    def within(self, group: Mask, grid: Grid) -> Lowered:
        """The same with the mask narrowed to ``group``."""
        group = on(group, grid.i.device)
        mask = group if self.mask is None else self.mask & group
        return replace(self, mask=mask, block_mask=_block_mask(mask, grid))

    def score_mod(self) -> Step | None:
        if not self.steps:
            return None
        steps, order = self.steps, self.order

        def modified(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            for step in steps:
                s = step(s, b, h, i, j)
            return s * order

        return modified


def lowered(c: Composition) -> tuple[Lowered, Tensor]:
    """The composition in FlexAttention's words, and its values."""
    assert isinstance(c.normalize, Softmax)
    mask = None if c.mask is None else on(c.mask, c.q.device)
    keys = counts(mask, c.grid)[1]
    k, v = without_hidden(c.k, c.v, None if keys is None else keys.unsqueeze(-2))
    base, wraps = _unwrapped(c.score)
    dot = base.as_dot(c.score.queries(c.q, c.grid), c.score.keys(k, c.grid))
    scale, row, tau = dot.scale, dot.row, c.normalize.temperature
    steps: list[Step] = []
    if row is not None and any(isinstance(wrap, Capped) for wrap in wraps):
        steps.append(_plus_row(row[..., 0]))  # under a cap what is the same for all keys does move the weights
        row = None
    steps += [_capped(wrap.cap) if isinstance(wrap, Capped) else _plus_bias(wrap, c.grid) for wrap in wraps]
    if steps:
        steps.append(_divided(tau))
    else:
        scale = scale / tau
    row = None if row is None else row / tau
    return Lowered(dot.q, dot.k, scale, tuple(steps), row, mask, _block_mask(mask, c.grid)), v.to(dot.q.dtype)


def _block_mask(mask: Mask | None, grid: Grid) -> BlockMask | None:
    if mask is None:
        return None
    _, _, L, S = grid.shape
    return mask.block_mask(*depends(mask, grid)[:2], L, S, device=grid.i.device, size=BLOCK)


def _unwrapped(score: Score) -> tuple[Score, list[Biased | Capped]]:
    """The product itself, and what is done to it afterwards, in that order."""
    wraps: list[Biased | Capped] = []
    while isinstance(score, Wrapped):
        if isinstance(score, Biased | Capped):
            wraps.append(score)
        elif type(score).compare is not Wrapped.compare:
            break
        score = score.inner
    return score, wraps[::-1]


def no_lowering(score: Score) -> str:
    base, wraps = _unwrapped(score)
    if base.no_dot_form:
        return base.no_dot_form
    for wrap in wraps:
        if isinstance(wrap, Biased) and type(wrap.bias) not in (ALiBi, RelativeBias):
            return f"the bias {type(wrap.bias).__name__} is not one FlexAttention is told: ALiBi, RelativeBias"
    return ""


def _plus_bias(wrap: Score, grid: Grid) -> Step:
    assert isinstance(wrap, Biased)
    bias = wrap.bias
    bias(grid.rows(0, 1))  # raises where heads or anchor do not fit
    device = grid.i.device
    if isinstance(bias, ALiBi):
        slopes, offset = bias.slopes.to(device), _offset(bias.anchor, grid)
        return lambda s, b, h, i, j: s - slopes[h].to(s.dtype) * (i + offset - j).abs()
    assert isinstance(bias, RelativeBias)
    table, offset, reach = bias.weight.to(device), _offset(bias.anchor, grid), bias.reach
    return lambda s, b, h, i, j: s + table[h, (j - i - offset).clamp(-reach, reach) + reach].to(s.dtype)


def _offset(anchor: Anchor, grid: Grid) -> int:
    return grid.S - grid.L if anchor == "end" else 0


def _plus_row(row: Tensor) -> Step:
    return lambda s, b, h, i, j: s + row[b, h, i].to(s.dtype)


def _capped(cap: float) -> Step:
    return lambda s, b, h, i, j: cap * torch.tanh(s / cap)


def _divided(by: float) -> Step:
    return lambda s, b, h, i, j: s / by


def kind(low: Lowered, v: Tensor) -> Any:
    """What the compiler compiles anew for, besides numbers and lengths."""
    sizes = (low.q.dtype, *low.q.shape[1::2], *v.shape[1::2])
    return (_mask_kind(low.mask), tuple(step.__code__ for step in low.steps), *sizes)


def _mask_kind(mask: Any) -> Any:
    if not is_dataclass(mask):
        return type(mask)
    parts = [getattr(mask, one.name) for one in fields(mask)]
    return (
        type(mask),
        *(_mask_kind(part) if isinstance(part, Mask) else getattr(part, "__code__", None) for part in parts),
    )
