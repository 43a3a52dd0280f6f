"""What the recorder sees inside while the model runs: the only probe with a mode on the stack, and the last."""

from __future__ import annotations

from collections.abc import Iterator

from regard.doctor.finding import Fact, Observation, Passed, Untested
from regard.doctor.held import quiet
from regard.doctor.probes.conditions import conditions
from regard.doctor.stepping import Stepper
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Subject
from regard.doctor.watch import watch

NAME = "inside"
_SEEN = ("", "padding on the right", "padding on the left")


def inside(subject: Subject) -> Iterator[Observation]:
    """The batch as given, with padding on either side, and one step behind a cache, all under ``regard.watch``, in the
    precision the model came in."""
    subject = subject.as_given()
    with quiet(subject.model), watch(subject.model) as seen:
        for case in conditions(subject, subject.stream):
            if case.name in _SEEN:
                try:
                    subject.run(case.prepare(subject.batch))
                except CouldNotRun as why:
                    yield Untested(NAME, f"{case.name}: {why}")
        _step(subject)
    heads = seen.compute()
    if not len(heads):
        yield Untested(NAME, "no attention call was seen: no fused call, and no softmax followed by a product")
        return
    found = seen.findings()
    yield from found
    yield from seen.untested
    yield Fact("attention", f"{len(heads)} heads in {len(heads.layers)} modules were watched")
    if not any(one.severity != "note" for one in found):
        yield Passed(NAME, "masks, axes, scales and heads seen inside are in order", {"heads": len(heads)})


def _step(subject: Subject) -> None:
    """A prefix and one token behind it, where the model has a cache: its calls have more keys than queries."""
    try:
        inputs = subject.clean(2)
        L = inputs.shape(subject.stream)[1]
        Stepper.of(subject).run(inputs, [L - L // 2, 1])
    except CouldNotRun:
        return  # the cache probe has said why
