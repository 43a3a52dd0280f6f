"""Memories: what each takes and what it still recalls; with --task, models that learn to use one."""

from __future__ import annotations

from benchmarks.recall.report import learn
from benchmarks.tradeoff import rows

__all__ = ["learn", "rows"]

TITLE = "memories that are written and read: bytes, time a token, recall; with --task, what models learn to do with one"
