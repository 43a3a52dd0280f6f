"""The selective scan beside mambapy's, which makes the states of every step and scans them in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.harness.memory import memory_row
from benchmarks.harness.peers import installed
from benchmarks.harness.row import Cost, Row, at_least, at_most
from benchmarks.harness.setting import Setting
from benchmarks.harness.timing import Contender, race

TITLE = "selective scan, L=4,096, 512 channels of 16 states: against mambapy's pscan; equal to the recurrence to 1e-5"

E, N, FEW = 512, 16, 16
PEER, PLAIN = "mambapy", "one step after the other in PyTorch"
FASTER, EQUAL = at_least(5), at_most(1e-5)


class Given(NamedTuple):
    x: Tensor  # (1, L, E)
    delta: Tensor  # (1, L, E)
    A: Tensor  # (E, N)
    B: Tensor  # (1, L, N)
    C: Tensor  # (1, L, N)


def rows(setting: Setting) -> Iterator[Row]:
    if setting.device != "cpu":
        yield Row("selective scan", PEER, "", problem="the kernel runs on the CPU; run it without --device")
        return
    L = setting.size(4096, quick=97)
    for backward in (False, True):
        work = f"L={L:,}, {E} channels of {N} states, forward{' + backward' if backward else ''}"
        contenders = [
            Contender("regard", partial(ours, setting, L, backward)),
            Contender(PEER, partial(mambapy, setting, L, backward)),
        ]
        if not backward:
            contenders.append(Contender(PLAIN, partial(plain, setting, L)))
        found = race(setting, contenders, rounds=min(setting.rounds, 5))  # a peer's call takes seconds
        cost = Cost(flops=(28.0 if backward else 8.0) * L * E * N)
        for peer in contenders[1:]:
            yield found.row(peer.name, work, goal=FASTER if peer.name == PEER else None, cost=cost)
        yield memory_row(
            setting, work, together if backward else alone, (min(97, L),), (L,),
            peer=(PEER, peer_together if backward else peer_alone, (L,)),
        )  # fmt: skip
    yield _equal(setting, L)
    yield from _step(setting)


def _equal(setting: Setting, L: int) -> Row:
    """The largest difference from the recurrence in double precision, of y and of every gradient."""
    g = given(setting, L, grad=True, channels=FEW)  # the recurrence takes minutes to go back over all
    found = _all(g, "kernel")
    wanted = _all(Given(*(x.detach().double().requires_grad_() for x in g)), "sequential")
    differs = max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in zip(found, wanted, strict=True))
    return Row(
        f"L={L:,}, {FEW} channels: y and all gradients against the recurrence in float64", "", "of the largest",
        differs, goal=EQUAL, judged=setting.judged,
    )  # fmt: skip


def _step(setting: Setting) -> Iterator[Row]:
    """One token, of a block of 256 with its convolution and projections: the same at any length."""
    width = 256
    found = race(
        setting, [Contender("regard", partial(one, setting, width)), Contender(PEER, partial(peer_one, setting, width))]
    )
    yield found.row(PEER, f"one token through a Mamba block of {width}, decoding", note="the state has one size")


def given(setting: Setting, L: int, grad: bool, channels: int = E) -> Given:
    x, z = setting.randn(2, 1, L, channels)
    B, C = setting.randn(2, 1, L, N)
    delta = torch.exp(-4.6 + z)  # around 0.01
    A = -torch.arange(1.0, N + 1).repeat(channels, 1)
    return Given(*(t.detach().to(torch.float32).clone().requires_grad_(grad) for t in (x, delta, A, B, C)))


def scan(g: Given, which: str) -> Tensor:
    from regard.memory import StateSpaceMemory

    memory = StateSpaceMemory(1, N, g.x.shape[-1], g.A.unsqueeze(0), scan=which)
    state = memory.reset(1, dtype=g.x.dtype)
    k, q, v, delta = (t.unsqueeze(1) for t in (g.B, g.C, g.x, g.delta))
    return memory.step(state, q, k, v, delta=delta)[0].output.squeeze(1)


def pscan(g: Given) -> Tensor:
    """As ``mambapy.mamba.MambaBlock.selective_scan`` does it, without D."""
    decay = torch.exp(g.delta.unsqueeze(-1) * g.A)
    drive = g.delta.unsqueeze(-1) * g.B.unsqueeze(2) * g.x.unsqueeze(-1)
    found: Tensor = (installed("mambapy.pscan").pscan(decay, drive) @ g.C.unsqueeze(-1)).squeeze(3)
    return found


def _call(g: Given, run: Callable[[], Tensor], backward: bool) -> Callable[[], object]:
    def both() -> tuple[Tensor, ...]:
        y = run()
        return y.detach(), *torch.autograd.grad(y.sum(), g)

    return both if backward else run


def _all(g: Given, which: str) -> tuple[Tensor, ...]:
    y = scan(g, which)
    return y.detach(), *torch.autograd.grad(y.sum(), g)


def ours(setting: Setting, L: int, backward: bool) -> Callable[[], object]:
    g = given(setting, L, backward)
    return _call(g, lambda: scan(g, "kernel"), backward)


def mambapy(setting: Setting, L: int, backward: bool) -> Callable[[], object]:
    g = given(setting, L, backward)
    return _call(g, lambda: pscan(g), backward)


def plain(setting: Setting, L: int) -> Callable[[], object]:
    g = given(setting, L, False)
    return lambda: scan(g, "sequential")


def alone(setting: Setting, L: int) -> Callable[[], object]:
    return ours(setting, L, False)


def together(setting: Setting, L: int) -> Callable[[], object]:
    return ours(setting, L, True)


def peer_alone(setting: Setting, L: int) -> Callable[[], object]:
    return mambapy(setting, L, False)


def peer_together(setting: Setting, L: int) -> Callable[[], object]:
    return mambapy(setting, L, True)


def one(setting: Setting, width: int) -> Callable[[], object]:
    """The first token through a block, from an empty state."""
    block, x = _block(width), setting.randn(1, 1, width).float()
    state = block.reset()

    def call() -> Tensor:
        with torch.no_grad():
            found: Tensor = block.step(state, x)[0].squeeze(1)
        return found

    return call


def peer_one(setting: Setting, width: int) -> Callable[[], object]:
    """The same through mambapy's block, with the same weights."""
    theirs = installed("mambapy.mamba")
    block = theirs.MambaBlock(theirs.MambaConfig(d_model=width, n_layers=1)).eval()
    block.load_state_dict(_block(width).state_dict())
    x = setting.randn(1, 1, width).float().squeeze(1)
    cache = (None, torch.zeros(1, block.config.d_inner, block.config.d_conv - 1))

    def call() -> Tensor:
        with torch.no_grad():
            found: Tensor = block.step(x, cache)[0]
        return found

    return call


def _block(width: int) -> Any:
    from regard.nn import Mamba

    torch.manual_seed(0)
    return Mamba(width).eval()
