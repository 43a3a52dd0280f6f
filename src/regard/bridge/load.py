"""A model by the name a person types: a Hugging Face folder or name, or `package.module:factory`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.errors import RegardError

__all__ = ["Loaded", "load"]

#: What a factory may say besides its model and batch; the rest of its names are for `regard.check`, as they are.
OWN = ("model", "batch", "tokenizer", "strings", "causal")
FOR_CHECK = ("prefix", "forward", "tokens", "target", "mask", "pad_id", "cache", "sets")
FORM = "a Hugging Face folder or name, or package.module:factory"


@dataclass(frozen=True)
class Loaded:
    """A model ready to be run on a batch, in evaluation mode.

    ``batch`` is a dict or a tuple of tensors. ``strings[b][i]`` is the text of token i of row b, or empty where nobody
    knows. ``causal`` is the model's claim, or None. ``options`` are more keywords for ``regard.check``.
    """

    model: nn.Module
    batch: Mapping[str, Tensor] | tuple[Tensor, ...]
    name: str
    tokenizer: Any = None
    strings: tuple[tuple[str, ...], ...] = ()
    causal: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> Any:
        """The model on its batch."""
        if isinstance(self.batch, Mapping):
            return self.model(**self.batch)
        return self.model(*self.batch)


def load(
    name: str,
    text: Path | None = None,
    *,
    rows: int | None = 4,
    length: int | None = 128,
    download: bool = False,
) -> Loaded:
    """The model that ``name`` says, with a batch made from ``text``.

    Args:
        name: a Hugging Face folder or name; or ``package.module:factory``, a function that is called with no argument
            (or with ``text``, where it has a parameter of that name) and gives a model and its batch, ``(model,
            batch)``, with a third item that maps what `regard.check` takes; a mapping with all of it; or the path of a
            Hugging Face folder. A module file in the current folder is found.
        text: a UTF-8 file. Each line that isn't empty is a row of the batch, as far as ``rows``; a text of one line is
            cut in two unequal rows, so that there is padding. A few sentences where it is not given.
        rows: how many rows at most; None makes one row of the whole text.
        length: how many tokens a row has at most; None sets no bound but the model's own.
        download: whether a Hugging Face name that is not on this disk may be fetched.

    Raises:
        RegardError: no such model, module, factory or file; a text that is empty or no UTF-8; no tokenizer for it.

    >>> load("nowhere:found")
    Traceback (most recent call last):
    regard.errors.RegardError: nowhere:found: found no module nowhere; wanted package.module:factory that can be ...
    """
    for option, number in (("rows", rows), ("length", length)):
        if number is not None and number < 1:
            raise RegardError(f"{option}: found {number}, wanted a whole number of at least 1")
    if ":" in name and not Path(name).exists():
        return _made(name, text, rows, length, download)
    from regard.bridge.folder import huggingface

    return huggingface(name, text, rows, length, download)


def _made(name: str, text: Path | None, rows: int | None, length: int | None, download: bool) -> Loaded:
    given = _call(name, _factory(name), text)
    if isinstance(given, str | Path):
        from regard.bridge.folder import huggingface

        return replace(huggingface(str(given), text, rows, length, download), name=name)
    if isinstance(given, Loaded):
        return replace(given, model=given.model.eval())
    if isinstance(given, tuple) and len(given) == 2:
        given = {"model": given[0], "batch": given[1]}
    if isinstance(given, tuple) and len(given) == 3 and isinstance(given[2], Mapping):
        given = {**given[2], "model": given[0], "batch": given[1]}
    if not isinstance(given, Mapping):
        raise RegardError(
            f"{name}: the factory gave {type(given).__name__}, wanted (model, batch), (model, batch, options), a "
            "mapping with model and batch, or the path of a Hugging Face folder"
        )
    return _from_mapping(name, given)


def _from_mapping(name: str, given: Mapping[str, Any]) -> Loaded:
    from regard.errors import unknown_name

    for key in given:
        if key not in (*OWN, *FOR_CHECK):
            raise unknown_name(f"{name}: the factory gave", key, (*OWN, *FOR_CHECK))
    model, batch = given.get("model"), given.get("batch")
    if not isinstance(model, nn.Module):
        raise RegardError(f"{name}: the factory's model is {type(model).__name__}, wanted a torch.nn.Module")
    if isinstance(batch, Tensor):
        batch = (batch,)
    if isinstance(batch, list):
        batch = tuple(batch)
    held = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, tuple) else ()
    if not any(isinstance(x, Tensor) for x in held):
        raise RegardError(
            f"{name}: the factory's batch is {type(batch).__name__}, wanted a dict or a tuple of tensors that the "
            "model can be called with"
        )
    assert isinstance(batch, Mapping | tuple)
    strings = tuple(tuple(row) for row in given.get("strings") or ())
    options = {key: given[key] for key in FOR_CHECK if key in given}
    return Loaded(model.eval(), batch, name, given.get("tokenizer"), strings, given.get("causal"), options)


def _factory(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise RegardError(f"model: found {name!r}, wanted {FORM}")
    here = str(Path.cwd())
    if here not in sys.path:  # a script run by its name has it; the command does not
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise RegardError(f"{name}: {module_name} needs the module {error.name}, which is not installed") from error
        raise RegardError(
            f"{name}: found no module {error.name}; wanted package.module:factory that can be imported from here"
        ) from error
    except Exception as error:
        raise RegardError(
            f"{name}: importing {module_name} raised {_said(error)}; mend it first: python -c 'import {module_name}' "
            "shows where"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise RegardError(f"{name}: {module_name} has no {attribute}; wanted a function that gives (model, batch)")
        found = getattr(found, part)
    return found


def _call(name: str, factory: Any, text: Path | None) -> Any:
    import inspect

    if not callable(factory):
        raise RegardError(f"{name}: found {type(factory).__name__}, wanted a function that gives (model, batch)")
    parameters: Mapping[str, inspect.Parameter] = {}
    with suppress(TypeError, ValueError):  # a builtin says nothing of itself
        parameters = inspect.signature(factory).parameters
    takes_text = "text" in parameters
    needed = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != "text"
    ]
    if needed:
        raise RegardError(
            f"{name}: the factory wants {', '.join(needed)}; wanted one that can be called with nothing, or with text"
        )
    try:
        found = factory(text=text) if takes_text else factory()
    except Exception as error:
        raise RegardError(
            f"{name}: the factory raised {_said(error)}; call it by itself, or add --debug, to see where"
        ) from error
    if text is not None and not takes_text and not isinstance(found, str | Path):
        raise RegardError(
            f"--text: {name} gives a batch of its own and takes no text; leave --text out, or give the factory a "
            "parameter named text"
        )
    return found


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
