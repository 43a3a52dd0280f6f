"""How JoeyNMT is told to learn the same: its configuration, its vocabulary, and text that is cut into pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.joey.course import Course
from benchmarks.translation.corpora import Pairs, Text
from regard.translate.text.vocabulary import Vocabulary

__all__ = ["BATCH", "EMBEDDING_ROWS", "configuration", "lay"]

#: Which of our pieces is in each of JoeyNMT's first rows: unknown, padding, begin, end; all others stand where they do.
EMBEDDING_ROWS = (1, 0, 2, 3)
BATCH = 64  # sentences decoded at a time, its default


def lay(folder: Path, course: Course, text: Text) -> Path:
    """Writes into ``folder`` what JoeyNMT reads; its configuration, as JSON, is the file that is given back."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = course.vocabulary
    words = vocabulary.pieces(range(len(vocabulary)))[len(EMBEDDING_ROWS) :]
    (folder / "vocabulary.txt").write_text("".join(f"{word}\n" for word in words))
    source, target = course.lessons.lines
    _write(folder / "train", vocabulary, source, target)
    _write(folder / "dev", vocabulary, *_sides(text.dev))
    _write(folder / "test", vocabulary, _sides(text.test)[0])
    path = folder / "config.json"
    path.write_text(json.dumps(configuration(folder, course, text.tokenize), indent=1))
    return path


def configuration(folder: Path, course: Course, tokenize: str) -> dict[str, Any]:
    """Ours in its words; what it has no word for is its default."""
    settings, sizes = course.settings, course.settings.sizes
    exam = max(1, sum(course.updates) // len(course.updates))  # one an epoch, as ours
    side = {"level": "word", "voc_file": str(folder / "vocabulary.txt")}
    embeddings = {"embedding_dim": sizes["width"], "scale": True, "dropout": settings.dropout}
    half = {
        "type": "transformer",
        "num_layers": sizes["layers"],
        "num_heads": sizes["heads"],
        "hidden_size": sizes["width"],
        "ff_size": sizes["feed"],
        "layer_norm": sizes["norm"],
        "dropout": settings.dropout,
        "embeddings": embeddings,
    }
    return {
        "name": "beside",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": settings.seed,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "test": str(folder / "test"),
            "src": {"lang": "src", **side},
            "trg": {"lang": "tgt", **side},
        },
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "embed_initializer": "normal",
            "embed_init_weight": int(sizes["width"]) ** -0.5,
            "encoder": half,
            "decoder": half,
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [settings.optimiser_numbers["beta1"], settings.optimiser_numbers["beta2"]],
            "learning_rate": settings.peak,
            "learning_rate_min": 0.0,
            "learning_rate_warmup": settings.warmup,
            "scheduling": "warmupinversesquareroot",  # the nearest that it has; the driver lays our rates over it
            "clip_grad_norm": settings.clip,
            "normalization": "tokens",
            "label_smoothing": settings.smoothing,
            "batch_type": "token",
            "batch_size": course.tokens,
            "epochs": 10**6,
            "updates": sum(course.updates),
            "validation_freq": exam,
            "logging_freq": exam,
            "early_stopping_metric": "bleu",
            "print_valid_sents": [],
        },
        "testing": {
            "batch_size": BATCH,
            "batch_type": "sentence",
            "beam_size": 5,
            "beam_alpha": 1.0,
            "generate_unk": False,
            "eval_metrics": ["bleu"],
            "sacrebleu_cfg": {"tokenize": tokenize},
        },
    }


def _write(path: Path, vocabulary: Vocabulary, *sides: Sequence[str]) -> None:
    """``path.src``, and ``path.tgt`` where there are two: pieces as they stand in each line, spaces between."""
    for name, lines in zip(("src", "tgt"), sides, strict=False):
        path.with_name(f"{path.name}.{name}").write_text(
            "".join(f"{' '.join(vocabulary.spelled(line))}\n" for line in lines)
        )


def _sides(pairs: Pairs) -> tuple[list[str], list[str]]:
    return [a for a, _ in pairs], [b for _, b in pairs]
