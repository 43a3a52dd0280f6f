"""The options of `regard train` that size a model: one for every size that any architecture has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Annotated, Any, TypeVar

import typer

from regard.translate.models import ARCHITECTURES
from regard.translate.models.sizes import Size, sizes_of

__all__ = ["with_sizes"]

Command = TypeVar("Command", bound=Callable[..., None])


def with_sizes(command: Command) -> Command:
    """The command with an option for each size; those that were given reach it as its argument ``sizes``."""
    written = inspect.signature(command, eval_str=True)
    options = list(_options())
    names = [option.name for option in options]

    @wraps(command)
    def run(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in names}
        sizes: dict[str, Size] = {name: value for name, value in chosen.items() if value is not None}
        command(**given, sizes=sizes)

    own = [parameter for parameter in written.parameters.values() if parameter.name != "sizes"]
    signature = written.replace(parameters=[*own, *options])
    run.__signature__ = signature  # type: ignore[attr-defined]  # what inspect.signature, and so Typer, looks for
    run.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return run  # type: ignore[return-value]  # the same command to who calls it by the options


def _options() -> Iterator[inspect.Parameter]:
    """Every size once, however many architectures have it, with what each takes where nothing is given."""
    told: dict[str, str] = {}
    kinds: dict[str, type[Any]] = {}
    defaults: dict[str, dict[str, Size]] = {}
    for name, architecture in ARCHITECTURES.items():
        for size in sizes_of(architecture.config):
            told.setdefault(size.name, size.says)
            kinds.setdefault(size.name, type(size.default))
            defaults.setdefault(size.name, {})[name] = size.default
    for name, says in told.items():
        taken = ", ".join(f"{model} {_said(default)}" for model, default in defaults[name].items())
        option = typer.Option(
            help=f"{says[0].upper()}{says[1:]}. Left out: {taken}.", rich_help_panel="Sizes of the model"
        )
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kinds[name] | None, option],
        )


def _said(default: Size) -> str:
    return ("no", "yes")[default] if isinstance(default, bool) else str(default)
