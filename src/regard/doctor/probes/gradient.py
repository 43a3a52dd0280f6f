"""Do gradients reach every head, and are they finite?"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.doctor.attention import attention_modules, attention_of, is_attention
from regard.doctor.effect import effect
from regard.doctor.finding import Finding, Observation, Passed, Untested
from regard.doctor.inputs import Inputs
from regard.doctor.locate import place_of
from regard.doctor.stream import CouldNotRun
from regard.doctor.subject import Subject

NAME = "gradient"
_VALUE = re.compile(r"(^|[._])(v|value|v_proj|value_proj|wv|w_v|v_lin|to_v)(\.weight)?$", re.IGNORECASE)
_PROJECTION = re.compile(
    r"(^|[._])(q|k|v|o|qkv|query|key|value|out|dense|in|kv|c_attn|c_proj|attn|to_q|to_k|to_v|to_out|w[qkvo]|"
    r"query_key_value)(_?(proj|projection|lin|linear|layer|weight))*(\.\d+)?(\.weight)?$",
    re.IGNORECASE,
)
_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "kv_heads",
    "num_heads",
    "num_attention_heads",
    "n_heads",
    "n_head",
    "heads",
)


def gradient(subject: Subject) -> Iterator[Observation]:
    """The gradient of a random projection of the real outputs: finite everywhere, for every head not 0; also with
    padding, and with a row that is all padding and is left out of the loss."""
    parameters = {name: p for name, p in subject.model.named_parameters() if p.requires_grad}
    if not parameters:
        yield Untested(NAME, "no parameter requires a gradient")
        return
    try:
        plain = _gradients(subject, subject.batch, parameters)
    except CouldNotRun as why:
        yield Untested(NAME, str(why))
        return
    yield from _finite(subject, plain, "")
    yield from _unused(subject, plain)
    yield from _heads(subject, plain)
    stream = subject.streams[0]
    if stream.mask is None:
        yield Untested(NAME, "rows that are all padding: no padding mask is known")
        return
    inputs = subject.masked(subject.clean(2), stream)
    real = inputs.real(stream).clone()
    real[0] = False
    try:
        empty = _gradients(subject, inputs.with_real(stream, real), parameters, rows=[1])
    except CouldNotRun as why:
        yield Untested(NAME, f"a row that is all padding: {why}")
        return
    yield from _finite(subject, empty, " when another row of the batch is all padding, and left out of the loss")


def _gradients(
    subject: Subject, inputs: Inputs, parameters: dict[str, nn.Parameter], rows: list[int] | None = None
) -> dict[str, Tensor | None]:
    with torch.enable_grad():
        out = subject.run(inputs)
        real = inputs.real(subject.stream) if out.dim() == 3 else torch.ones(len(out), dtype=torch.bool)
        if rows is not None:
            keep = torch.zeros(len(real), dtype=torch.bool)
            keep[rows] = True
            real = real & (keep[:, None] if real.dim() == 2 else keep)
        seen = out[real.to(out.device)]
        if not seen.requires_grad:
            raise CouldNotRun("the output has no gradient: it is detached, or computed under no_grad")
        towards = torch.randn(seen.shape, generator=torch.Generator().manual_seed(13)).to(seen)
        try:
            found = torch.autograd.grad((seen * towards).sum(), list(parameters.values()), allow_unused=True)
        except RuntimeError as error:
            raise CouldNotRun(f"the backward pass raised: {' '.join(str(error).split())[:200]}") from error
    return dict(zip(parameters, found, strict=True))


def _finite(subject: Subject, gradients: dict[str, Tensor | None], when: str) -> Iterator[Observation]:
    bad = [name for name, g in gradients.items() if g is not None and not g.isfinite().all()]
    if not bad:
        yield Passed(NAME, f"every gradient is finite{when}", {"parameters": len(gradients)})
        return
    # Backward runs from the output to the input: of the bad ones, the last in the model's order was reached first.
    attention = [
        name for name in bad if is_attention(own := attention_of(subject.model, name), subject.model.get_submodule(own))
    ]
    name = (attention or bad)[-1]
    place = place_of(subject.model, attention_of(subject.model, name))
    message = f"the gradient of {name} is not finite{when} ({len(bad)} of {len(gradients)} parameters)"
    yield Finding("NUM003", message, place.module, place.source, {"parameters": len(bad), "of": len(gradients)})


def _unused(subject: Subject, gradients: dict[str, Tensor | None]) -> Iterator[Observation]:
    """A parameter of an attention module that no output depends on, while its neighbours' do."""
    for path in attention_modules(subject.model):
        own = {n: g for n, g in gradients.items() if n.startswith(f"{path}.")}
        idle = [n for n, g in own.items() if g is None]
        if not idle or len(idle) == len(own):
            continue
        place = place_of(subject.model, path)
        cut = [n for n in idle if _moves(subject, n)]
        never = [n for n in idle if n not in cut]
        if never:
            message = f"no output depends on {', '.join(never)}: never used"
            # A part that is idle as a whole may wait for longer texts, or for tokens that are not here.
            severity = "note" if all(_waits(subject.model, path, n, gradients) for n in never) else ""
            evidence = {"parameters": len(never)}
            yield Finding("API001", message, place.module, place.source, evidence, severity)  # type: ignore[arg-type]  # "" is the catalogue's
        if cut:
            message = (
                f"outputs depend on {', '.join(cut)}, and no gradient reaches it: it was cut off (detach, no_grad)"
            )
            yield Finding("HED004", message, place.module, place.source, {"parameters": len(cut)})


def _waits(model: nn.Module, path: str, parameter: str, gradients: dict[str, Tensor | None]) -> bool:
    """Whether the parameter belongs to a part of the module that holds several, none of which is used."""
    part = parameter.removeprefix(f"{path}.").partition(".")[0]
    inside = f"{path}.{part}"
    if f"{inside}." not in parameter or not any(model.get_submodule(inside).children()):
        return False
    return all(g is None for name, g in gradients.items() if name.startswith(f"{inside}."))


def _moves(subject: Subject, name: str) -> bool:
    """Whether the output moves when the parameter does."""
    p = subject.model.get_parameter(name)
    before = p.detach().clone()
    base = subject.run(subject.batch)
    try:
        with torch.no_grad():
            p.mul_(1.5).add_(0.1)
        return effect(base, subject.run(subject.batch), subject.noise).real
    finally:
        with torch.no_grad():
            p.copy_(before)


def _heads(subject: Subject, gradients: dict[str, Tensor | None]) -> Iterator[Observation]:
    """A projection of an attention module with a gradient of exactly 0, whole or in the rows of one head."""
    dead = 0
    for name, g in gradients.items():
        path = attention_of(subject.model, name)
        if g is None or g.dim() != 2 or not is_attention(path, subject.model.get_submodule(path)):
            continue
        said = ""
        if not g.any():
            said = f"the gradient of {name} is exactly 0"
        elif _VALUE.search(name.removesuffix(".weight")) and (heads := _count(subject.model, path)):
            rows = g.unflatten(0, (heads, -1)) if g.shape[0] % heads == 0 else g[None]
            idle = [h for h in range(rows.shape[0]) if not rows[h].any()]
            if idle:
                said = f"no gradient reaches head {', '.join(map(str, idle))} of {path} ({name})"
        if said:
            dead += 1
            place = place_of(subject.model, path)
            severity = "" if _PROJECTION.search(name) else "note"  # another part may wait for its case
            yield Finding("HED004", said, place.module, place.source, {"parameter": name}, severity)  # type: ignore[arg-type]  # likewise
    if not dead:
        yield Passed(NAME, "a gradient reaches every projection of attention")


def _count(model: nn.Module, path: str) -> int:
    for holder in (model.get_submodule(path), getattr(model, "config", None)):
        for name in _HEADS:
            if isinstance(n := getattr(holder, name, None), int) and n > 0:
                return n
    return 0
