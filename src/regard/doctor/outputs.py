"""What a model returned, read as one tensor of outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from regard.errors import RegardError

#: Fields of an output object, the most telling first.
_NAMES = ("logits", "last_hidden_state", "prediction_logits", "start_logits", "output", "hidden_states")


def main_output(found: Any) -> Tensor:
    """The output itself: a tensor, the first tensor of a tuple, or the best-known field of an object."""
    if isinstance(found, Tensor):
        return found
    for name in _NAMES:
        value = found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)
        if isinstance(value, Tensor):
            return value
    for value in tensors(found):
        if value.is_floating_point() and value.dim():
            return value
    raise RegardError(
        f"model: found an output of {type(found).__name__} without a floating tensor; give forward(model, batch) that "
        "returns one"
    )


def per_place(out: Tensor, B: int, L: int) -> Tensor:
    """(B, L, F) where the output has one place for each token, (L, B, …) put round; else (B, F), one a row."""
    if out.dim() >= 2 and tuple(out.shape[:2]) == (B, L):
        return out.reshape(B, L, -1)
    if out.dim() >= 3 and tuple(out.shape[:2]) == (L, B):
        return out.transpose(0, 1).reshape(B, L, -1)
    if out.dim() and out.shape[0] == B:
        return out.reshape(B, -1)
    raise RegardError(
        f"model: found an output {tuple(out.shape)} for tokens ({B}, {L}), wanted one for each token or "
        "one for each row"
    )


def tensors(found: Any) -> Iterator[Tensor]:
    """Every tensor in a nest of tuples, lists and mappings, in order."""
    yield from (x for _, x in named_tensors(found))


def named_tensors(found: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """The same with the way to each: what is None in one call and a tensor in another does not move its neighbours."""
    if isinstance(found, Tensor):
        yield path, found
    elif isinstance(found, Mapping):
        for name, value in found.items():
            yield from named_tensors(value, f"{path}.{name}")
    elif isinstance(found, tuple | list):
        for place, value in enumerate(found):
            yield from named_tensors(value, f"{path}.{place}")
