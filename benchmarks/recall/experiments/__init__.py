"""The experiments: each file has a function ``experiment()``, and is called as its task is, with _ for -."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.learning.experiment import Experiment

__all__ = ["known", "named"]


def known() -> list[str]:
    """The names of the experiments."""
    return sorted(path.stem.replace("_", "-") for path in Path(__file__).parent.glob("[!_]*.py"))


def named(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        RegardError: there is none; says which there are.
    """
    from regard.errors import unknown_name

    if name not in known():
        raise unknown_name("--task", name, known())
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    found: Experiment = module.experiment()
    return found
