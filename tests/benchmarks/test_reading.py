"""Stacks of reads: they see what came before and nothing after, and read what the package's memories read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import regard
from benchmarks.recall.arms.reading import Convolved, DeltaBlock, PairBlock, reader
from regard.memory import DeltaMemory, KVCache, LinearMemory
from regard.memory.tasks import Copy, MultiQueryRecall
from regard.position import Rotary
from regard.score import General, ScaledDot

MEMORIES: dict[str, Callable[[], Any]] = {
    "attention": partial(KVCache, 3, 2, 5, score=Rotary(ScaledDot())),
    "linear": partial(LinearMemory, 3, 2, 5),
    "delta": partial(DeltaMemory, 3, 2, 5),
}


@pytest.mark.parametrize("kind", MEMORIES)
def test_an_answer_depends_on_all_that_came_and_on_nothing_that_comes(kind: str) -> None:
    torch.manual_seed(0)
    task = Copy(4, (3, 3))
    model = reader(task, 11, MEMORIES[kind], layers=2, kernel=3, hidden=13)
    x = torch.randn(1, 7, task.inputs.width, requires_grad=True)
    model(x)[0, 3].sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().sum(-1)
    assert bool((seen[:4] > 0).all())
    assert bool((seen[4:] == 0).all())


def test_a_layer_of_pairs_is_causal_attention() -> None:
    torch.manual_seed(0)
    block = PairBlock(11, KVCache(3, 2, 5))
    x = torch.randn(2, 7, 11)
    q, k, v = (part(x).view(2, 7, 3, -1).transpose(1, 2) for part in (block.query, block.key, block.value))
    whole = regard.attend(q, k, v, mask=regard.mask.causal()).transpose(1, 2).reshape(2, 7, 15)
    torch.testing.assert_close(block(x), block.out(whole))


def test_a_step_that_is_told_to_write_nothing_is_not_read() -> None:
    torch.manual_seed(0)
    block = DeltaBlock(11, DeltaMemory(3, 2, 5))
    x = torch.randn(2, 7, 11)
    assert bool(block(x).abs().max() > 0.01)
    torch.nn.init.constant_(block.beta.bias, -200.0)
    assert torch.equal(block(x), torch.zeros(2, 7, 11))


def test_the_last_steps_are_summed_each_by_its_own_weight() -> None:
    block = Convolved(5, 3)
    x = torch.randn(2, 7, 5)
    wanted = F.conv1d(F.pad(x.mT, (2, 0)), block.weight.T.flip(-1).unsqueeze(1), groups=5).mT
    torch.testing.assert_close(block(x), wanted)


def test_what_a_score_learns_is_trained_and_a_delta_rule_learns_when_to_write() -> None:
    task = MultiQueryRecall((2, 2), 3, 3)

    def named(memory: Callable[[], Any]) -> set[str]:
        return {name.split(".", 2)[-1] for name, _ in reader(task, 5, memory).named_parameters()}

    assert "learnt.0.weight" in named(lambda: KVCache(1, 2, score=General(2, 2)))
    assert "beta.bias" in named(lambda: DeltaMemory(1, 2))
    assert named(lambda: KVCache(1, 2)) == named(lambda: LinearMemory(1, 2))
