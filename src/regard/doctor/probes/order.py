"""Does the order of the tokens matter?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from regard.doctor.effect import effect
from regard.doctor.finding import Fact, Finding, Observation, Passed, Untested
from regard.doctor.locate import Kept, locate
from regard.doctor.subject import Subject

NAME = "order"


def order(subject: Subject) -> Iterator[Observation]:
    """Permuted tokens give permuted outputs: for a model that claims to read a set; otherwise a fact."""
    stream = subject.stream
    inputs = subject.clean(2)
    L = inputs.shape(stream)[1]
    if L < 3:
        yield Untested(NAME, f"{L} tokens are too few to permute")
        return
    if subject.sets and subject.causal:
        yield Untested(NAME, "a causal model cannot read a set: its outputs depend on what came before")
        return
    turned = torch.randperm(L, generator=torch.Generator().manual_seed(11))
    other = inputs.columns(stream, turned.to(inputs.tokens(stream).device))
    base, moved = subject.run(inputs), subject.run(other)
    found = effect(base[:, turned] if base.dim() == 3 else base, moved, subject.noise)
    if not found.real:
        yield Passed(NAME, "permuting the tokens permutes the outputs and nothing else", found.evidence())
        yield Fact(NAME, "the model reads a set: order changes nothing")
    elif subject.sets:
        # Compared place by place, unpermuted: the columns of `other` put back are the columns of `inputs`.
        same = torch.ones(inputs.shape(stream), dtype=torch.bool)
        runs = (partial(subject.call, inputs), partial(subject.call, other))
        place = locate(subject.model, *runs, (Kept({L: same}), Kept({L: same}, {L: turned.argsort()})))
        yield Finding(
            "POS003",
            f"permuting the tokens changes outputs beyond permuting them: at {found.place} {found.said()}",
            place.module,
            place.source,
            found.evidence(),
        )
    else:
        yield Fact(NAME, f"order matters: permuted tokens move the outputs {found.said()}")
