"""The peers: packages that may be missing, and the ways to attend that people write by hand."""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.harness.row import Cost
from benchmarks.harness.setting import Setting

__all__ = [
    "Missing",
    "attention_cost",
    "band",
    "entmax",
    "flex_window",
    "forward_backward",
    "installed",
    "local_window",
    "performer",
    "performer_sums",
    "sdpa",
    "x_attend",
]


class Missing(Exception):
    """A peer that is not installed; the text says how to get it."""


def forward_backward(forward: Callable[[], Tensor], inputs: Sequence[Tensor]) -> Callable[[], object]:
    """`forward` alone when no input wants a gradient, else with the gradients of its sum, which are then the result.

    >>> x = torch.ones(2, requires_grad=True)
    >>> forward_backward(lambda: x * 3, [x])()
    (tensor([3., 3.]),)
    """
    if not any(x.requires_grad for x in inputs):
        return forward
    return lambda: torch.autograd.grad(forward().sum(), inputs)


def attention_cost(setting: Setting, pairs: float, B: int, H: int, L: int, D: int, *, backward: bool) -> Cost:
    """The products over `pairs` of one head (2 forward, 5 more backward), and the bytes that must move."""
    tensors = 12 if backward else 4  # q, k, v, o; then these and the output's gradient in, three gradients out
    return Cost(
        flops=4.0 * D * pairs * B * H * (3.5 if backward else 1.0),
        bytes=float(tensors * setting.bytes(B, H, L, D)),
    )


def band(L: int, left: int, right: int, device: str) -> Tensor:
    """The mask of a window as a boolean matrix, True = may look: `left` neighbours before, `right` after.

    >>> band(3, 1, 0, "cpu").int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    i = torch.arange(L, device=device)
    step = i - i[:, None]
    return (step >= -left) & (step <= right)


def sdpa(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None) -> Callable[[], object]:
    """PyTorch's fused kernel."""
    attend = F.scaled_dot_product_attention
    return forward_backward(lambda: attend(q, k, v, attn_mask=mask, is_causal=causal), (q, k, v))


def entmax(name: str) -> Callable[[Tensor], Tensor]:
    """`sparsemax`, `entmax15` or another of the entmax package, along the last axis."""
    function = getattr(installed("entmax"), name)

    def normalise(scores: Tensor) -> Tensor:
        result: Tensor = function(scores, dim=-1)
        return result

    return normalise


def local_window(q: Tensor, k: Tensor, v: Tensor, left: int, right: int) -> Callable[[], object]:
    """local-attention's blocks, masked to exactly `left` neighbours before and `right` (0, or `left`) after."""
    package = installed("local_attention")
    attend = package.LocalAttention(
        window_size=left,
        causal=right == 0,
        look_backward=1,
        look_forward=0 if right == 0 else 1,
        exact_windowsize=True,
        use_rotary_pos_emb=False,
        autopad=right == 0,  # the zeros it puts behind the last key are seen from before them
    )
    return forward_backward(lambda: attend(q, k, v), (q, k, v))


def performer_sums(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], object]:
    """performer-pytorch's causal sums without CUDA, given the features elu + 1."""
    package = installed("performer_pytorch.performer_pytorch")
    return forward_backward(lambda: package.causal_linear_attention_noncuda(F.elu(q) + 1, F.elu(k) + 1, v), (q, k, v))


def performer(q: Tensor, k: Tensor, v: Tensor, features: int) -> Callable[[], object]:
    """performer-pytorch's FAVOR+ as it comes, causal, which without CUDA is its sums of above."""
    package = installed("performer_pytorch.performer_pytorch")
    with contextlib.redirect_stdout(io.StringIO()):  # it prints that there is no CUDA code
        attend = package.FastAttention(q.shape[-1], nb_features=features, causal=True)
    return forward_backward(lambda: attend(q, k, v), (q, k, v))


def x_attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Callable[[], object]:
    """x-transformers' Attend as it comes."""
    attend = installed("x_transformers.attend").Attend(causal=causal)
    return forward_backward(lambda: attend(q, k, v)[0], (q, k, v))


def flex_window(q: Tensor, k: Tensor, v: Tensor, left: int) -> Callable[[], object]:
    """FlexAttention for a window of `left` neighbours before; compiled here, with no cache to shorten it."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i - j <= left)

    L = q.shape[-2]
    blocks = create_block_mask(seen, None, None, L, L, device=str(q.device))
    attend: Any = torch.compile(flex_attention, dynamic=False)
    config: Any = importlib.import_module("torch.compiler.config")
    with config.patch(force_disable_caches=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the caches that are off
        attend(q, k, v, block_mask=blocks)
    return forward_backward(lambda: attend(q, k, v, block_mask=blocks), (q, k, v))


def installed(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a peer imports
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        top = name.partition(".")[0].replace("_", "-")
        raise Missing(f"{top}: not installed; pip install 'regard[bench]'") from error
