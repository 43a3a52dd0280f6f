"""`use`: a Hugging Face model read by this package's engines, through one attention name and one mask name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from torch import nn

from regard.bridge.attention import Settings, attention
from regard.bridge.predicate import made_predicate
from regard.engines import ENGINES
from regard.errors import RegardError, unknown_name
from regard.reading import TELEMETRY

__all__ = ["NAME", "use"]

NAME = "regard"
Model = TypeVar("Model", bound=nn.Module)


def use(model: Model, engine: str = "auto", statistics: bool | str | Iterable[str] = True) -> Model:
    """o_i = Σ_j w_ij v_j in every attention of a Hugging Face model by ``engine``; the model itself is given back.

    Args:
        model: a transformers model, or a module that holds one.
        engine: "auto", or the name of an engine; by name it runs or raises.
        statistics: what a call with ``output_attentions=True`` measures: True, or names among entropy, bound, peak,
            distance, spread, as in :func:`regard.read`. Each entry of ``outputs.attentions`` is then the layer's
            :class:`regard.Reading`, with ``entropy`` (B, H, L) and the rest; an (L × S) matrix is never made.

    Raises:
        RegardError: no transformers model; one that computes its attention in code of its own; an unknown engine or
            statistic. While the model runs: a keyword that isn't honoured, a mask that can't be read.

    The masks that transformers describes by a function become causal, window, padding and segments of this package.
    Query rows that may see nothing (padding in front) read 0, where eager attention gives the mean of all values. Undo
    it with ``model.set_attn_implementation("sdpa")``. Docs: docs/huggingface.md.

    >>> import torch, transformers
    >>> model = transformers.LlamaModel(transformers.LlamaConfig(
    ...     vocab_size=31, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4,
    ...     num_key_value_heads=2))
    >>> outputs = use(model)(torch.tensor([[3, 1, 4, 1, 5]]), output_attentions=True)
    >>> outputs.attentions[0].entropy.shape
    torch.Size([1, 4, 5])
    """
    engines = {each.name for each in ENGINES}
    if engine != "auto" and engine not in engines:
        raise unknown_name("engine", engine, {"auto", *engines})
    settings = Settings(engine, _statistics(statistics))
    roots = list(_roots(model))
    for root in roots:
        _refuse_private(root)
    register()
    for root in roots:
        root.set_attn_implementation(NAME)
        for module in root.modules():
            module._regard = settings  # a copy of the model keeps it
    return model


def register() -> None:
    """Makes the two names known to transformers. There is no undoing it, and doing it twice changes nothing."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, made_predicate)


def _statistics(asked: bool | str | Iterable[str]) -> bool | tuple[str, ...]:
    if isinstance(asked, bool):
        return asked
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    known = TELEMETRY - {"mass"}
    for name in names:
        if name not in known:
            raise unknown_name("statistics", name, known)
    return names


def _roots(model: nn.Module) -> Iterator[Any]:
    """The outermost transformers models in ``model``."""
    transformers = sys.modules.get("transformers.modeling_utils")
    found = _outermost(model, transformers.PreTrainedModel) if transformers and isinstance(model, nn.Module) else []
    if not found:
        raise RegardError(
            f"model: found {type(model).__name__}, wanted a transformers model, or a module that holds one; other "
            "models call regard.attend themselves"
        )
    yield from found


def _outermost(module: nn.Module, kind: type) -> list[nn.Module]:
    if isinstance(module, kind):
        return [module]
    return [each for child in module.children() for each in _outermost(child, kind)]


def _refuse_private(root: Any) -> None:
    """Raises where part of the model computes attention in code of its own, which would stay as it is, unsaid."""
    modules: list[tuple[str, nn.Module]] = list(root.named_modules())
    own = {kind: _softmax_of_its_own(kind) for kind in {type(module) for _, module in modules}}
    for path, module in modules:
        kind = type(module)
        settable = getattr(kind, "_can_set_attn_implementation", None)
        if (settable is not None and not settable()) or own[kind]:
            where = kind.__name__ if module is root else f"{path} ({kind.__name__})"
            raise RegardError(
                f"model: {where} computes its attention in code of its own, not through transformers' "
                "AttentionInterface, so it cannot be switched; regard.check and regard.watch see it as it is"
            )


def _softmax_of_its_own(kind: type[nn.Module]) -> bool:
    if "attention" not in kind.__name__.lower():
        return False
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        return False
    return "softmax(" in source and "attention_interface" not in source and "get_interface(" not in source
