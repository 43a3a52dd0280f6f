"""What a memory still knows: of a pair so many pairs ago, and of so many pairs, with nothing learnt.

Keys are random unit vectors, values one of CODEBOOK random unit vectors; a question is one of the keys, exactly. What
is read counts as the value whose inner product with it is largest. So what is measured is what the memory itself
loses: not whether a model would find its way to such keys, nor what it would do with unlike ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.tradeoff.drivers import Driver
from benchmarks.tradeoff.subjects import CODEBOOK, D, Subject

__all__ = ["by_age", "by_load"]

TUNED = 99  # the seed on which a driver's setting is chosen; it is measured on others


def by_age(subject: Subject, told: int, ages: Sequence[int], seeds: Sequence[int]) -> Iterator[tuple[int, float]]:
    """(age, share recalled) in a stream of ``told`` pairs: of the pair before which age − 1 others came, from the end.

    Its neighbours, up to a sixteenth of the age to either side, are asked as well.
    """
    driver = subject.make(1, told)
    asked = [torch.arange(told - age - min(4, age // 16), told - age + min(4, age // 16) + 1) for age in ages]
    places = torch.cat(asked)
    best = _best(driver, subject.batch, told, places)
    right = torch.stack([_right(driver, subject.batch, told, places, seed, best) for seed in seeds]).mean((0, 1))
    for age, part in zip(ages, right.split([len(each) for each in asked]), strict=True):
        yield age, float(part.mean())


def by_load(subject: Subject, loads: Sequence[int], seeds: Sequence[int]) -> Iterator[tuple[int, float]]:
    """(pairs told, share recalled) of pairs anywhere among them."""
    for told in loads:
        driver = subject.make(1, told)
        places = torch.linspace(0, told - 1, min(told, 64)).round().long()
        best = _best(driver, subject.batch, told, places)
        right = [_right(driver, subject.batch, told, places, seed, best) for seed in seeds]
        yield told, float(torch.stack(right).mean())


def _best(driver: Driver, batch: int, told: int, places: Tensor) -> float:
    """The setting that recalls most."""
    if len(driver.settings) == 1:
        return driver.settings[0]
    rows = max(1, batch // 4)
    found = {each: float(_right(driver, rows, told, places, TUNED, each).mean()) for each in driver.settings}
    return max(found, key=lambda each: found[each])


@torch.no_grad()
def _right(driver: Driver, batch: int, told: int, places: Tensor, seed: int, setting: float) -> Tensor:
    """Which questions are answered right, (B, m) of 0 and 1."""
    draw = torch.Generator().manual_seed(seed)
    codebook = F.normalize(torch.randn(CODEBOOK, D, generator=draw), dim=-1)
    keys = F.normalize(torch.randn(batch, 1, told, D, generator=draw), dim=-1)
    which = torch.randint(CODEBOOK, (batch, 1, told), generator=draw)
    state = driver.tell(driver.start(batch), keys, codebook[which], setting)
    read = driver.ask(state, keys[:, :, places], setting)
    return ((read @ codebook.T).argmax(-1) == which[:, :, places])[:, 0].float()
