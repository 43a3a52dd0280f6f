"""Which benchmarks train models, and the options of `regard bench` that are theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.errors import RegardError

__all__ = ["LEARNING", "asked"]


@dataclass(frozen=True)
class Learning:
    """A benchmark that trains: the option that says ``what``, and all that it ``takes``, that one included.

    Not told what, it trains nothing, and so has no use for the others; or ``everything``.
    """

    what: str
    takes: tuple[str, ...]
    everything: bool = False


LEARNING = {
    "joeynmt": Learning("corpus", ("corpus", "model", "seeds", "epochs", "logs")),
    "memory": Learning("task", ("task", "memory", "seeds", "steps", "logs")),
    "transduction": Learning("task", ("task", "model", "seeds", "steps", "logs"), everything=True),
    "translate": Learning("corpus", ("corpus", "model", "seeds", "epochs", "logs")),
}


def asked(name: str | None, device: str, options: Mapping[str, object]) -> dict[str, Any]:
    """The options of learning that were given, of ``options``; empty where nothing is to be learnt.

    Raises:
        RegardError: an option for what does not take it, without what is to be learnt, or for another device.
    """
    given = {option: value for option, value in options.items() if value is not None}
    if not given:
        return {}
    learning = LEARNING.get(name or "")
    for option in given:
        takers = " or ".join(repr(each) for each, known in LEARNING.items() if option in known.takes)
        if learning is None or option not in learning.takes:
            raise RegardError(f"--{option}: found it with {name or 'all benchmarks'}, only {takers} takes it")
        if learning.what not in given and not learning.everything:
            raise RegardError(f"--{option}: it needs --{learning.what}, what is to be learnt")
    if device != "cpu":
        raise RegardError(f"--device {device}: models are trained on the CPU; leave it out")
    return given
