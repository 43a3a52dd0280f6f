"""A directory belongs to one run and, while it trains, to one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.translate import checkpoint
from regard.translate.models import name_of
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.training.settings import Settings, changed

__all__ = ["check_joint", "check_sizes", "claim", "same_run"]


@contextmanager
def claim(out: Path) -> Iterator[None]:
    """Makes ``out`` and holds it for this process alone; a killed process lets go by dying.

    Raises:
        RegardError: it cannot be made, or another training holds it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = open(out / ".lock", "w")  # noqa: SIM115
    except OSError as error:
        raise RegardError(f"out: cannot make {out}: {error.strerror}; give a directory that can be written") from error
    with lock:
        try:
            import fcntl
        except ImportError:  # not a POSIX system: no such protection
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RegardError(f"out: another training writes to {out}; wait for it, or give another --out") from error
        yield


def same_run(out: Path, identity: Mapping[str, Any], settings: Settings) -> None:
    """Raises where ``out`` holds something that is not this very run."""
    if not (out / "run.json").exists():
        if any(not path.name.startswith(".") for path in out.iterdir()):
            raise RegardError(f"out: {out} is not empty and holds no run; give a new directory")
        return
    before = checkpoint.read_json(out / "run.json")
    checkpoint.check_format(out / "run.json", before)
    different = changed(before.get("settings", {}), settings)
    if different:
        name, was, now = different
        raise RegardError(
            f"{name}: the run in {out} was begun with {was}, found {now}; give the same, or another --out"
        )
    for name, option in (("corpus", "src/tgt"), ("dev", "dev-src/dev-tgt"), ("from", "from")):
        if before.get(name) != identity[name]:
            raise RegardError(f"{option}: not what the run in {out} was begun with; give that, or another --out")


def check_sizes(first: EncoderDecoder[Any, Any], settings: Settings) -> None:
    """Raises where a model to begin with has other sizes than those asked for; its dropout is free to change."""
    if name_of(first.config) != settings.model:
        found = name_of(first.config)
        raise RegardError(f"model: found {settings.model}, the one to begin from is a {found}; give --model {found}")
    for name, wanted in settings.sizes.items():
        found = getattr(first.config, name)
        if found != wanted:
            raise RegardError(f"{name}: found {wanted}, the model to begin from has {found}; give --{name} {found}")


def check_joint(source: Vocabulary, target: Vocabulary, settings: Settings) -> None:
    """Raises where the vocabularies of a model to begin with are joint and ought not to be, or the other way round."""
    one = source.model == target.model
    if one != settings.joint:
        found, wanted = ("one vocabulary", "give --joint") if one else ("two vocabularies", "leave --joint out")
        raise RegardError(f"joint: the model to begin from has {found}; {wanted}")
