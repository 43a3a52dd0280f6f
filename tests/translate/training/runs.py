"""What tests of trainings share: a run of the toy task, one that is stopped, and the weights that it left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch

from regard.translate import checkpoint
from regard.translate.training.progress import Standing
from regard.translate.training.run import Outcome, train
from regard.translate.training.settings import Settings

from ..conftest import Toy


def run(toy: Toy, out: Path, settings: Settings | None = None, **options: object) -> Outcome:
    return train(*toy.files, out, settings or toy.settings, threads=1, **options)  # type: ignore[arg-type]


def weights(out: Path) -> dict[str, torch.Tensor]:
    state = checkpoint.load_state(out)
    assert state is not None
    found: dict[str, torch.Tensor] = {**state["model"], **{f"average {k}": v for k, v in state["average"].items()}}
    return found


def assert_same_weights(a: Path, b: Path) -> None:
    left, right = weights(a), weights(b)
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


class Stopper:
    """A report that stops the run, as Ctrl-C would, after so many updates."""

    def __init__(self, after: int) -> None:
        self.after, self.said = after, list[str]()

    def say(self, text: str) -> None:
        self.said.append(text)

    def step(self, at: Standing) -> None:
        self.after -= 1
        if self.after == 0:
            os.kill(os.getpid(), signal.SIGINT)
