"""AER of links read off attention, by layer and head, beside aligners made for it, on the Hansards gold.

The translators are trained beforehand, each by one command (`COMMANDS`), into `runs/soft/NAME`, or wherever
REGARD_SOFT_MODELS says. They see the 100,000 training pairs; the 447 test pairs choose among their epochs by BLEU,
their gold chooses nothing. The hard aligners are trained here, on the same pairs and the 447.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.harness.row import Row
from benchmarks.harness.setting import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from regard.align.gold import Gold, Score
    from regard.translate.decoding.forced import Forced
    from regard.translate.translator import Translator

TITLE = "links read off attention (argmax, each head, one step later) beside hard aligners: AER on the Hansards gold"

HANSARDS = "hansards-en-fr"
FILES = "--src train.en --tgt train.fr --dev-src test.en --dev-tgt test.fr --patience 0 --tokenize none --threads 1"
#: In the folder of the corpus, with REGARD_SOFT_MODELS=…/runs/soft for what is trained there.
COMMANDS = {
    "bahdanau": f"regard train {FILES} --embedding 192 --hidden 256 --alignment 192 --readout 192 --dropout 0.2 "
    "--epochs 6 --out runs/soft/bahdanau",
    "transformer": f"regard train {FILES} --model transformer --width 192 --heads 4 --layers 3 --feed 768 "
    "--dropout 0.1 --epochs 7 --batch-tokens 2048 --warmup 1000 --precision bfloat16 --out runs/soft/transformer",
}
TINY: dict[str, dict[str, int | str]] = {
    "bahdanau": {"embedding": 7, "hidden": 5, "alignment": 3, "readout": 2},
    "transformer": {"width": 14, "heads": 7, "layers": 2, "feed": 11},
}
HARD = ("ibm1", "hmm", "best")


@dataclass(frozen=True)
class Text:
    """Files of training text, the lines that have gold, and the gold."""

    train: tuple[Path, Path]
    source: list[str]
    target: list[str]
    gold: Gold


def rows(setting: Setting) -> Iterator[Row]:
    """Each head of each layer, layers and all by their mean, the best head as the gold has it, then hard aligners."""
    with TemporaryDirectory() as folder:
        text = _toy(Path(folder)) if setting.quick else _hansards()
        if text is None:
            yield Row("soft alignment", "", "", problem=f"no {HANSARDS} in {_data()}; REGARD_DATA names the folder")
            return
        for name, command in COMMANDS.items():
            translator = _tiny(name, text) if setting.quick else _trained(name)
            if translator is None:
                yield Row(name, "", "", note=f"not trained here: {command}")
            else:
                yield from _soft(name, translator, text)
        for name in HARD:
            yield from _hard(name, text, Path(folder))


def _soft(name: str, translator: Translator, text: Text) -> Iterator[Row]:
    from regard.translate.decoding.forced import forced

    read = list(forced(translator, text.source, text.target))
    layers, heads = read[0].weights.shape[:2]
    best = (1.0, "none")
    for n in range(layers):
        for h in range(heads if layers * heads > 1 else 0):
            which = f"layer {n + 1} head {h + 1}"
            now, later = (_score(read, text, late, n, h) for late in (False, True))
            best = min(best, (now.aer, which), (later.aer, f"{which}, one step later"))
            yield _row(f"{name}: {which}", now, later)
        if heads > 1:
            now, later = (_score(read, text, late, n) for late in (False, True))
            yield _row(f"{name}: layer {n + 1}, mean of its heads", now, later)
    pieces = sum(len(each.target_words) for each in read)
    now, later = (_score(read, text, late) for late in (False, True))
    note = f"; log p of a target piece {sum(each.log_p for each in read) / pieces:.2f}"
    yield _row(f"{name}: mean of all" if layers * heads > 1 else name, now, later, note)
    if layers * heads > 1:
        yield Row(f"{name}: best head", "", "% AER", 100 * best[0], note=f"chosen by looking at this gold: {best[1]}")


def _score(read: list[Forced], text: Text, late: bool, layer: int | None = None, head: int | None = None) -> Score:
    from regard.align.gold import score
    from regard.align.soft.attention import fold, links, shifted

    def words(each: Forced) -> Tensor:
        w = each.weights if layer is None else each.weights[layer : layer + 1]
        w = w if head is None else w[:, head : head + 1]
        w = w.mean((0, 1))
        return fold(shifted(w) if late else w, each.target_words, each.source_words)

    return score(links(words(each) for each in read), text.gold)


def _row(work: str, now: Score, later: Score, note: str = "") -> Row:
    shares = ", then ".join(f"P {100 * s.precision:.1f} R {100 * s.recall:.1f}" for s in (now, later))
    first, second = 100 * now.aer, 100 * later.aer
    return Row(work, "one step later", "% AER", first, ours=first, theirs=second, amount="%", note=shares + note)


def _hard(name: str, text: Text, folder: Path) -> Iterator[Row]:
    """Forward links give each target word at most one source word, as a look does; the others ask both ways."""
    from regard.align.aligner import align
    from regard.align.corpus import read
    from regard.align.gold import score
    from regard.align.recipe import recipe

    paths = folder / "all.source", folder / "all.target"
    for path, file, lines in zip(paths, text.train, (text.source, text.target), strict=True):
        path.write_bytes(file.read_bytes() + "".join(f"{line}\n" for line in lines).encode())
    how = recipe(name)
    found = align(read(*paths), how)
    for which, links in (("forward", found.forward), (f"both, {how.symmetrize}", found.links)):
        s = score(links, text.gold)
        note = f"P {100 * s.precision:.1f} R {100 * s.recall:.1f}"
        yield Row(f"regard align {name}: {which}", "", "% AER", 100 * s.aer, note=note)


def _data() -> Path:
    named = os.environ.get("REGARD_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def _hansards() -> Text | None:
    from regard.align import gold
    from regard.translate.text.corpus import read_parallel

    folder = _data() / HANSARDS
    if not folder.is_dir():
        return None
    train = folder / "train.en", folder / "train.fr"
    test = read_parallel(folder / "test.en", folder / "test.fr")  # every line: the gold links go by their numbers
    return Text(train, list(test.source), list(test.target), gold.read(folder / "test.en-fr.gold"))


def _trained(name: str) -> Translator | None:
    from regard.translate.translator import Translator

    folder = Path(os.environ.get("REGARD_SOFT_MODELS", "runs/soft")) / name
    return Translator.load(folder) if (folder / "model.safetensors").is_file() else None


def _toy(folder: Path) -> Text:
    """English numbers and French ones, word by word."""
    from regard.align.gold import Gold
    from regard.align.links import Links

    draw = random.Random(5)
    english, french = ["one", "two", "three", "four"], ["un", "deux", "trois", "quatre"]
    lines = [[draw.randrange(4) for _ in range(draw.randint(1, 7))] for _ in range(29)]
    sides = [[" ".join(words[n] for n in line) for line in lines] for words in (english, french)]
    paths = folder / "toy.en", folder / "toy.fr"
    for path, side in zip(paths, sides, strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    gold = Gold.of(Links.of([[(n, n) for n in range(len(line))] for line in lines[:5]]))
    return Text(paths, sides[0][:5], sides[1][:5], gold)


def _tiny(name: str, text: Text) -> Translator:
    """Untrained: to see that it runs."""
    import torch

    from regard.translate.models import architecture, complete
    from regard.translate.text.vocabulary import Vocabulary
    from regard.translate.translator import Translator

    source, target = (Vocabulary.train(path.read_text("utf-8").splitlines(), 18) for path in text.train)
    sizes: dict[str, Any] = complete(name, TINY[name])
    made = architecture(name)
    torch.manual_seed(0)
    config = made.config(source_vocabulary=len(source), target_vocabulary=len(target), **sizes)
    return Translator(made.model(config), source, target)
