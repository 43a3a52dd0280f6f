"""A recurrence over stretches of a long sequence, whose backward keeps the states between them and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Tensors = tuple[Tensor, ...]
Body = Callable[[Tensors, tuple[Tensor | None, ...]], tuple[Tensors, Tensors]]
"""(state, a stretch of the inputs) → (a stretch of the outputs, the next state)."""


def over(
    body: Body, state: Tensors, inputs: Sequence[Tensor | None], edges: Sequence[int], plain: Body | None = None
) -> tuple[Tensors, Tensors]:
    """``body`` over the stretches between ``edges``, inputs and outputs being cut and joined along axis 2.

    What a stretch needs for its gradient is computed again when the gradient is asked for: beside the inputs and
    outputs only a state for each stretch is kept. Gradients of gradients need a single stretch. ``plain`` is the same
    without a gradient, by a faster way; ``body`` when there is none.
    """
    given, plain = [*state, *inputs], plain or body
    if wanted(*given):
        if len(edges) == 2:
            return body(state, tuple(inputs))
        recurrence: Any = _Recurrence.apply
        return _outputs_and_state(recurrence(body, plain, tuple(edges), len(state), *given), len(state))
    with torch.no_grad():
        if len(edges) == 2:
            return plain(state, tuple(inputs))
        outputs, _, state = _forward(plain, state, inputs, edges)
    return outputs, state


def wanted(*given: Tensor | None) -> bool:
    """Whether a gradient of any of these may be asked for."""
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)


def _outputs_and_state(found: Any, states: int) -> tuple[Tensors, Tensors]:
    return tuple(found[:-states]), tuple(found[-states:])


def _cut(inputs: Sequence[Tensor | None], first: int, last: int) -> tuple[Tensor | None, ...]:
    return tuple(None if x is None else x.narrow(2, first, last - first) for x in inputs)


def _forward(
    body: Body, state: Tensors, inputs: Sequence[Tensor | None], edges: Sequence[int]
) -> tuple[Tensors, list[Tensors], Tensors]:
    whole: Tensors = ()
    before: list[Tensors] = []
    for first, last in pairwise(edges):
        before.append(state)
        outputs, state = body(state, _cut(inputs, first, last))
        if not whole:  # made once: joining them at the end would write everything twice
            whole = tuple(x.new_empty((*x.shape[:2], edges[-1], *x.shape[3:])) for x in outputs)
        for to, part in zip(whole, outputs, strict=True):
            to.narrow(2, first, last - first).copy_(part)
    return whole, before, state


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, body: Body, plain: Body, edges: tuple[int, ...], states: int, *given: Tensor | None) -> Any:
        state, inputs = given[:states], given[states:]
        outputs, before, last = _forward(plain, state, inputs, edges)  # type: ignore[arg-type]  # a state is given whole
        ctx.body, ctx.edges, ctx.states, ctx.inputs = body, edges, states, len(inputs)
        ctx.save_for_backward(*inputs, *(x for each in before for x in each))
        return (*outputs, *last)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        inputs, kept = ctx.saved_tensors[: ctx.inputs], ctx.saved_tensors[ctx.inputs :]
        n = ctx.states
        d_outputs, d_state = _outputs_and_state(grads, n)
        wanted = ctx.needs_input_grad[4 + n :]
        d_inputs = [torch.empty_like(x) if want else None for x, want in zip(inputs, wanted, strict=True)]
        for at, (first, last) in reversed(list(enumerate(pairwise(ctx.edges)))):
            with torch.enable_grad():
                state = tuple(x.detach().requires_grad_() for x in kept[at * n : (at + 1) * n])
                here = tuple(
                    None if x is None else x.detach().requires_grad_(want)
                    for x, want in zip(_cut(inputs, first, last), wanted, strict=True)
                )
                outputs, after = ctx.body(state, here)
                slopes = [*_cut(d_outputs, first, last), *d_state]
                ends = [(x, g) for x, g in zip([*outputs, *after], slopes, strict=True) if x.requires_grad]
                sources = [*state, *(x for x in here if x is not None and x.requires_grad)]
                slope_of = torch.autograd.grad([x for x, _ in ends], sources, [g for _, g in ends], allow_unused=True)
                found = iter(slope_of)
            d_state = tuple(torch.zeros_like(x) if (g := next(found)) is None else g for x in state)
            for to in d_inputs:
                if to is not None:
                    slope = next(found)
                    part = to.narrow(2, first, last - first)
                    _ = part.zero_() if slope is None else part.copy_(slope)
        return (None, None, None, None, *d_state, *d_inputs)
