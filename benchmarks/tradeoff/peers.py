"""What others have for the same step: one token written and one question read, with 8 heads of 64.

Each ``make`` here takes how many tokens are there already and the sizes, and gives the call of one step and the bytes
that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.harness.peers import installed

__all__ = ["PEERS", "Peer"]

Peer = Callable[[int, int, int], tuple[Callable[[], object], int]]


def dynamic(length: int, heads: int, D: int) -> tuple[Callable[[], object], int]:
    """Hugging Face's growing cache, read by PyTorch's fused kernel."""
    cache = installed("transformers").DynamicCache()
    _fill(cache, length, heads, D)
    k, v, q = (torch.randn(1, heads, 1, D) for _ in range(3))

    def step() -> None:
        F.scaled_dot_product_attention(q, *cache.update(k, v, 0))

    return step, _bytes(cache.layers[0].keys, cache.layers[0].values)


def static(length: int, heads: int, D: int) -> tuple[Callable[[], object], int]:
    """Hugging Face's cache of fixed room, here all that the steps to come need; what is not yet there is masked."""
    transformers = installed("transformers")
    config = transformers.LlamaConfig(hidden_size=heads * D, num_attention_heads=heads, num_hidden_layers=1)
    room = length + 2048
    cache = transformers.StaticCache(config=config, max_cache_len=room)
    _fill(cache, length, heads, D)
    k, v, q = (torch.randn(1, heads, 1, D) for _ in range(3))
    places = torch.arange(room)

    def step() -> None:
        keys, values = cache.update(k, v, 0)
        there = (places < cache.get_seq_length()).view(1, 1, 1, -1)
        F.scaled_dot_product_attention(q, keys, values, attn_mask=there)

    return step, _bytes(cache.layers[0].keys, cache.layers[0].values)


def fla_linear(length: int, heads: int, D: int) -> tuple[Callable[[], object], int]:
    """flash-linear-attention's plain recurrence of linear attention, one step of it."""
    fla = installed("fla.ops.linear_attn.naive")
    q, k, v = (torch.rand(1, 1, heads, D) for _ in range(3))
    state = torch.zeros(1, heads, D, D), torch.zeros(1, 1, heads, D)

    def step() -> None:
        nonlocal state
        _, state = fla.naive_recurrent_linear_attn(
            q, k, v, initial_state=state, output_final_state=True, normalize=True
        )

    return step, _bytes(*state)


def fla_delta(length: int, heads: int, D: int) -> tuple[Callable[[], object], int]:
    """flash-linear-attention's plain recurrence of the delta rule, one step of it."""
    recurrence = installed("fla.ops.delta_rule.naive").delta_rule_recurrence
    q, k, v = (F.normalize(torch.randn(1, heads, 1, D), dim=-1) for _ in range(3))
    beta, state = torch.ones(1, heads, 1), torch.zeros(1, heads, D, D)

    def step() -> None:
        nonlocal state
        _, state = recurrence(q, k, v, beta, initial_state=state)

    return step, _bytes(state)


def mamba(length: int, heads: int, D: int) -> tuple[Callable[[], object], int]:
    """mambapy's one-step form of the selective scan, which projects Δ, B and C itself."""
    mambapy = installed("mambapy.mamba")
    block = mambapy.MambaBlock(mambapy.MambaConfig(d_model=heads * D // 2, n_layers=1, d_state=D, expand_factor=2))
    x, state = torch.randn(1, heads * D), torch.zeros(1, heads * D, D)

    def step() -> None:
        nonlocal state
        _, state = block.ssm_step(x, state)

    return step, _bytes(state)


PEERS: dict[str, Peer] = {
    "HF DynamicCache + SDPA": dynamic,
    "HF StaticCache + SDPA": static,
    "FLA naive linear": fla_linear,
    "FLA naive delta rule": fla_delta,
    "mambapy ssm_step": mamba,
}


def _fill(cache: Any, length: int, heads: int, D: int) -> None:
    k, v = torch.randn(2, 1, heads, length, D)
    cache.update(k, v, 0)


def _bytes(*parts: Tensor) -> int:
    return sum(x.numel() * x.element_size() for x in parts)
