"""A toy language to learn in seconds: English numbers to French ones, word by word, the last word first."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from regard.translate.training.settings import Settings

WORDS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six"}


@dataclass(frozen=True)
class Toy:
    """Four files of sentences and settings small enough for a test."""

    source: Path
    target: Path
    dev_source: Path
    dev_target: Path
    settings: Settings

    @property
    def files(self) -> tuple[Path, Path, Path, Path]:
        return self.source, self.target, self.dev_source, self.dev_target

    def options(self, out: Path, **changes: object) -> list[str]:
        """The arguments of ``regard train`` for it."""
        given = {
            "src": self.source,
            "tgt": self.target,
            "dev_src": self.dev_source,
            "dev_tgt": self.dev_target,
            "out": out,
            "threads": 1,
            **{
                name: value
                for name, value in self.settings.to_dict().items()
                if not isinstance(value, dict) and value != getattr(Settings(), name)
            },
            **self.settings.sizes,
            **changes,
        }
        return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """A run of three epochs of about nine updates."""
    draw = random.Random(13)

    def write(name: str, count: int) -> tuple[Path, Path]:
        left = [draw.choices(list(WORDS), k=draw.randint(2, 7)) for _ in range(count)]
        right = [[WORDS[word] for word in reversed(line)] for line in left]
        for suffix, lines in (("en", left), ("fr", right)):
            (tmp_path / f"{name}.{suffix}").write_text("".join(" ".join(x) + "\n" for x in lines))
        return tmp_path / f"{name}.en", tmp_path / f"{name}.fr"

    small = Settings(
        source_pieces=24,
        target_pieces=24,
        sizes={"embedding": 16, "hidden": 16, "alignment": 16, "readout": 16},
        dropout=0.1,
        epochs=3,
        batch_tokens=400,
        rate=0.01,
        warmup=3,
        sample=0.5,
        tokenize="none",
    )
    return Toy(*write("train", 211), *write("dev", 23), replace(small))
