"""A model is run on a text, once for what its heads look at in numbers, once for their maps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.bridge.load import Loaded
from regard.doctor.finding import Finding, Untested
from regard.doctor.inspect.maps import Map, Source, draw
from regard.doctor.watch import Watch
from regard.doctor.watch.call import Call
from regard.doctor.watch.heads import Head, Heads
from regard.doctor.watch.measure import composition
from regard.errors import RegardError
from regard.reading import Reading

__all__ = ["Chart", "Inspection", "Progress", "kept", "look", "mapped", "sides"]

Progress = Callable[[int, int, str], None]
#: Where a head is: the module's path, the source line of the call, the head.
Place = tuple[str, str, int]

#: From so many tokens on the model itself runs on this package's engines where it can: it shall hold no matrix either.
LONG = 4096


@dataclass(frozen=True)
class Chart:
    """The map of one head: the weights of the first call of its module, batch row 0."""

    head: Head
    map: Map


@dataclass(frozen=True)
class Inspection:
    """What a model's heads looked at in a text."""

    name: str
    tokens: tuple[str, ...]
    length: int
    heads: Heads
    findings: tuple[Finding, ...]
    untested: tuple[Untested, ...]
    notes: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "tokens": self.length,
            "notes": list(self.notes),
            "findings": [one.to_dict() for one in self.findings],
            "untested": [one.to_dict() for one in self.untested],
            "sparklines": self.heads.sparklines(),
            **self.heads.to_dict(),
        }


def look(loaded: Loaded) -> Inspection:
    """Runs the model under the recorder: every head in numbers, what is wrong by them, and what could not be measured.

    Raises:
        RegardError: the model cannot be run on the batch; it has no attention that can be seen.
    """
    notes = _prepare(loaded)
    watch = Watch(loaded.model)
    with watch:
        _run(loaded)
    heads = watch.compute()
    if not len(heads):
        why = "; ".join(one.why for one in watch.untested)
        raise RegardError(
            f"{loaded.name}: no attention was seen in it: {why}" if why else
            f"{loaded.name}: no attention was seen in it, wanted a model that calls softmax, "
            "scaled_dot_product_attention, flex_attention or regard"
        )  # fmt: skip
    strings = loaded.strings[0] if loaded.strings else ()
    length = max((int(x.shape[1]) for x in _tensors(loaded) if x.dim() > 1), default=0)
    return Inspection(loaded.name, strings, length, heads, tuple(watch.findings()), tuple(watch.untested), tuple(notes))


def mapped(
    loaded: Loaded, seen: Inspection, cells: Mapping[Place, int], progress: Progress | None = None
) -> tuple[Chart, ...]:
    """The maps of the heads in ``cells``, so many cells a side: the model runs again and is drawn as it runs.

    Nothing of a layer is kept but its maps.
    """
    found: dict[Place, Map] = {}

    def drawn(call: Call) -> None:
        for h in range(call.shape[1]):
            place = (call.place.path, call.place.source, h)
            if place in cells and place not in found:
                if progress is not None:
                    progress(len(found), len(cells), f"{call.place.path} head {h}")
                found[place] = draw(Source(composition(call), 0, h), cells=cells[place])

    with _Capture(loaded.model, drawn):
        _run(loaded)
    known = {(head.module, head.source, head.head): head for head in seen.heads.rows}
    return tuple(Chart(known[place], made) for place, made in found.items() if place in known)


def kept(loaded: Loaded) -> dict[Place, Source]:
    """What the maps of every head can be drawn from at any time: the queries and keys of all layers, O(L)."""
    found: dict[Place, Source] = {}

    def keep(call: Call) -> None:
        made = composition(call)
        for h in range(call.shape[1]):
            found.setdefault((call.place.path, call.place.source, h), Source(made, 0, h))

    with _Capture(loaded.model, keep):
        _run(loaded)
    return found


def sides(seen: Inspection, cells: int | None = None) -> dict[Place, int]:
    """How many cells a side the map of each head gets: ``cells``, or so many that the page stays some tens of MiB.

    The worst heads get finer maps than the rest, because they are looked at first.
    """
    order = seen.heads.worst()
    rest = next(side for most, side in ((150, 256), (600, 128), (len(order), 64)) if len(order) <= most)
    places = [(head.module, head.source, head.head) for head in order]
    return {place: cells or (512 if n < 8 else rest) for n, place in enumerate(places)}


class _Capture(Watch):
    """A recorder that hands every call on and measures nothing."""

    def __init__(self, model: nn.Module, take: Callable[[Call], None]) -> None:
        super().__init__(model)
        self._take = take

    def _add(self, call: Call, reading: Reading | None) -> None:
        self._take(call)


def _prepare(loaded: Loaded) -> list[str]:
    """Makes a model that would build matrices for a long text do without them, and says so."""
    if max((x.shape[-1] for x in _tensors(loaded)), default=0) < LONG:
        return []
    from regard.bridge.huggingface import use

    try:
        use(loaded.model)
    except RegardError:
        return []
    return [f"From {LONG:,} tokens on the model is read by regard's engines, not by the attention it was loaded with."]


def _tensors(loaded: Loaded) -> Sequence[Tensor]:
    held = loaded.batch.values() if isinstance(loaded.batch, Mapping) else loaded.batch
    return [x for x in held if isinstance(x, Tensor)]


def _run(loaded: Loaded) -> None:
    """The model on its batch, without logits for every token or a cache where it can do without."""
    more: dict[str, Any] = {}
    known: Mapping[str, inspect.Parameter] = {}
    with suppress(TypeError, ValueError):  # it may say nothing of itself
        known = inspect.signature(loaded.model.forward).parameters
    if isinstance(loaded.batch, Mapping) and not loaded.options.get("forward"):
        wanted = {"logits_to_keep": 1, "use_cache": False}
        more = {name: value for name, value in wanted.items() if name in known and name not in loaded.batch}
    forward = loaded.options.get("forward")
    with torch.no_grad():
        try:
            if forward is not None:
                forward(loaded.model, loaded.batch)
            elif isinstance(loaded.batch, Mapping):
                loaded.model(**loaded.batch, **more)
            else:
                loaded.model(*loaded.batch)
        except RegardError:
            raise
        except Exception as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise RegardError(f"{loaded.name}: the model cannot be run on this text: {said}") from error
