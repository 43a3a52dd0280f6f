"""Memories: what each takes and what it still recalls; with --task, models that learn to use one."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.row import Line, Point, Row
from benchmarks.harness.setting import Setting
from benchmarks.recall.report import learn

__all__ = ["learn", "rows"]

TITLE = "memories that are written and read: bytes, time a token, recall; with --task, what models learn to do with one"


def rows(setting: Setting) -> Iterator[Row | Point | Line]:
    """The table of all memories."""
    yield Row("bytes, time and recall of every memory", "", "", note="not made yet: give --task and --memory")
