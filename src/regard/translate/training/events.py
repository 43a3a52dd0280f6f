"""A run's numbers as TensorBoard shows them, by the package `tensorboard` (the extra ``train``)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from regard.errors import RegardError
from regard.translate.training.learner import Step

__all__ = ["Events", "Nowhere", "TensorBoard", "check_events", "installed"]


class Events(Protocol):
    """Where the numbers of a run go beside its history."""

    def update(self, number: int, step: Step, speed: float) -> None:
        """Of an update: loss, rate, gradient norm, target pieces a second."""

    def epoch(self, line: Mapping[str, Any]) -> None:
        """Of an epoch's end: a line of the history."""

    def flush(self) -> None:
        """What was given is in the file."""

    def close(self) -> None:
        """Nothing more comes."""


class Nowhere:
    """They go nowhere."""

    def update(self, number: int, step: Step, speed: float) -> None:
        pass

    def epoch(self, line: Mapping[str, Any]) -> None:
        pass

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def installed() -> bool:
    """Whether TensorBoard is there; nothing is imported."""
    return find_spec("tensorboard") is not None


def check_events() -> None:
    """Raises where events are asked for and cannot be written."""
    if not installed():
        raise RegardError("events: tensorboard is not installed; pip install 'regard[train]', or leave events out")


class TensorBoard:
    """Event files in ``directory``; a run that goes on from update ``done`` disowns what files of before say of later
    ones, so that no step is there twice."""

    def __init__(self, directory: Path, done: int) -> None:
        check_events()
        from torch.utils.tensorboard import SummaryWriter

        try:
            self._writer: Any = SummaryWriter(str(directory), purge_step=done + 1)
        except OSError as error:
            raise RegardError(
                f"events: cannot write to {directory}: {error.strerror}; give another --events"
            ) from error

    def update(self, number: int, step: Step, speed: float) -> None:
        self._write(
            number,
            {
                "train/loss": step.summed / step.pieces,
                "train/rate": step.rate,
                "train/gradient norm": step.norm,
                "train/pieces a second": speed,
            },
        )

    def epoch(self, line: Mapping[str, Any]) -> None:
        heads = {
            f"entropy/layer {n + 1} head {h + 1}": entropy
            for n, layer in enumerate(line["entropy"])
            for h, entropy in enumerate(layer)
        }
        self._write(int(line["updates"]), {"dev/BLEU": line["bleu"], "dev/loss": line["dev_loss"], **heads})

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _write(self, number: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, number)
