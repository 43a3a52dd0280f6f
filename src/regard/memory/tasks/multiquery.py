"""Multi-query associative recall: many keys with their values, then each key again (Arora et al. 2023, "Zoology")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.memory.tasks.base import Example, Task
from regard.memory.tasks.forms import Symbols
from regard.memory.tasks.sizes import check_least, check_range, distinct, one_of


@dataclass(frozen=True)
class MultiQueryRecall(Task):
    """n times a key and its value; then the keys, each once, among empty steps; at each its value is asked.

    ``pairs`` is the range of n. The keys of an example are different, its values are drawn one by one, so that an
    answer tells nothing of another. Questions stand in ``spread`` · n steps, at places drawn without replacement with
    P(place t) ∝ t^(``power`` − 1), the paper's law: most are asked early. Symbol 0 is an empty step, keys and values
    follow; an answer is the value's own symbol.

    >>> task = MultiQueryRecall(pairs=(2, 2), keys=3, values=4)
    >>> example = task.draw(1, torch.Generator().manual_seed(0))
    >>> (key, value), question = example.inputs[0, :2], example.inputs[0, 4:]
    >>> example.targets[0, 4:][question == key].tolist() == [value]
    True
    """

    pairs: tuple[int, int] = (8, 8)
    keys: int = 32
    values: int = 32
    spread: int = 2
    power: float = 0.01

    def __post_init__(self) -> None:
        check_range("MultiQueryRecall", "pairs", self.pairs, 1)
        check_least("MultiQueryRecall", "keys", self.keys, self.pairs[1])
        check_least("MultiQueryRecall", "values", self.values, 2)
        check_least("MultiQueryRecall", "spread", self.spread, 1)
        if not 0 < self.power <= 1:
            raise RegardError(
                f"MultiQueryRecall: power is {self.power!r}, wanted above 0 and at most 1, which is anywhere alike"
            )

    @property
    def inputs(self) -> Symbols:
        """Nothing, the keys, the values."""
        return Symbols(1 + self.keys + self.values)

    @property
    def answers(self) -> Symbols:
        """The same symbols."""
        return self.inputs

    @property
    def chance(self) -> float:
        """Of who guesses among the values."""
        return 1 / self.values

    def alike(self, batch: int, generator: torch.Generator) -> Example:
        """``batch`` sequences of as many pairs."""
        n = one_of(self.pairs, generator)
        keys = 1 + distinct(batch, n, self.keys, generator)
        values = 1 + self.keys + torch.randint(self.values, (batch, n), generator=generator)
        likely = torch.arange(1, self.spread * n + 1, dtype=torch.float64) ** (self.power - 1)
        drawn = torch.multinomial(likely.expand(batch, -1), n, generator=generator)  # likely places come first in it
        places = 2 * n + drawn.gather(1, distinct(batch, n, n, generator))
        inputs = torch.zeros(batch, (2 + self.spread) * n, dtype=torch.long)
        inputs[:, : 2 * n] = torch.stack([keys, values], -1).flatten(1)
        inputs.scatter_(1, places, keys)
        targets = torch.zeros_like(inputs).scatter_(1, places, values)
        return Example(inputs, targets, targets > 0, torch.ones_like(inputs, dtype=torch.bool))

    def oracle(self, inputs: Tensor) -> Tensor:
        """What stood behind each key when it first came."""
        answers = torch.zeros_like(inputs)
        for row, found in zip(inputs.tolist(), answers, strict=True):
            value_of: dict[int, int] = {}
            for t, symbol in enumerate(row):
                if symbol in value_of:
                    found[t] = value_of[symbol]
                elif 1 <= symbol <= self.keys:
                    value_of[symbol] = row[t + 1]
        return answers
