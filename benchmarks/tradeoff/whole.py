"""A whole sequence at once, by the chunked forms, beside the peers' own: 8 heads of 64, one row, float32, forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.harness.peers import installed
from benchmarks.harness.row import Row
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race
from benchmarks.tradeoff.subjects import FEATURES, D

__all__ = ["at_once"]

HEADS, STATES = 8, 16  # Mamba's 16 states a channel, and all heads' numbers as channels of one head


@torch.no_grad()
def at_once(setting: Setting) -> Iterator[Row]:
    """A row for each memory that has a peer; where both compute the same, they are compared."""
    L = setting.size(2048, quick=256)
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, L, D, generator=draw) / 2 for _ in range(3))
    ask, unit = (F.normalize(x, dim=-1) for x in (q, k))  # as the delta rule takes them
    for work, ours, name, theirs in (
        ("LinearMemory", partial(linear, q, k, v), "FLA naive_chunk_linear_attn", partial(fla_linear, q, k, v)),
        ("PerformerMemory", partial(performer, q, k, v), "performer-pytorch", partial(performer_pytorch, q, k, v)),
        ("DeltaMemory", partial(delta, ask, unit, v), "FLA delta_rule_chunkwise", partial(fla_delta, ask, unit, v)),
        ("StateSpaceMemory", partial(space, q, k, v), "mambapy pscan", partial(mamba, q, k, v)),
    ):
        found = race(setting, [Contender("regard", ours), Contender(name, theirs)], rounds=min(3, setting.rounds))
        yield found.row(name, f"{work}, {L:,} tokens at once")


def linear(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    from regard.memory.linear import LinearMemory

    memory = LinearMemory(HEADS, D)
    return lambda: memory.step(memory.reset(), q, k, v)[0].output


def fla_linear(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    chunked = installed("fla.ops.linear_attn.naive").naive_chunk_linear_attn

    def call() -> Tensor:
        found: Tensor = chunked(
            *(x.transpose(1, 2) for x in (F.elu(q) + 1, F.elu(k) + 1, v)), scale=1.0, normalize=True
        )
        return found.transpose(1, 2)

    return call


def performer(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], None]:
    from regard.memory.linear import PerformerMemory

    memory = PerformerMemory(HEADS, D, features=FEATURES)

    def call() -> None:  # each has directions of its own, so there is nothing to compare
        memory.step(memory.reset(), q, k, v)

    return call


def performer_pytorch(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], None]:
    package = installed("performer_pytorch")
    with redirect_stdout(StringIO()):  # it prints that there is no CUDA
        attention = package.FastAttention(dim_heads=D, nb_features=FEATURES, causal=True)

    def call() -> None:
        attention(q, k, v)

    return call


def delta(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    from regard.memory.linear import DeltaMemory

    memory = DeltaMemory(HEADS, D)
    return lambda: memory.step(memory.reset(), q, k, v)[0].output


def fla_delta(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    chunked = installed("fla.ops.delta_rule.naive").delta_rule_chunkwise
    beta = torch.ones(k.shape[:3])
    return lambda: chunked(q * D**0.5, k, v, beta)[0]  # which divides by √D


def space(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    from regard.memory.space import StateSpaceMemory

    x, step, B, C = _channels(q, k, v)
    memory = StateSpaceMemory(1, STATES, x.shape[-1])
    given = [part.unsqueeze(1) for part in (C, B, x)]
    return lambda: memory.step(memory.reset(), *given, delta=step.unsqueeze(1))[0].output[:, 0]


def mamba(q: Tensor, k: Tensor, v: Tensor) -> Callable[[], Tensor]:
    mambapy = installed("mambapy.mamba")
    x, step, B, C = _channels(q, k, v)
    E = x.shape[-1]
    block = mambapy.MambaBlock(mambapy.MambaConfig(d_model=E // 2, n_layers=1, d_state=STATES, expand_factor=2))
    A, nothing = -torch.arange(1.0, STATES + 1).expand(E, -1), torch.zeros(E)
    return lambda: block.selective_scan(x, step, A, B, C, nothing)


def _channels(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x and Δ (B, L, 512), B and C (B, L, 16)."""
    x, step = (part.transpose(1, 2).flatten(2) for part in (v, q))
    return x, F.softplus(step - 3), k[:, 0, :, :STATES].contiguous(), q[:, 0, :, :STATES].contiguous()
