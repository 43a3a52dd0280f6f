"""`regard intuition`: the small experiments on attention, run for real.

Each is a short file in `examples/` that a learner can open. The wheel carries that folder as `regard/_examples`; in a
checkout, installed or not, it lies beside `src`. An experiment takes nothing and returns numbers by name:

    def four_line_read() -> dict[str, list[float]]: ...

The first line of its file says what is done, the function's own text what it shows.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

__all__ = ["intuition"]

PACKAGE = "regard._examples"
WIDTH = 80


def intuition(
    name: Annotated[str | None, typer.Argument(help="The experiment to run; all when left out.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name the experiments and stop.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="The numbers, as one JSON object.")] = False,
) -> None:
    """Run the small experiments on attention and print their numbers.

    Examples:

      regard intuition

      regard intuition temperature

      regard intuition --list
    """
    from rich.console import Console

    folder = _folder()
    names = _choose(_names(folder), name)
    experiments = [_load(each) for each in names]
    if list_ and json_:
        print(json.dumps({each.name: each.title for each in experiments}, ensure_ascii=False))
    elif list_:
        width = max(map(len, names))
        for each in experiments:
            print(f"{each.name:<{width}}  {each.title}")
    elif json_:
        print(json.dumps({each.name: each.to_dict() for each in experiments}, ensure_ascii=False, indent=2))
    else:
        console = Console(highlight=False)
        console.width = min(WIDTH, console.width)
        for each in experiments:
            _print(console, each, folder)


@dataclass(frozen=True)
class Experiment:
    """One experiment: what is done, what it shows, and the function that does it."""

    name: str
    title: str
    shows: str
    run: Callable[[], dict[str, list[float]]]

    def to_dict(self) -> dict[str, object]:
        """Title, what it shows and the numbers; one that is not finite is null, which JSON can hold."""
        numbers = {key: [x if math.isfinite(x) else None for x in row] for key, row in self.run().items()}
        return {"title": self.title, "shows": self.shows, "numbers": numbers}


def _folder() -> Path:
    """The folder of the experiments: in the installed package, or beside `src` in a checkout."""
    from regard.errors import RegardError

    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_examples", package.parents[1] / "examples"):
        if (folder / "__init__.py").is_file():
            return folder
    raise RegardError(
        f"the experiments are neither in {package / '_examples'} nor in {package.parents[1] / 'examples'}: this "
        'installation lacks them; install regard again: pip install --force-reinstall "regard[cli]"'
    )


def _names(folder: Path) -> tuple[str, ...]:
    """The experiments' names in reading order, from the folder imported as a package of ours, wherever it lies."""
    if PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = package
        spec.loader.exec_module(package)
    names: tuple[str, ...] = sys.modules[PACKAGE].EXPERIMENTS
    return names


def _choose(known: tuple[str, ...], name: str | None) -> tuple[str, ...]:
    from regard.errors import unknown_name

    if name is None:
        return known
    if name.replace("-", "_") not in known:
        raise unknown_name("experiment", name, known)
    return (name.replace("-", "_"),)


def _load(name: str) -> Experiment:
    module = importlib.import_module(f"{PACKAGE}.{name}")
    run: Any = getattr(module, name)
    return Experiment(name, inspect.cleandoc(module.__doc__ or ""), inspect.cleandoc(run.__doc__ or ""), run)


def _print(console: Console, experiment: Experiment, folder: Path) -> None:
    from rich.table import Table

    console.print(experiment.title, style="bold cyan", markup=False)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    numbers = experiment.run()
    for _ in range(max(map(len, numbers.values()))):
        table.add_column(justify="right", no_wrap=True)
    for key, row in numbers.items():
        table.add_row(key, *_cells(row))
    console.print(table)
    for paragraph in experiment.shows.split("\n\n"):
        console.print(" ".join(paragraph.split()), markup=False)
    console.print(_near(folder / f"{experiment.name}.py"), style="dim", markup=False, soft_wrap=True)
    console.print()


def _near(path: Path) -> str:
    """The path from where the person stands, when that is above it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _cells(row: list[float]) -> list[str]:
    """A row of whole numbers as they are; else three places, or more where a number would look like 0 and is not."""
    if all(x == round(x) for x in row if math.isfinite(x)):
        return [f"{x:.0f}" if math.isfinite(x) else f"[red]{x}[/red]" for x in row]
    return ["0" if x == 0 else f"{x:.1e}" if abs(x) < 5e-4 else f"{x:.3f}" for x in row]
