"""`regard bench`: the project's benchmarks, side by side with the peers, as one table.

A benchmark is one Python file in `benchmarks/` (a folder of the repository, not of the installed package).
Its file name is its name on the command line. It holds two things:

    TITLE = "one line: what is compared with what"

    def rows(setting: Setting) -> Iterator[Row | Point | Spot | Line | Drawing]: ...

`rows` measures, and yields each line of the table when it has it, so that an interrupted run shows what it has.
Slow imports go inside functions, so that `--list` stays quick. `benchmarks/harness/` is what they share:
`race` times ours and the peers in turn, `memory_row` weighs a call in a process of its own, and a peer that is
missing or fails becomes a row that says so:

    def rows(setting):
        found = race(setting, [Contender("regard", ours), Contender("eager", eager)])
        yield found.row("eager", "what was done", goal=at_least(25))

Some also train (`regard.cli.learning`): `learn(**options)` is given the options that were, checks them, and returns a
function of the setting and of `say`, which is told how far the training is; `tasks()` says what can be learnt.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.learning import LEARNING, asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from benchmarks.harness.report import Report
    from benchmarks.harness.row import Drawing, Line, Point, Row, Spot
    from benchmarks.harness.setting import Setting

    Say = Callable[[str], None]
    Rows = Callable[[Setting, Say], Iterator[Row | Point | Spot | Line | Drawing]]

__all__ = ["bench"]

DEVICES, DTYPES = ("cpu", "cuda"), ("float32", "bfloat16", "float16")
ENDINGS = (".svg", ".png", ".pdf")
TRAINING = "Benchmarks that train"


def bench(
    name: Annotated[str | None, typer.Argument(help="The benchmark to run; all when left out.")] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Name the benchmarks, or the tasks of one that trains, and stop.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small shapes, to see that it runs; judges no goal.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    engine: Annotated[
        str | None, typer.Option(help="regard's engine; tiled on cpu and auto on cuda when left out.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each call is timed, in turn with the others.")] = 7,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw what was found against length, or as it looks (.svg, .png or .pdf)."),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output, the report on standard error.")
    ] = False,
    task: Annotated[
        str | None,
        typer.Option(
            help="memory, transduction: train models on this task; --list names them. transduction takes several.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="memory --task: the models, with commas; all when left out.", rich_help_panel=TRAINING
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="memory, transduction --task: at most so many updates.", rich_help_panel=TRAINING),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="translate, joeynmt: train translators on these texts, with commas.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="translate, joeynmt --corpus, transduction --task: the models, with commas; all when left out.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="translate, joeynmt --corpus: passes over the text. [default: 20]", rich_help_panel=TRAINING),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="One training each. [default: 0,1,2, of translate and joeynmt 1]",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Logs, to go on from too. [default: runs/memory, runs/transduction or runs/translate]",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    from_: Annotated[Path, typer.Option("--from", metavar="DIR", help="The folder that holds the benchmarks.")] = Path(
        "benchmarks"
    ),
) -> None:
    r"""Time and weigh regard beside its peers: ratios with their spread, and whether each goal is met.

    All are called in turn in one process, aligners in processes of their own. The peers come with pip install
    "regard\[bench]"; one that is missing or fails says so in the table. Ctrl-C prints what was measured so far.

    Examples:

      regard bench

      regard bench window

      regard bench length --plot length.svg

      regard bench --json > found.json

      regard bench --device cuda --dtype bfloat16

      regard bench --quick

      regard bench memory --task copy --memory lstm --seeds 0

      regard bench transduction --task reorder --seeds 0

      regard bench translate --corpus multi30k-en-fr --model cho,bahdanau --plot lengths.svg
    """
    from rich.console import Console

    console = Console(stderr=json_, highlight=False)
    if not console.is_terminal:
        console.width = 160  # nobody's window: a table that is not folded
    options = {"task": task, "memory": memory, "corpus": corpus, "model": model}
    learning = asked(name, device, {**options, "seeds": seeds, "steps": steps, "epochs": epochs, "logs": logs})
    modules = {each: _load(from_, each) for each in _choose(_find(from_), name)}
    if list_:
        listed = {each: _title(module) for each, module in modules.items()}
        if name in LEARNING:
            what = f"{name} --{LEARNING[name].what}"
            listed |= {f"{what} {each}": says for each, says in modules[name].tasks().items()}
        if json_:
            print(json.dumps(listed, ensure_ascii=False))
            return
        width = max(map(len, listed))
        for each, title in listed.items():
            console.print(f"{each:<{width}}  {title}", markup=False, soft_wrap=True)
        return
    _check(device, dtype, engine, plot)
    for module in modules.values():
        _title(module)
    runs = {each: _rows(module) for each, module in modules.items()}
    if name is not None and learning:
        runs = {name: modules[name].learn(**learning)}
    report = _report(device, dtype, engine, rounds, quick)
    try:
        _run(runs, report, Console(stderr=True))
    except KeyboardInterrupt:
        report.interrupted = True
    console.print(report)
    if json_:
        print(json.dumps(report.to_dict(), ensure_ascii=False, indent=2))
    if plot is not None:
        _draw(report, plot)
    if report.interrupted:
        raise KeyboardInterrupt


def _run(runs: dict[str, Rows], report: Report, progress: Console) -> None:
    """Measure into `report`, telling a terminal what is under way; a file gets the lines of what has any to say."""
    from benchmarks.harness.row import Row
    from benchmarks.harness.timing import reason

    def line(text: str) -> None:
        progress.print(text, markup=False, highlight=False, soft_wrap=True)

    with progress.status("") as status:
        say = status.update if progress.is_terminal else line
        for name, rows in runs.items():
            status.update(f"{name} …")
            try:
                for found in rows(report.setting, say):
                    report.add(found, name)
                    status.update(f"{name}: {len(report.rows)} rows so far …")
            except Exception as error:
                report.add(Row(name, "", "", problem=reason(name, error)), name)


def _report(device: str, dtype: str, engine: str | None, rounds: int, quick: bool) -> Report:
    """An empty report on this machine."""
    from benchmarks.harness.machine import Machine
    from benchmarks.harness.report import Report
    from benchmarks.harness.setting import Setting

    engine = engine or ("tiled" if device == "cpu" else "auto")
    setting = Setting(device, dtype, engine, rounds=rounds, quick=quick)
    return Report(Machine.measured(setting), setting)


def _draw(report: Report, path: Path) -> None:
    from benchmarks.harness.panels import draw_panels
    from benchmarks.harness.plot import draw

    if report.points:
        draw(report.points, path)
        print(f"wrote {path}", file=sys.stderr)
    if report.spots:
        beside = path.with_stem(f"{path.stem}-memory") if report.points else path
        draw_panels(report.spots, beside)
        print(f"wrote {beside}", file=sys.stderr)
    for number, drawing in enumerate(report.drawings, start=1):
        alone = len(report.drawings) == 1 and not report.points and not report.spots
        beside = path if alone else path.with_stem(f"{path.stem}-drawing-{number}")
        drawing.draw(beside)
        print(f"wrote {beside}", file=sys.stderr)
    if not report.points and not report.spots and not report.drawings:
        which = "length, entmax, align_length, memory, handwriting and transduction do"
        print(f"{path} is not written: nothing was measured against length ({which})", file=sys.stderr)


def _check(device: str, dtype: str, engine: str | None, plot: Path | None) -> None:
    """Raises where an option names what is not there, before anything slow begins."""
    from regard.errors import RegardError, unknown_name

    for kind, found, known in (("device", device, DEVICES), ("dtype", dtype, DTYPES)):
        if found not in known:
            raise unknown_name(kind, found, known)
    if engine is not None:
        from regard.engines import ENGINES

        engines = ["auto", *(each.name for each in ENGINES)]
        if engine not in engines:
            raise unknown_name("engine", engine, engines)
    if plot is not None and plot.suffix not in ENDINGS:
        raise RegardError(f"--plot: found {str(plot)!r}, wanted a file that ends in {', '.join(ENDINGS)}")
    if plot is not None and not plot.resolve().parent.is_dir():
        raise RegardError(f"--plot: there is no folder {str(plot.resolve().parent)!r}; make it first")
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise RegardError("--device cuda: PyTorch sees no CUDA device here; run it without --device, on the CPU")


def _find(folder: Path) -> list[str]:
    """The benchmarks' names in `folder`, sorted."""
    from regard.errors import RegardError

    if not folder.is_dir():
        raise RegardError(
            f"no benchmarks in {str(folder.resolve())!r}: they lie in the repository's folder 'benchmarks', "
            "not in the installed package; run this from a checkout, or name the folder with --from DIR"
        )
    names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
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


def _rows(module: types.ModuleType) -> Rows:
    from regard.errors import RegardError

    rows: Any = getattr(module, "rows", None)
    if not callable(rows):
        raise RegardError(f"benchmark {module.__file__}: it needs a function rows(setting) that yields rows")
    found: Callable[[Setting], Iterator[Row | Point | Spot | Line | Drawing]] = rows
    return lambda setting, say: found(setting)
