"""What a sink is for: a query whose key is not there has to look somewhere (Xiao et al. 2023, section 3).

Pairs of a key and a value, and questions: half of them ask for a key that is there (answer: its value), half for one
that is not (answer: "none"). One attention layer reads the pairs. With a token in front that holds nothing (BOS) the
absent look there, and taking it out of the memory breaks them; a softmax with a sink logit of its own needs no token.
With a single pair, softmax's weight is 1 whatever is asked, so that without either of the two nothing can be learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from benchmarks.harness.row import Row, at_least, at_most
from benchmarks.harness.setting import Setting
from regard.normalize import Softmax

TITLE = "absent-key recall, three seeds: weight on BOS, the loss when it is evicted, a softmax with a sink instead"

KEYS, VALUES, WIDTH, ASKED = 64, 16, 32, 8


@dataclass(frozen=True)
class Arm:
    """How a reader may look at nothing: a token in front, a sink logit, both or neither."""

    pairs: int = 15
    bos: bool = False
    sink: float | None = None


BOS, SINK = Arm(bos=True), Arm(sink=0.0)
LONE_SINK, LONE = Arm(pairs=1, sink=0.0), Arm(pairs=1)


@dataclass(frozen=True)
class Questions:
    """Keys and values (B, N), asked keys (B, 2·ASKED), of which the first half are there, and the answers."""

    keys: Tensor
    values: Tensor
    asked: Tensor
    answers: Tensor

    @staticmethod
    def draw(batch: int, pairs: int, generator: torch.Generator) -> Questions:
        order = torch.rand(batch, KEYS, generator=generator).argsort(-1)
        keys, values = order[:, :pairs], torch.randint(VALUES, (batch, pairs), generator=generator)
        which = torch.randint(pairs, (batch, ASKED), generator=generator)
        asked = torch.cat([keys.gather(1, which), order[:, pairs : pairs + ASKED]], 1)
        none = torch.full((batch, ASKED), VALUES)
        return Questions(keys, values, asked, torch.cat([values.gather(1, which), none], 1))


class Reader(nn.Module):
    """One head that reads pairs, and an affine map of what it read to an answer. It is not told what was asked."""

    def __init__(self, arm: Arm) -> None:
        super().__init__()
        self.bos, self.normalize = arm.bos, Softmax(sink=arm.sink)
        self.key, self.value = nn.Embedding(KEYS + 1, WIDTH), nn.Embedding(VALUES + 1, WIDTH)  # the last are BOS's
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, VALUES + 1)

    def forward(self, given: Questions, evict: bool = False) -> tuple[Tensor, Tensor]:
        """Logits (B, 2·ASKED, VALUES + 1), and each question's weight on the first thing in the memory."""
        keys, values = given.keys, given.values
        if self.bos and not evict:
            keys, values = F.pad(keys, (1, 0), value=KEYS), F.pad(values, (1, 0), value=VALUES)
        pairs = (self.key(keys) + self.value(values))[:, None]  # one head
        query = self.q(self.key(given.asked))[:, None]
        parts: dict[str, Any] = {"normalize": self.normalize, "engine": "reference"}
        if self.training:
            return self.out(regard.attend(query, self.k(pairs), self.v(pairs), **parts)[:, 0]), query.new_empty(0)
        first = {"first": torch.arange(pairs.shape[2]) < 1}
        reading = regard.read(query, self.k(pairs), self.v(pairs), groups=first, telemetry=False, **parts)
        return self.out(reading.output[:, 0]), reading.mass["first"][:, 0]


@dataclass(frozen=True)
class Found:
    """What a trained reader does with questions it never saw: of keys that are there, and of absent ones."""

    loss: float
    present: float
    absent: float
    first_present: float
    first_absent: float

    def __str__(self) -> str:
        return f"loss {self.loss:.4f}, right {self.present:.1%} of present and {self.absent:.1%} of absent"


def train(arm: Arm, seed: int, steps: int = 1500, batch: int = 32, rate: float = 5e-3) -> Reader:
    """A reader trained with Adam and one cycle of the learning rate."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    reader = Reader(arm)
    optimizer = torch.optim.Adam(reader.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        given = Questions.draw(batch, arm.pairs, generator)
        loss = F.cross_entropy(reader(given)[0].flatten(0, 1), given.answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return reader.eval()


def ask(reader: Reader, pairs: int, seed: int, evict: bool = False) -> Found:
    """2 · ASKED questions of each of 512 memories."""
    given = Questions.draw(512, pairs, torch.Generator().manual_seed(10_000 + seed))
    with torch.no_grad():
        logits, first = reader(given, evict)
    right = (logits.argmax(-1) == given.answers).double()
    loss = F.cross_entropy(logits.flatten(0, 1), given.answers.flatten())
    halves = [each.mean().item() for x in (right, first.double()) for each in (x[:, :ASKED], x[:, ASKED:])]
    return Found(loss.item(), *halves)


def rows(setting: Setting) -> Iterator[Row]:
    """The worst of the seeds counts."""
    seeds, steps = range(setting.size(3, quick=1)), setting.size(1500, quick=20)
    kept, gone = [], []
    for seed in seeds:
        reader = train(BOS, seed, steps)
        kept.append(ask(reader, BOS.pairs, seed))
        gone.append(ask(reader, BOS.pairs, seed, evict=True))
    judged = setting.judged
    shares = [a.first_absent / max(a.first_present, 1e-9) for a in kept]
    note = "; ".join(f"{a.first_absent:.2f} against {a.first_present:.3f}" for a in kept)
    yield Row("weight on BOS, absent key", "key that is there", "× as much", min(shares), min(shares), max(shares),
              goal=at_least(10), judged=judged, note=note)  # fmt: skip
    rise = [b.loss / max(a.loss, 1e-9) for a, b in zip(kept, gone, strict=True)]
    note = f"with BOS: {kept[0]}; without: {gone[0]}"
    yield Row("loss when BOS is evicted", "BOS kept", "× the loss", min(rise), min(rise), max(rise),
              goal=at_least(5), judged=judged, note=note)  # fmt: skip
    losses = [b.loss for b in gone]
    yield Row(
        "– the loss itself", "", "nats", min(losses), min(losses), max(losses), goal=at_least(0.08), judged=judged
    )
    for arm, name, goal in (
        (SINK, "softmax with sink 0, no BOS, 15 pairs", at_least(99.8)),
        (LONE_SINK, "softmax with sink 0, no BOS, one pair", at_least(99)),
        (LONE, "softmax alone, no BOS, one pair: cannot", at_most(55)),
    ):
        found = [ask(train(arm, seed, steps), arm.pairs, seed) for seed in seeds]
        right = [50 * (each.present + each.absent) for each in found]
        worst = max(right) if arm is LONE else min(right)
        yield Row(name, "", "% right", worst, min(right), max(right), goal=goal, judged=judged, note=str(found[0]))
