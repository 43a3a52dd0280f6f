"""Memories: what each takes and what it still recalls; with --task, models that learn to use one."""

from __future__ import annotations

from benchmarks.recall.report import learn, tasks
from benchmarks.tradeoff import rows

__all__ = ["learn", "rows", "tasks"]

TITLE = "memories that are written and read: bytes, time a token, recall; with --task, what models learn to do with one"
