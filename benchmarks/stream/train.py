"""Trains the model of the stream: `python -m benchmarks.stream.train`. Stopped at any moment, the same command goes on.

What it leaves, `model.pt`, holds the weights, the optimizer, the generator and the step: a run that was stopped ends
with the weights it would have had.
"""

from __future__ import annotations

import argparse
import io
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.stream.model import Model, Sizes
from benchmarks.stream.text import crops, find, held
from regard.files import replace

__all__ = ["COMMAND", "Recipe", "load", "train"]

COMMAND = "python -m benchmarks.stream.train --out runs/stream"


@dataclass(frozen=True)
class Recipe:
    steps: int = 700
    batch: int = 24
    rate: float = 3e-3
    warmup: int = 50
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """It rises linearly, and falls as a cosine to nothing."""
        done = max(0.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.rate * min(1.0, (step + 1) / self.warmup) * (0.5 + 0.5 * math.cos(math.pi * done))


def train(text: Tensor, path: Path, sizes: Sizes, recipe: Recipe, every: int = 50) -> Model:
    """Trains, or goes on from ``path``, where all that it needs to go on is written every ``every`` steps."""
    torch.manual_seed(recipe.seed)
    model, generator = Model(sizes), torch.Generator().manual_seed(recipe.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.1)
    step = 0
    if path.is_file():
        found = torch.load(path, weights_only=True)
        if (found["sizes"], found["recipe"]) != (asdict(sizes), asdict(recipe)):
            raise SystemExit(
                f"{path} was made by another recipe: {found['recipe']} {found['sizes']}; name another --out"
            )
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        generator.set_state(found["generator"])
        step = found["step"]
    begun, summed, counted = time.monotonic(), 0.0, 0
    while step < recipe.steps:
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate_at(step)
        piece = crops(text, recipe.batch, sizes.window + 1, generator)
        loss = F.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step, summed, counted = step + 1, summed + loss.item(), counted + 1
        if step % every == 0 or step == recipe.steps:
            state = {"sizes": asdict(sizes), "recipe": asdict(recipe), "step": step, "generator": generator.get_state()}
            _write(path, state | {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
            print(f"step {step}  loss {summed / counted:.3f} nats a byte  {time.monotonic() - begun:.0f} s", flush=True)
            summed, counted = 0.0, 0
    return model.eval()


def load(path: Path) -> Model:
    """The model that `train` left."""
    found = torch.load(path, weights_only=True)
    model = Model(Sizes(**found["sizes"]))
    model.load_state_dict(found["model"])
    return model.eval()


def _write(path: Path, state: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    replace(path, buffer.getvalue())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--out", type=Path, default=Path("runs/stream"), help="the folder it is written to")
    options.add_argument("--steps", type=int, default=Recipe.steps)
    given = options.parse_args()
    path = find()
    if not path.is_file():
        raise SystemExit(f"no text at {path}; REGARD_DATA names the folder of corpora")
    given.out.mkdir(parents=True, exist_ok=True)
    train(held(path, "train"), given.out / "model.pt", Sizes(), Recipe(steps=given.steps))


if __name__ == "__main__":
    main()
