"""A trained or half-trained aligner on disk: written after every iteration, taken up again, or put to new text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.align import tensors
from regard.align.corpus import Corpus
from regard.align.expect import Channel
from regard.align.fertility.belief import Belief
from regard.align.fertility.distances import DISTANCES
from regard.align.fertility.places import Fertile, Tops
from regard.align.lexicon import Lexicon
from regard.align.pairs import Pairs
from regard.align.places import Places
from regard.align.places.diagonal import Diagonal
from regard.align.places.jumps import Jumps
from regard.align.places.shapes import Shapes
from regard.align.places.table import Table
from regard.align.places.uniform import Uniform
from regard.align.recipe import Recipe, Sampling, restored
from regard.align.train import State
from regard.align.view import View
from regard.errors import RegardError

__all__ = ["FILE", "Saved", "save"]

Array = np.ndarray[Any, Any]

FILE = "aligner.safetensors"
_SIDES = ("forward", "reverse")
_WORDS = ("table", "null", "rest")  # what a lexicon is made of


def save(
    folder: Path,
    corpus: Corpus,
    channels: Sequence[Channel],
    done: int,
    recipe: Recipe | Sampling,
    digest: str,
    drawn: Mapping[str, Array] | None = None,
) -> None:
    """Writes the aligner into ``folder``. On a full disk, or interrupted, the one of before is intact.

    ``drawn`` is a sampler's own state; while it samples there are no ``channels`` yet.
    """
    arrays: dict[str, Array] = {f"drawn.{name}": array for name, array in (drawn or {}).items()}
    for name, side in (("source", corpus.source), ("target", corpus.target)):
        arrays[f"{name}.words"] = np.frombuffer(b"\n".join(side.words), np.uint8)
    kinds = []
    for name, channel in zip(_SIDES, channels, strict=False):
        pairs = channel.view.pairs
        arrays.update({"rows": pairs.rows, "target": pairs.target})
        kind, own = _packed(channel.places)
        kinds.append(kind)
        lexicon = {"table": channel.lexicon.table, "null": channel.lexicon.null, "rest": channel.lexicon.rest}
        arrays.update({f"{name}.{key}": array for key, array in {**lexicon, **own}.items()})
    about = {
        "regard": "aligner 1",
        "recipe": json.dumps(recipe.to_dict()),
        "done": str(done),
        "digest": digest,
        "places": " ".join(kinds),
    }
    folder.mkdir(parents=True, exist_ok=True)
    tensors.write(folder / FILE, arrays, about, "--save")


@dataclass(frozen=True)
class Saved:
    """What ``save`` wrote: mapped, not read."""

    arrays: dict[str, Array]
    about: dict[str, str]
    folder: Path

    @staticmethod
    def of(folder: Path, argument: str = "--load") -> Saved:
        """The aligner in ``folder``."""
        if not (folder / FILE).exists():
            raise RegardError(f"{argument}: there is no aligner in {folder}; make one with --save {folder}")
        arrays, about = tensors.read(folder / FILE, argument)
        if about.get("regard") != "aligner 1":
            raise RegardError(f"{argument}: {folder / FILE} is no aligner of this version; train it again with --save")
        return Saved(arrays, about, folder)

    @property
    def recipe(self) -> Recipe | Sampling:
        """How it was trained."""
        return restored(json.loads(self.about["recipe"]))

    @property
    def done(self) -> int:
        """Iterations that were done."""
        return int(self.about["done"])

    def match(self, recipe: Recipe | Sampling, digest: str) -> None:
        """That this is the same training on the same text.

        Raises:
            RegardError: it was of another text or another recipe.
        """
        if self.about["digest"] != digest:
            raise RegardError(
                f"--save: {self.folder} holds an aligner of another text, or of another --prior or --classes; "
                "name a new folder, or remove that one"
            )
        if self.recipe != recipe:
            was, now = self.recipe.to_dict(), recipe.to_dict()
            apart = [name for name in {**was, **now} if was.get(name) != now.get(name)]
            told = (json.dumps({name: each[name] for name in apart if name in each}) for each in (was, now))
            raise RegardError(
                f"--save: {self.folder} was trained as {next(told)}, and this is {next(told)}; "
                "ask for the same, name a new folder, or remove that one"
            )

    def drawn(self) -> dict[str, Array]:
        """A sampler's state."""
        return {name.removeprefix("drawn."): x for name, x in self.arrays.items() if name.startswith("drawn.")}

    def resumed(self, corpus: Corpus, pairs: Pairs) -> State:
        """Training as it stood."""
        first, second = (
            Channel(view, self.lexicon(k), self.places(k, view)) for k, view in enumerate(View.both(corpus, pairs))
        )
        return State((first, second), self.done)

    def words(self, side: str) -> list[bytes]:
        """The words of ``source`` or ``target`` by their numbers."""
        text = self.arrays[f"{side}.words"].tobytes()
        return text.split(b"\n") if text else []

    def lexicon(self, k: int) -> Lexicon:
        """The words of the forward (0) or the reverse (1) channel."""
        name = _SIDES[k]
        table, null, rest = (np.array(self.arrays[f"{name}.{key}"]) for key in _WORDS)
        return Lexicon(table, null, rest)

    def places(self, k: int, view: View) -> Places:
        """The places of the forward (0) or the reverse (1) channel, for sentences of ``view``."""
        kind, name = self.about["places"].split()[k], _SIDES[k]
        mine = {key.removeprefix(f"{name}."): x for key, x in self.arrays.items() if key.startswith(f"{name}.")}
        # The words are large, and a line of standard input is a text of its own: they are looked at, not copied.
        own = {key: x if key in _WORDS else np.array(x) for key, x in mine.items()}
        made = _unpacked(kind, own, view)
        recipe = self.recipe
        if isinstance(made, Fertile) and isinstance(recipe, Recipe):
            return replace(made, belief=recipe.fertility)
        return made


def _packed(places: Places) -> tuple[str, dict[str, Array]]:
    if isinstance(places, Jumps):
        numbers = np.array([places.null, places.prior, places.flat, places.reach])
        return "jumps", {"weights": places.weights, "classes": places.classes, "numbers": numbers}
    if isinstance(places, Diagonal):
        return "diagonal", {"numbers": np.array([places.tension, places.null])}
    if isinstance(places, Table):
        shapes = {"l": places.shapes.l, "m": places.shapes.m, "begins": places.shapes.begins}
        return "table", {"bias": places.bias, **shapes}
    if isinstance(places, Fertile):
        kind, own = _packed(places.guide)
        return f"{kind}+ibm{places.distances.model}", {
            **{f"guide.{name}": array for name, array in own.items()},
            **{name: getattr(places.distances, name) for name in DISTANCES[places.distances.model].learnt},
            "fertility": places.fertility,
            "numbers": np.array([places.p1, places.distances.strength]),
            "source": places.source,
            "target": places.target,
            "tops": places.tops.places,
        }
    return "uniform", {}


def _unpacked(kind: str, own: dict[str, Array], view: View) -> Places:
    dtype = own["table"].dtype.type
    if kind == "jumps":
        null, prior, flat, reach = own["numbers"].tolist()
        return Jumps(own["weights"], own["classes"], null, int(reach), prior, flat, dtype)
    if kind == "diagonal":
        tension, null = own["numbers"].tolist()
        return Diagonal(Shapes.found(view), tension, null, dtype)
    if kind == "table":
        kept = Shapes(own["l"], own["m"], own["begins"], np.zeros(0, np.int32))
        return Table.uniform(view, dtype).taking(kept, own["bias"])
    if "+ibm" in kind:
        below, _, model = kind.rpartition("+ibm")
        guides = {name.removeprefix("guide."): array for name, array in own.items() if name.startswith("guide.")}
        guided = {"table": own["table"], **guides}
        made = DISTANCES[int(model)]
        p1, strength = own["numbers"].tolist()
        distances = made(*(own[name] for name in made.learnt), strength)
        tops = Tops.none(view.generated)
        if len(own["tops"]) == len(tops.places):  # the text it was trained on, or else nothing is known of it
            tops = Tops(view.generated, own["tops"])
        guide = _unpacked(below, guided, view)
        return Fertile(
            distances, own["fertility"], p1, guide, tops, own["source"], own["target"], Belief(), dtype
        )  # fmt: skip
    return Uniform()
