"""Runs JoeyNMT by its own classes, on orders. Alone in its file: its Python has JoeyNMT and not this project.

    python driver.py CONFIG.json

A line of standard input is an order, as JSON: ``{"do": "train", …}``. Each is answered by lines of JSON on standard
output: ``{"say": …}`` any number of times, then ``{"done": …}`` or ``{"error": …}``.
"""

from __future__ import annotations

import contextlib
import heapq
import importlib
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

Say = Callable[[str], None]
SPACE, SAVE = "▁", torch.save


class Rates:
    """The learning rate of every update, from a list: one of JoeyNMT's schedulers, which has none with our curve."""

    def __init__(self, optimizer: Any, rates: list[float]) -> None:
        self.optimizer, self.rates = optimizer, rates

    def at(self, done: int) -> None:
        """Sets the rate of the update that comes after ``done`` of them."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rates[min(done, len(self.rates) - 1)]

    def step(self, before: int) -> None:
        """Called behind an update, with how many there were before it."""
        self.at(before + 1)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Given:
    """A training text whose batches are given: pairs by number."""

    def __init__(self, data: Any, batches: list[list[int]]) -> None:
        self.data, self.batches, self.seed = data, batches, 0
        self.batch_sampler = self

    def make_iter(self, *, pad_index: int, eos_index: int, device: torch.device, **_: object) -> Given:
        self.collate = partial(self.data.collate_fn, pad_index=pad_index, eos_index=eos_index, device=device)
        return self

    def set_seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            yield self.collate([self.data[n] for n in batch])


class Joey:
    """A model of JoeyNMT's, its data, and what is asked of them."""

    def __init__(self, config: dict[str, Any]) -> None:
        prediction = importlib.import_module("joeynmt.prediction")
        torch.manual_seed(config["random_seed"])  # it draws its weights before it sets the seed itself
        self.folder = Path(config["model_dir"])
        latest = self.folder / "latest.ckpt"
        if latest.exists():
            config["training"] |= {"load_model": str(latest), "reset_scheduler": True}  # ours keeps nothing
        self.args = importlib.import_module("joeynmt.config").parse_global_args(config, rank=0, mode="train")
        self.model, self.lessons, self.dev, self.test = prediction.prepare(self.args, rank=0, mode="train")
        tokenizer = self.dev.tokenizer[self.dev.trg_lang]

        def spoken(sequence: list[str] | str, generate_unk: bool = True, cut_at_sep: bool = True) -> str:
            """Text again, of pieces: the files hold pieces with spaces between."""
            if isinstance(sequence, str):
                pieces: list[str] = sequence.split(" ")
            else:
                pieces = tokenizer._remove_special(sequence, generate_unk=generate_unk)
            return "".join(pieces).replace(SPACE, " ").strip() or str(tokenizer.unk_token)

        tokenizer.post_process = spoken
        self.trainer: Any = None

    def train(self, order: dict[str, Any], say: Say) -> dict[str, Any]:
        """To the last update, from the last checkpoint; its own loop, exam and choice of the best."""
        trainer = self._trainer(order["rates"])
        notes = self.folder / "notes.json"
        known: dict[str, Any] = {"seconds": 0.0, "examining": 0.0, "best": []}
        if notes.exists():
            known = json.loads(notes.read_text())
        # A resumed trainer forgets which checkpoints it keeps, and would delete the best one as the latest of before.
        trainer.ckpt_queue = [(score, self.folder / name) for score, name in known["best"]]
        heapq.heapify(trainer.ckpt_queue)
        examine, began, before = trainer._validate, time.perf_counter(), known["seconds"]

        def note() -> None:
            known["seconds"] = before + time.perf_counter() - began
            known["best"] = [(score, path.name) for score, path in trainer.ckpt_queue]
            beside = notes.with_suffix(".new")
            beside.write_text(json.dumps(known))
            beside.replace(notes)

        def examined(data: Any) -> None:
            start, last = time.perf_counter(), self._at("latest")
            examine(data)
            if self._at("latest") != f"{trainer.stats.steps}.ckpt":  # it saves what is among the best, and nothing else
                trainer._save_checkpoint(False, math.nan)
            if last and last not in {
                self._at("latest"),
                self._at("best"),
                *(path.name for _, path in trainer.ckpt_queue),
            }:
                (self.folder / last).unlink(missing_ok=True)  # 70 MB that nothing needs any more
            known["examining"] += time.perf_counter() - start
            note()
            at = trainer.stats
            say(
                f"update {at.steps:,} of {order['updates']:,}, its epoch {at.epochs}, best dev BLEU "
                f"{at.best_ckpt_score:.2f} at {at.best_ckpt_iter:,}, {known['seconds'] / 60:.1f} min"
            )

        trainer._validate = examined
        if trainer.stats.steps < order["updates"]:
            trainer.train_and_validate(train_data=self.lessons, valid_data=self.dev)
            note()
        return {
            "updates": trainer.stats.steps,
            "seconds": known["seconds"],
            "learning": known["seconds"] - known["examining"],
            "pieces": trainer.stats.total_tokens,
            "parameters": sum(each.numel() for each in self.model.parameters()),
        }

    def translate(self, order: dict[str, Any], say: Say) -> dict[str, Any]:
        """The first ``few`` of the test text, by a checkpoint that is named or by the weights that are there."""
        helpers = importlib.import_module("joeynmt.helpers")
        predict = importlib.import_module("joeynmt.prediction").predict
        if "checkpoint" in order:
            found = helpers.load_checkpoint(self.folder / f"{order['checkpoint']}.ckpt", map_location="cpu")
            self.model.load_state_dict(found["model_state"])
        self.test.indices = list(range(order.get("few") or len(self.test)))
        start = time.perf_counter()
        texts = predict(
            model=self.model,
            data=self.test,
            device=self.args.device,
            n_gpu=0,
            normalization="none",
            args=self.args.test._replace(batch_size=order.get("batch", self.args.test.batch_size)),
            autocast=self.args.autocast,
        )[2]
        return {"texts": texts, "seconds": time.perf_counter() - start}

    def updates(self, order: dict[str, Any], say: Say) -> dict[str, Any]:
        """So many more of its training loop, with no exam and nothing saved; on ``batches`` of pairs, or its own."""
        trainer = self.trainer = self.trainer or self._trainer(order["rates"])
        trainer._save_checkpoint = lambda new_best, score: None
        at = trainer.stats
        trainer.scheduler.rates = [0.0] * at.steps + order["rates"]
        trainer.scheduler.at(at.steps)
        trainer.args = trainer.args._replace(
            max_updates=at.steps + order["count"], validation_freq=10**9, logging_freq=10**9
        )
        at.epochs, at.is_max_update = at.epochs + 1, False  # another order of the text
        lessons = Given(self.lessons, order["batches"]) if "batches" in order else self.lessons
        before, start = at.total_tokens, time.perf_counter()
        trainer.train_and_validate(train_data=lessons, valid_data=self.dev)
        return {"seconds": time.perf_counter() - start, "pieces": at.total_tokens - before}

    def load(self, order: dict[str, Any], say: Say) -> None:
        """Weights under its names, all of them but the table of positions; ``eps`` is that of their norms."""
        missing, unknown = self.model.load_state_dict(torch.load(order["weights"]), strict=False)
        if unknown or any(not name.endswith(".pe") for name in missing):
            raise ValueError(f"weights: {unknown} are not its own, {missing} are missing")
        for module in self.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = order["eps"]

    def _at(self, which: str) -> str:
        """The file that is its latest or its best checkpoint; nothing where there is none yet."""
        link = self.folder / f"{which}.ckpt"
        return os.readlink(link) if link.is_symlink() else ""

    def _trainer(self, rates: list[float]) -> Any:
        trainer = importlib.import_module("joeynmt.training").TrainManager(
            model=self.model,
            model_dir=self.folder,
            device=self.args.device,
            n_gpu=self.args.n_gpu,
            rank=0,
            num_workers=self.args.num_workers,
            autocast=self.args.autocast,
            seed=self.args.seed,
            train_args=self.args.train,
            dev_args=importlib.import_module("joeynmt.config").set_validation_args(self.args.test),
        )
        trainer.scheduler = Rates(trainer.optimizer, rates)
        trainer.scheduler.at(trainer.stats.steps)
        return trainer


def orphaned(parent: int) -> None:
    """Stops as at Ctrl-C, which saves, when the process that gives the orders is gone."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGINT)


def interrupted(number: int, frame: object) -> None:
    """Stops as at Ctrl-C, once: a second signal would cut the saving that the first one led to."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def saved(state: object, path: str) -> None:
    """``torch.save``, whole or not at all: JoeyNMT writes over the file that it would go on from."""
    SAVE(state, f"{path}.new")
    os.replace(f"{path}.new", path)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever is printed is no answer

    def answer(kind: str, value: object) -> None:
        answers.write(json.dumps({kind: value}) + "\n")
        answers.flush()

    threading.Thread(target=orphaned, args=(os.getppid(),), daemon=True).start()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupted)
    vars(torch)["save"] = saved
    torch.set_num_threads(1)
    try:
        joey = Joey(json.loads(Path(sys.argv[1]).read_text()))
        answer("done", None)
        while line := sys.stdin.readline():
            order = json.loads(line)
            answer("done", getattr(joey, order["do"])(order, lambda text: answer("say", text)))
    except KeyboardInterrupt:
        answer("error", "interrupted")
    except Exception as error:
        with contextlib.suppress(OSError):  # nobody may be there to hear it
            answer("error", f"{type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main()
