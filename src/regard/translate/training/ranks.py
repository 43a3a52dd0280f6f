"""Several processes that train one model, under ``torchrun``: each takes a share of every update's pairs, gradients are
added up, and the first one tests, saves and tells."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.align.ranks import under_torchrun
from regard.errors import RegardError
from regard.translate.training.broken import NotFinite

__all__ = ["Alone", "Elsewhere", "Ranks", "ranks", "share"]

T = TypeVar("T")


class Elsewhere(RegardError):
    """An error that another process tells, so that it is told once."""


def share(batches: Sequence[Sequence[int]], rank: int, size: int) -> list[Sequence[int]]:
    """What process ``rank`` of ``size`` takes of an update's batches of pairs: whole batches as far as they go round,
    of each of the rest every ``size``-th pair, so that all have about as much to do.

    >>> [share([[1, 2], [3, 4, 5], [6, 7, 8]], rank, 2) for rank in range(2)]
    [[[1, 2], [6, 8]], [[3, 4, 5], [7]]]
    """
    round_ = len(batches) - len(batches) % size
    return [*batches[rank:round_:size], *(part for batch in batches[round_:] if (part := batch[rank::size]))]


@dataclass(frozen=True)
class Alone:
    """One process: its share is everything."""

    rank: int = 0
    size: int = 1

    def device(self, device: torch.device) -> torch.device:
        """The one to use where ``device`` was asked for."""
        return device

    def seed(self, seed: int, update: int) -> None:
        """Random numbers go on from update to update."""

    def total(self, number: float) -> float:
        """The number itself."""
        return number

    def add(self, parameters: Iterable[Tensor]) -> None:
        """The gradients are what they are."""

    def foremost(self, found: NotFinite | None) -> NotFinite:
        """What was found, which is something: here is where it was computed."""
        assert found is not None
        return found

    def alike(self, value: object, name: str) -> None:
        """Nobody else has another."""

    def given(self, work: Callable[[], T]) -> T:
        """What ``work`` gives."""
        return work()

    def agreed(self, work: Callable[[], T]) -> T:
        """What ``work`` gives."""
        return work()


@dataclass(frozen=True)
class Ranks:
    """One process of ``size``; ``torch.distributed`` carries what they tell each other (gloo).

    Raises:
        RegardError: from any method, in the first process, where another one is gone; in the others Elsewhere.
    """

    rank: int
    size: int

    def device(self, device: torch.device) -> torch.device:
        """Each process of a machine has a GPU of its own, as far as they go round."""
        if device.type != "cuda":
            return device
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())

    def seed(self, seed: int, update: int) -> None:
        """Dropout is a function of seed, update and process: no two draw alike, and nothing of it has to be saved."""
        torch.manual_seed(random.Random(f"{seed}/{update}/{self.rank}").getrandbits(63))

    def total(self, number: float) -> float:
        """The sum over all processes, the same in each."""
        whole = torch.tensor([number], dtype=torch.float64)
        self._all(lambda dist: dist.all_reduce(whole))
        return float(whole)

    def add(self, parameters: Iterable[Tensor]) -> None:
        """Makes each parameter's gradient the sum over all processes; None where it is None in all of them."""
        learnt = [p for p in parameters if p.requires_grad]
        there = torch.tensor([float(p.grad is not None) for p in learnt])
        parts = [(torch.zeros_like(p) if p.grad is None else p.grad).detach().flatten() for p in learnt]
        whole = torch.cat([*parts, there.to(parts[0])]).cpu()
        self._all(lambda dist: dist.all_reduce(whole))
        *sums, there = whole.to(parts[0].device).split([*(p.numel() for p in learnt), len(learnt)])
        for p, grown, count in zip(learnt, sums, there.tolist(), strict=True):
            p.grad = grown.view_as(p).to(p.dtype) if count else None

    def foremost(self, found: NotFinite | None) -> NotFinite:
        """The first process's finding that names a batch, or else the first that there is."""
        everyone = self._everyone(None if found is None else (found.what, found.batch))
        findings = [NotFinite(each[0], each[1], rank) for rank, each in enumerate(everyone) if each is not None]
        return next((each for each in findings if each.batch is not None), findings[0])

    def given(self, work: Callable[[], T]) -> T:
        """What ``work`` gives in the first process, which alone does it; an error there ends all."""
        value: list[Any] = [None, False]
        failed: RegardError | None = None
        if self.rank == 0:
            try:
                value[0] = work()
            except RegardError as error:
                failed, value[1] = error, True
        self._all(lambda dist: dist.broadcast_object_list(value))
        if failed is not None:
            raise failed
        if value[1]:
            raise Elsewhere("the first process tells it")
        found: T = value[0]
        return found

    def agreed(self, work: Callable[[], T]) -> T:
        """What each process's own ``work`` gives; an error in one ends all, and the first that has one tells it."""
        failed: RegardError | None = None
        try:
            value = work()
        except RegardError as error:
            failed = error
        wrong = [rank for rank, bad in enumerate(self._everyone(failed is not None)) if bad]
        if wrong:
            raise failed if failed is not None and wrong[0] == self.rank else Elsewhere("another process tells it")
        return value

    def alike(self, value: object, name: str) -> None:
        """Raises where another process has another value than the first one: they would not train one model."""
        everyone = self._everyone(value)
        other = next((rank for rank, each in enumerate(everyone) if each != everyone[0]), None)
        if other is not None:
            if self.rank:
                raise Elsewhere("the first process tells it")
            raise RegardError(f"{name}: process {other} found other text than the first one; give all the same")

    def wait(self) -> None:
        """Until a process that has something to tell is gone: torchrun ends all others when it sees one fail."""
        import torch.distributed as dist

        with suppress(RuntimeError):  # that it is gone
            dist.barrier()

    def _everyone(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        self._all(lambda dist: dist.all_gather_object(found, value))
        return found

    def _all(self, together: Callable[[Any], Any]) -> None:
        import torch.distributed as dist

        try:
            together(dist)
        except RuntimeError as error:
            if self.rank:
                raise Elsewhere("the first process is gone, or tells it") from error
            raise RegardError(
                f"torchrun: one of the {self.size} processes is gone; what was saved last stands: find out why it "
                "ended, and run the same command again"
            ) from error


@contextmanager
def ranks() -> Iterator[Alone | Ranks]:
    """The group that ``torchrun`` started this process in, or this process alone."""
    if not under_torchrun():
        yield Alone()
        return
    import torch.distributed as dist

    if dist.is_initialized():  # by whoever called, who also ends it
        yield Ranks(dist.get_rank(), dist.get_world_size())
        return
    dist.init_process_group("gloo", timeout=timedelta(days=7))  # an exam may last; who is gone is noticed at once
    group = Ranks(dist.get_rank(), dist.get_world_size())
    try:
        yield group
    except Elsewhere:
        group.wait()
        dist.destroy_process_group()
        raise
    dist.destroy_process_group()  # not where an error is to be told: the others wait until this process is gone
