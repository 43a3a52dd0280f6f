"""Names that are imported when they are first asked for, so that a room may be named without all of it being loaded."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``module``, whose public names live in its submodules ``homes``.

    A name whose home has the name itself is that submodule.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = importlib.import_module(f"{module}.{homes[name]}")
        value = found if homes[name] == name else getattr(found, name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return get, names
