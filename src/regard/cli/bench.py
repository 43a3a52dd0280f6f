"""`regard bench`: run the project's benchmarks and print how regard compares with a peer.

A benchmark is one Python file in `benchmarks/` (a folder of the repository, not of the installed package).
Its file name is its name on the command line; `timing.py` and names that start with `_` are helpers, not
benchmarks. It holds two things:

    TITLE = "one line: what is compared with what"

    def run(console: rich.console.Console) -> dict[str, object]: ...

`run` does the work once, prints to `console` a ratio with its spread beside the peer, measured in one run,
and the threads and cores it ran on (the text of a `timing.Comparison` says all of that), and returns the same
facts as a dict that JSON can hold (`Comparison.to_dict()`, and whatever else was measured, such as memory).
Slow imports go inside `run`, so that `--list` stays quick. The folder is the package `benchmarks`:

    from benchmarks.timing import interleaved

    def run(console):
        comparison = interleaved(ours, peer, names=("regard", "torch"))
        console.print(comparison)
        return comparison.to_dict()

A benchmark states no pass or fail: it reports, and the reader judges.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bench"]

HELPERS = ("timing",)


def bench(
    name: Annotated[str | None, typer.Argument(help="The benchmark to run; all when left out.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name the benchmarks and stop.")] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output, the report on standard error.")
    ] = False,
    from_: Annotated[Path, typer.Option("--from", metavar="DIR", help="The folder that holds the benchmarks.")] = Path(
        "benchmarks"
    ),
) -> None:
    """Run the benchmarks: ratios with their spread, beside a peer, measured in one run."""
    from rich.console import Console

    console = Console(stderr=json_, highlight=False)
    modules = {each: _load(from_, each) for each in _choose(_find(from_), name)}
    if list_:
        if json_:
            print(json.dumps({each: _title(module) for each, module in modules.items()}, ensure_ascii=False))
            return
        width = max(map(len, modules))
        for each, module in modules.items():
            console.print(f"{each:<{width}}  {_title(module)}", markup=False, soft_wrap=True)
        return
    results: dict[str, object] = {}
    for each, module in modules.items():
        console.print(f"{each}: {_title(module)}", style="bold", markup=False)
        results[each] = _runner(module)(console)
    if json_:
        print(json.dumps(results, ensure_ascii=False, indent=2))


def _find(folder: Path) -> list[str]:
    """The benchmarks' names in `folder`, sorted."""
    from regard.errors import RegardError

    if not folder.is_dir():
        raise RegardError(
            f"no benchmarks in {str(folder.resolve())!r}: they lie in the repository's folder 'benchmarks', "
            "not in the installed package; run this from a checkout, or name the folder with --from DIR"
        )
    names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    names = [each for each in names if each not in HELPERS]
    if not names:
        raise RegardError(f"{str(folder.resolve())!r} holds no benchmark; name another folder with --from DIR")
    return names


def _choose(known: list[str], name: str | None) -> list[str]:
    """All of `known`, or the one called `name`."""
    from regard.errors import unknown_name

    if name is None:
        return known
    if name not in known:
        raise unknown_name("benchmark", name, known)
    return [name]


def _load(folder: Path, name: str) -> types.ModuleType:
    """Import `folder/name.py` as `benchmarks.name`, whatever the folder is called."""
    package = types.ModuleType("benchmarks")
    package.__path__ = [str(folder.resolve())]
    present = sys.modules.get("benchmarks")
    if present is None or list(present.__path__) != package.__path__:
        for each in [key for key in sys.modules if key.partition(".")[0] == "benchmarks"]:
            del sys.modules[each]
        sys.modules["benchmarks"] = package
    return importlib.import_module(f"benchmarks.{name}")


def _title(module: types.ModuleType) -> str:
    from regard.errors import RegardError

    title = getattr(module, "TITLE", None)
    if not isinstance(title, str):
        raise RegardError(f"benchmark {module.__file__}: it needs TITLE, one line that says what it compares")
    return title


def _runner(module: types.ModuleType) -> Callable[[object], dict[str, object]]:
    from regard.errors import RegardError

    run = getattr(module, "run", None)
    if not callable(run):
        raise RegardError(f"benchmark {module.__file__}: it needs a function run(console) that returns a dict")
    found: Callable[[object], dict[str, object]] = run
    return found
