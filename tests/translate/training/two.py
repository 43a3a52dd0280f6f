"""What each of several processes runs for test_ranks.py, under torchrun: trainings of the toy task in a folder."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.cli.main import app
from regard.errors import RegardError
from regard.translate.text.batches import Batch
from regard.translate.training.learner import Learner, Step
from regard.translate.training.ranks import ranks
from regard.translate.training.run import Outcome, train
from regard.translate.training.settings import Settings

plain = Learner.update


def watched(then: Callable[[int], None] | None = None) -> list[float]:
    """The loss of every update that is made from now on in this process; ``then`` is told which one was."""
    losses: list[float] = []

    def update(self: Learner, *args: Any) -> Step:
        step = plain(self, *args)
        losses.append(step.summed / step.pieces)
        if then is not None:
            then(len(losses))
        return step

    setattr(Learner, "update", update)  # noqa: B010  # mypy has no type for what is put there
    return losses


def endless(self: Learner, batch: Batch) -> Tensor:
    """An infinite loss of activations that are all finite."""
    return self.model.hidden(batch.source, batch.source_lengths, batch.previous).sum() * torch.inf


def main(folder: Path) -> None:
    settings = Settings(**json.loads((folder / "settings.json").read_text()))

    def run(name: str, settings: Settings = settings, source: str = "train.en") -> Outcome:
        files = folder / source, folder / "train.fr", folder / "dev.en", folder / "dev.fr"
        return train(*files, folder / name, settings, threads=1)

    def fails(name: str, **options: Any) -> None:
        """A run that must, in this process; what it says is noted."""
        try:
            run(name, **options)
        except RegardError as error:
            (folder / f"{name} {group.rank}").write_text(f"{type(error).__name__} {error}")
        else:
            raise AssertionError(name)

    with ranks() as group:
        losses = watched()
        run("two")
        if group.rank == 0:
            (folder / "losses.json").write_text(json.dumps(losses))
        dropping = replace(settings, dropout=0.2, epochs=1, accumulate=9)
        run("whole", dropping)
        watched(lambda update: os.kill(os.getpid(), signal.SIGINT) if update == 4 and group.rank == 1 else None)
        stopped = run("parts", dropping)
        assert stopped.updates == 4
        assert not stopped.finished
        watched()
        assert run("parts", dropping).finished
        fails("nowhere", source=("train.en", "none.en")[group.rank])
        fails("other", source=("train.en", "train.fr")[group.rank])
        if group.rank == 1:
            Learner._loss = endless  # type: ignore[method-assign]
        fails("broken")
        try:
            app(["train", *json.loads((folder / "options.json").read_text())])
        finally:
            group.total(0.0)  # both have said what they had to say: torchrun ends the one when the other has failed


if __name__ == "__main__":
    main(Path(sys.argv[1]))
