"""Do later tokens reach earlier outputs, and do earlier tokens reach later ones?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from regard.doctor.effect import Effect, effect
from regard.doctor.finding import Fact, Finding, Observation, Passed, Untested
from regard.doctor.locate import Kept, Place, locate
from regard.doctor.probes.conditions import Condition, conditions
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Subject

NAME = "future"
_CUTS = (1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127)  # about tiles and blocks: a leak may stop at their edges


def future(subject: Subject) -> Iterator[Observation]:
    """Tokens from a cut on are replaced; outputs before it must not move (where the model claims to be causal), or must
    (where it claims to see both ways). In every condition, at several cuts."""
    if not subject.per_position:
        yield Untested(NAME, "the model gives no output for each token; give forward(model, batch) that does")
        return
    stream = subject.stream
    base = subject.batch
    L = base.shape(stream)[1]
    if L < 3:
        yield Untested(NAME, f"{L} tokens are too few; give a batch of 3 or more")
        return
    cuts = sorted({cut for cut in (*_CUTS, L // 2, L - 1) if max(1, subject.prefix) <= cut < L})
    leaks: list[tuple[Condition, int, Effect]] = []
    tight: list[Condition] = []
    for condition in conditions(subject, stream):
        try:
            found = _leaks(subject, condition, _cuts(subject, condition, cuts, both_ways=len(leaks) >= len(cuts)))
        except CouldNotRun as why:
            yield Untested(NAME, f"{condition.name}: {why}")
            continue
        leaks += [(condition, cut, one) for cut, one in found if one.real]
        if subject.causal is False and leaks:  # as claimed: one look that reaches is enough
            break
        if not any(one.real for _, one in found):
            tight.append(condition)
            worst = max((one for _, one in found), key=lambda one: one.change)
            if subject.causal is not False:
                yield Passed(NAME, f"later tokens leave earlier outputs{condition.said()}", worst.evidence())
    yield from _verdict(subject, leaks, tight, cuts)
    yield from _past(subject)


def _cuts(subject: Subject, condition: Condition, cuts: list[int], both_ways: bool) -> list[int]:
    """All cuts of the batch as given and of one row; a few of them in other conditions; one where the model has been
    seen to read both ways and claims nothing else."""
    if condition.name in ("", "one row") and not both_ways:
        return cuts
    if both_ways and subject.causal is None:
        return cuts[:1]
    return sorted({cuts[0], cuts[len(cuts) // 2], cuts[-1], *cuts[2:6:2]})


def _verdict(
    subject: Subject, leaks: list[tuple[Condition, int, Effect]], tight: list[Condition], cuts: list[int]
) -> Iterator[Observation]:
    if subject.causal is False:
        if leaks:
            yield Passed(NAME, "later tokens reach earlier outputs, as claimed", leaks[0][2].evidence())
        else:
            spot = _first_mixer(subject)
            yield Finding(
                "CAU002",
                "the model is said to see both ways, but no later token moves an earlier output "
                f"(cuts {', '.join(map(str, cuts))})",
                spot.module,
                spot.source,
            )
        return
    if subject.prefix > 1:
        yield from _inside_prefix(subject)
    if not leaks:
        yield Fact("direction", "causal: no later token moves an earlier output")
        return
    always = not tight and {cut for condition, cut, _ in leaks if condition.name == ""} == set(cuts)
    if subject.causal is None and always:
        yield Fact("direction", f"bidirectional: later tokens move earlier outputs {leaks[0][2].said()}")
        return
    condition, cut, worst = max(leaks, key=lambda leak: leak[2].change)
    place = _where(subject, condition, cut)
    others = sorted({one.name or "as given" for one, _, _ in leaks})
    message = f"changing tokens from {cut} on moves the output at {worst.place} {worst.said()}"
    if tight:
        message += f"; it leaks in: {', '.join(others)}; and not in: {', '.join(c.name or 'as given' for c in tight)}"
    evidence = {**worst.evidence(), "cut": cut, "leaks_in": ", ".join(others)}
    code = "CAU001" if subject.causal else "CAU003"
    yield Finding(code, message, *place, evidence)


def _inside_prefix(subject: Subject) -> Iterator[Observation]:
    """Tokens of the prefix are said to see each other: its last one must move its first output."""
    stream, inputs = subject.stream, subject.batch
    place = torch.arange(inputs.shape(stream)[1])
    moved = subject.run(inputs.changed(stream, (place == subject.prefix - 1)[None], subject.others(inputs, stream)))
    found = effect(subject.run(inputs), moved, subject.noise, (place < subject.prefix - 1)[None])
    if found.real:
        yield Passed(NAME, f"the prefix of {subject.prefix} tokens is read both ways", found.evidence())
        return
    spot = _first_mixer(subject)
    said = f"the first {subject.prefix} tokens are said to see each other"
    message = f"{said}, but token {subject.prefix - 1} moves no earlier output"
    yield Finding("CAU002", message, spot.module, spot.source, found.evidence())


def _first_mixer(subject: Subject) -> Place:
    """The first module that brings one token's content to later places: it is where the other way is missing."""
    stream, inputs = subject.stream, subject.batch
    real = inputs.real(stream)
    L = real.shape[1]
    place = torch.arange(L, device=real.device)
    other = inputs.changed(stream, (place == L // 3)[None], subject.others(inputs, stream))
    kept = Kept({L: real & (place > L // 3)})
    return locate(subject.model, partial(subject.call, inputs), partial(subject.call, other), (kept, kept))


def _leaks(subject: Subject, condition: Condition, cuts: list[int]) -> list[tuple[int, Effect]]:
    stream = subject.stream
    inputs = condition.prepare(subject.batch)
    real = inputs.real(stream)
    content = subject.others(inputs, stream)
    place = torch.arange(real.shape[1], device=real.device)
    with condition.around():
        base = subject.run(inputs, **condition.options)
        found = []
        for cut in cuts:
            moved = subject.run(inputs.changed(stream, (place >= cut)[None], content), **condition.options)
            found.append((cut, effect(base, moved, subject.noise, real & (place < cut))))
    return found


def _where(subject: Subject, condition: Condition, cut: int) -> tuple[str, str]:
    stream = subject.stream
    inputs = condition.prepare(subject.batch)
    real = inputs.real(stream)
    place = torch.arange(real.shape[1], device=real.device)
    other = inputs.changed(stream, (place >= cut)[None], subject.others(inputs, stream))
    kept = Kept({real.shape[1]: real & (place < cut)})
    with condition.around():
        one, two = (partial(subject.call, x, **condition.options) for x in (inputs, other))
        found = locate(subject.model, one, two, (kept, kept))
    return found.module, found.source


def _past(subject: Subject) -> Iterator[Observation]:
    """Beside "must not see" stands "must be able to see": some earlier token moves a later output."""
    stream = subject.stream
    inputs = subject.batch
    real = inputs.real(stream)
    L = real.shape[1]
    place = torch.arange(L, device=real.device)
    base = subject.run(inputs)
    content = subject.others(inputs, stream)
    seen: list[tuple[int, Effect]] = []
    for at in sorted({0, L // 3, L // 2}):
        moved = subject.run(inputs.changed(stream, (place == at)[None], content))
        seen.append((at, effect(base, moved, subject.noise, real & (place > at))))
    if not any(one.real for _, one in seen):
        at, worst = max(seen, key=lambda one: one[1].change)
        yield Finding(
            "CAU002",
            f"changing a token moves no later output: token {at} moves them at most {worst.said()}",
            evidence=worst.evidence(),
        )
        return
    yield Passed(
        NAME, "earlier tokens move later outputs", max((one for _, one in seen), key=lambda e: e.change).evidence()
    )
