"""Perplexity over a stream 20 windows long: sinks and window, window alone, recomputation, and everything kept.

The model reads bytes of real text and was trained on pieces of one window (`benchmarks/stream/train.py`, one command).
The streams are text it never saw. What is printed is what was found: the collapse of a plain window that Xiao et al.
(2023) report is of large models, and need not show here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.harness.row import Line, Row, at_most
from benchmarks.harness.setting import Setting
from benchmarks.stream.model import SCORE, Model, Sizes
from benchmarks.stream.text import find, held, streams
from benchmarks.stream.train import COMMAND, load
from regard.memory import KVCache, PairMemory, SinkCache, SlidingCache

TITLE = "a stream 20 × the window, bytes of real text: perplexity with sinks, without, recomputed, and all kept"

SINKS, STREAMS, TIMES = 4, 8, 20
EVERY = 8  # recomputation reads a whole window for every byte, so it is done for one byte in eight


def rows(setting: Setting) -> Iterator[Row | Line]:
    text = find()
    if setting.quick:
        torch.manual_seed(0)
        model = Model(Sizes(width=12, heads=2, layers=2, window=17)).eval()
        tokens = torch.randint(256, (2, 3 * 17 + 1))
    else:
        path = Path(os.environ.get("REGARD_STREAM_MODEL", "runs/stream")) / "model.pt"
        if not path.is_file():
            yield Row("streaming", "", "", note=f"not trained here: {COMMAND}")
            return
        if not text.is_file():
            yield Row("streaming", "", "", problem=f"no text at {text}; REGARD_DATA names the folder of corpora")
            return
        model = load(path)
        tokens = streams(held(text, "test"), STREAMS, TIMES * model.sizes.window + 1)
    yield from _table(setting, model, tokens)


def _table(setting: Setting, model: Model, tokens: Tensor) -> Iterator[Row | Line]:
    sizes = model.sizes
    shape: dict[str, Any] = {"heads": sizes.heads, "width": sizes.width // sizes.heads, "score": SCORE}
    arms: dict[str, PairMemory[Any]] = {
        f"{SINKS} sinks and the last {sizes.window - SINKS}": SinkCache(
            **shape, sinks=SINKS, window=sizes.window - SINKS
        ),
        f"the last {sizes.window}": SlidingCache(**shape, window=sizes.window),
        "everything kept": KVCache(**shape),
    }
    asked = slice(sizes.window, None, EVERY)  # behind the first window, where memories differ
    found = {"recomputed from the last window": (recomputed(model, tokens, EVERY), 0)}
    for name, memory in arms.items():
        losses, held_bytes = streamed(model, tokens, memory)
        found[name] = losses[:, asked], held_bytes
    base = found["recomputed from the last window"][0].mean()
    for name, (losses, size) in found.items():
        first, last = (half.mean() for half in losses.chunk(2, 1))
        ratio = math.exp(losses.mean() - base)
        cells = {
            "memory": name,
            "perplexity a byte": f"{losses.mean().exp():.3f}",
            "first half": f"{first.exp():.3f}",
            "second half": f"{last.exp():.3f}",
            "× recomputed": f"{ratio:.3f}",
            "KiB a stream": f"{size / len(tokens) / 1024:.0f}" if size else "–",
        }
        table = f"streams of {tokens.shape[1] - 1:,} bytes, window {sizes.window}"
        yield Line(table, cells, {"nats": losses.mean().item()})
        if name in arms:
            # Only that a stream may go on for ever is claimed: at most a tenth above what is read anew.
            goal = at_most(1.1) if isinstance(arms[name], SinkCache) else None
            yield Row(f"stream: {name}", "recomputed", "× its perplexity", ratio, goal=goal, judged=setting.judged)


@torch.inference_mode()
def streamed(model: Model, tokens: Tensor, memory: PairMemory[Any]) -> tuple[Tensor, int]:
    """Nats of every byte but the first, read one by one, (B, L − 1), and the bytes that all layers hold in the end."""
    dtype = next(model.parameters()).dtype
    states = [memory.reset(len(tokens), dtype=dtype) for _ in model.blocks]
    losses = []
    for t in range(tokens.shape[1] - 1):
        logits, states = model.step(tokens[:, t : t + 1], memory, states)
        losses.append(F.cross_entropy(logits[:, 0], tokens[:, t + 1], reduction="none"))
    return torch.stack(losses, 1), sum(memory.nbytes(state) for state in states)


@torch.inference_mode()
def recomputed(model: Model, tokens: Tensor, every: int) -> Tensor:
    """Nats of one byte in ``every`` from byte ``window`` + 1 on, each from the window before it, read anew."""
    window = model.sizes.window
    pieces = tokens.unfold(1, window + 1, 1)[:, 1:][:, ::every]  # (B, n, window + 1)
    found = [F.cross_entropy(model(piece[:, :-1])[:, -1], piece[:, -1], reduction="none") for piece in pieces.unbind(1)]
    return torch.stack(found, 1)
