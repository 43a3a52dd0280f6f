"""A case of the clinic: a model with a fault, its healthy twin, and the finding that must name it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """``build(True)`` is sick, ``build(False)`` is its healthy twin; ``batch(sick)`` is what an ordinary user has.

    ``code`` is the finding that must come, ``module`` where; ``also`` are codes of the same root, true as well.
    """

    name: str
    story: str
    build: Callable[[bool], nn.Module]
    batch: Callable[[bool], Batch]
    code: str
    module: str
    also: frozenset[str] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)


def case(
    code: str,
    module: str,
    *,
    batch: Batch | Callable[[bool], Batch] | None = None,
    also: str = "",
    **options: Any,
) -> Callable[[Callable[[bool], nn.Module]], Case]:
    """Make a case of a function that builds the model; its docstring tells the fault and who met it.

    ``batch`` is the same for both twins unless it is a function of which is meant.
    """

    def wrap(build: Callable[[bool], nn.Module]) -> Case:
        name = build.__name__.replace("_", " ")
        story = inspect.cleandoc(build.__doc__ or "")
        given = padded() if batch is None else batch
        of = given if callable(given) else lambda sick: given
        return Case(name, story, build, of, code, module, frozenset(also.split()), options)

    return wrap


def text(rows: int = 3, length: int = 29, vocabulary: int = 61, seed: int = 7) -> Tensor:
    """Token ids without 0, the pad."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, vocabulary, (rows, length), generator=generator)


def padded(*lengths: int, left: bool = False, vocabulary: int = 61, pad: int = 0) -> Batch:
    """Rows of these lengths (29, 13 and 19 by default) in one batch, padded on the right, or on the left."""
    lengths = lengths or (29, 13, 19)
    place = torch.arange(max(lengths)).expand(len(lengths), -1)
    real = place < torch.tensor(lengths)[:, None]
    if left:
        real = real.flip(1)
    ids = text(len(lengths), max(lengths), vocabulary)
    return {"input_ids": ids.where(real, torch.tensor(pad)), "attention_mask": real.long()}


def whole(rows: int = 2, length: int = 23, vocabulary: int = 61) -> Batch:
    """A batch without padding, and without a mask."""
    return {"input_ids": text(rows, length, vocabulary)}
