"""`regard.check`: every probe on a model, in one report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from regard.doctor.finding import Fact, Finding, Observation, Untested
from regard.doctor.held import quiet
from regard.doctor.locate import source_of
from regard.doctor.probes import PROBES, Probe
from regard.doctor.probes.determinism import determinism
from regard.doctor.probes.finite import finite
from regard.doctor.probes.inside import inside
from regard.doctor.report import Report
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Forward, Subject
from regard.errors import RegardError

#: Called with (done, of, name of what runs next).
Progress = Callable[[int, int, str], None]


def check(
    model: nn.Module,
    batch: object,
    *,
    causal: bool | None = None,
    prefix: int = 0,
    forward: Forward | None = None,
    tokens: str = "input_ids",
    target: str | None = None,
    mask: str | None = "attention_mask",
    pad_id: int | None = None,
    cache: Any = "auto",
    sets: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Is this model's attention right? Probed from outside: |Δ output| of real tokens over the model's own noise.

    Args:
        model: any ``nn.Module``. It is run in eval mode; modes, weights and the random state are put back.
        batch: a dict of tensors by argument name, or a tuple of them in the order of the call.
        causal: what the model claims. True: an output must not see later tokens; False: it may, and must be able to;
            None: found out and reported as a fact.
        prefix: how many tokens at the start may see each other in a causal model (a prefix language model).
        forward: ``forward(model, batch)`` gives one output for each token, where the model's own call does not.
        tokens: the argument that holds the tokens (B, L) or (B, L, D); where there is a target, the source.
        target: the argument that holds what is written so far, in a model that reads one sequence and writes another;
            None: found by its name (``decoder_input_ids``, ``tgt``, ``target`` …).
        mask: the argument that tells padding: (B, L) or (B, 1, …, L), 1 or True = a token, where a name that ends in
            ``padding_mask`` means True = hide, as in ``nn.Transformer``; or lengths (B,), whole numbers. The name of
            the tokens themselves: the model knows padding by ``pad_id``. None: the model takes no padding mask.
        pad_id: the id that stands on padding; None: the model's configuration says.
        cache: "auto" finds a cache in the names of the call (``past_key_values``, ``use_cache``); None tests none;
            a function ``step(model, batch, state) -> (output, state)`` runs a chunk of tokens behind a state.
        sets: whether the model claims that order does not matter.
        progress: called as probes go by.

    Returns:
        A :class:`Report`. What could not be tested is in ``report.untested`` and never counts as passed.

    Raises:
        RegardError: a model or a batch of the wrong kind. A model that cannot run on the batch is reported, not raised.

    >>> import torch
    >>> from torch import nn
    >>> _ = torch.manual_seed(0)
    >>> class Mean(nn.Module):  # mixes all tokens, the later ones too
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.embed, self.out = nn.Embedding(50, 8), nn.Linear(8, 8)
    ...     def forward(self, input_ids):
    ...         x = self.embed(input_ids)
    ...         return self.out(x + x.mean(1, keepdim=True))
    >>> report = check(Mean(), (torch.randint(50, (2, 12)),), causal=True)
    >>> [(found.code, found.severity) for found in report.findings]
    [('CAU001', 'error')]
    """
    if not isinstance(model, nn.Module):
        raise RegardError(f"model: found {type(model).__name__}, wanted an nn.Module")
    began = time.perf_counter()
    name = type(model).__name__
    with quiet(model):
        subject = Subject.of(
            model,
            batch,
            causal=causal,
            prefix=prefix,
            forward=forward,
            tokens=tokens,
            target=target,
            mask=mask,
            pad_id=pad_id,
            cache=cache,
            sets=sets,
        )
        with quiet(subject.model):
            seen = list(_observed(subject, progress))
    return Report.of(name, _once(seen), time.perf_counter() - began, source_of(type(model)))


def _observed(subject: Subject, progress: Progress | None) -> Iterator[Observation]:
    yield from (Fact("judged", note) for note in subject.notes)
    try:
        noise = subject.noise
    except RegardError as why:
        yield Untested("model", f"cannot run on the batch: {why}")
        return
    known = f"{noise.floor:.1g} at outputs whose spread is {noise.spread:.2g}"
    yield Fact(
        "noise", known if math.isfinite(noise.floor) else "unknown: the outputs on this batch are not all numbers"
    )
    for done, probe in enumerate(PROBES):
        if progress is not None:
            progress(done, len(PROBES), probe.__name__)
        yield from _tried(probe, subject)
    if progress is not None:
        progress(len(PROBES), len(PROBES), "")


def _tried(probe: Probe, subject: Subject) -> Iterator[Observation]:
    noise = subject.noise
    if noise.drowns and probe not in (finite, determinism, inside):
        why = (
            f"outputs move by {noise.floor:.2g} already {noise.when}, and nothing much smaller can be told from that"
            if math.isfinite(noise.floor)
            else "the outputs on this batch are not all numbers"
        )
        yield Untested(probe.__name__, why)
        return
    try:
        yield from probe(subject)
    except CouldNotRun as why:
        yield Untested(probe.__name__, str(why))
    except Exception as error:  # the other probes have something to say all the same
        said = " ".join(str(error).split())[:200]
        yield Untested(probe.__name__, f"the probe itself failed, a fault in regard: {type(error).__name__}: {said}")


def _once(seen: list[Observation]) -> Iterator[Observation]:
    """The same code at the same module is told once, by what showed it first."""
    told = set()
    for one in seen:
        if isinstance(one, Finding):
            if (one.code, one.module) in told:
                continue
            told.add((one.code, one.module))
        yield one
