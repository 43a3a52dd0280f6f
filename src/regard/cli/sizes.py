"""The options of `regard train` that size a model: one for every size that any architecture has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Annotated, Any, TypeVar

import typer

from regard.translate.models import ARCHITECTURES
from regard.translate.models.sizes import Described, Size, sizes_of

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
    taken: dict[str, list[str]] = {}
    for name, architecture in ARCHITECTURES.items():
        for size in sizes_of(architecture.config):
            told.setdefault(size.name, size.says)
            kinds.setdefault(size.name, type(size.default))
            taken.setdefault(size.name, []).append(f"{name} {_said(size, told[size.name])}")
    for name, says in told.items():
        option = typer.Option(
            help=f"{says[0].upper()}{says[1:]}. Left out: {', '.join(taken[name])}.",
            rich_help_panel="Sizes of the model",
        )
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kinds[name] | None, option],
        )


def _said(size: Described, told: str) -> str:
    """What a model takes where nothing is given, and the other names it knows if the help does not tell them."""
    if isinstance(size.default, bool):
        return ("no", "yes")[size.default]
    others = [name for name in size.names if name != size.default and name not in told]
    return f"{size.default} (or {', '.join(others)})" if others else str(size.default)
