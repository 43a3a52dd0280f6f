"""Sequences rewritten by the package's encoder-decoders, trained in minutes, each beside one that must fall behind."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.row import Line, Row, Spot
from benchmarks.harness.setting import Setting
from benchmarks.rewriting.report import learn, tasks

__all__ = ["learn", "rows", "tasks"]

TITLE = "encoder-decoders on sequences that are rewritten: length, reversing the source, positions; it trains them"


def rows(setting: Setting) -> Iterator[Row | Line | Spot]:
    """All tasks and all models, three seeds; a run that was finished in ``runs/transduction`` is not run again."""
    yield from learn(logs=None, seeds="0")(setting, _silent) if setting.quick else learn()(setting, _silent)


def _silent(text: str) -> None:
    pass
