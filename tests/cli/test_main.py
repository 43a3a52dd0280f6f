"""The application as a person meets it: help, versions, and errors in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from regard import __version__
from regard.cli import main
from regard.errors import RegardError

COMMANDS = ["check", "inspect", "intuition", "translate", "train", "align", "bench"]
HEAVY = ["matplotlib", "numba", "numpy", "sacrebleu", "sentencepiece", "torch", "transformers", "triton"]


def regard(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in an interpreter of its own."""
    return subprocess.run([sys.executable, "-m", "regard.cli", *args], capture_output=True, text=True, timeout=60)


def app_that(raises: BaseException) -> typer.Typer:
    """An application like ours whose one command, `fall NAME`, fails as told."""
    app = typer.Typer(cls=main.Application)

    @app.callback()
    def group(debug: bool = False) -> None: ...

    @app.command()
    def fall(name: str = "") -> None:
        raise raises

    return app


def test_help_lists_every_command() -> None:
    done = regard("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name in COMMANDS if name not in done.stdout] == []


def test_without_a_command_it_prints_help() -> None:
    assert regard().stdout == regard("--help").stdout


def test_every_command_has_help() -> None:
    for name in COMMANDS:
        done = CliRunner().invoke(main.app, [name, "--help"])
        assert done.exit_code == 0, done.output
        assert f"regard {name}" in done.output


def test_the_help_of_align_fits_a_narrow_window_and_names_every_model() -> None:
    from regard.align.recipe import RECIPES
    from regard.align.symmetrize import METHODS

    done = CliRunner().invoke(main.app, ["align", "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    about, _, options = done.output.partition("Examples:")
    assert re.search(r"align \[OPTIONS\] {?SRC}? \[TGT\]", about)
    assert [line for line in about.splitlines() if 0 < len(line.strip()) < 10] == []  # no word on a line of its own
    words = "".join(options.replace("│", "").split())
    assert [
        name for name in (*RECIPES, *METHODS) if name not in words.replace("ibm1toibm5", "ibm1ibm2ibm3ibm4ibm5")
    ] == []


def test_version_is_one_everywhere() -> None:
    assert regard("--version").stdout == f"regard {__version__}\n"
    assert metadata.version("regard") == __version__


@pytest.mark.parametrize("args", [["--help"], ["inspect", "--help"], ["inpsect"]], ids=" ".join)
def test_help_and_usage_errors_load_nothing_heavy(args: list[str]) -> None:
    """Nothing that `import regard` does not load by itself."""
    script = f"""
import json, sys
import regard
before = set(sys.modules)
from regard.cli.main import app
try:
    app({args!r})
except SystemExit:
    print(json.dumps(sorted(set({HEAVY!r}) & (set(sys.modules) - before))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_an_unknown_command_suggests_the_nearest() -> None:
    done = regard("inspcet")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("regard: error: No such command 'inspcet'. Did you mean 'inspect'?")
    assert done.stderr.count("\n") == 1


def test_an_unknown_option_suggests_the_nearest() -> None:
    done = regard("bench", "--lst")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("regard: error: No such option: --lst")
    assert "--list" in done.stderr
    assert "regard bench --help" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_mistake_is_one_line_and_exit_2() -> None:
    done = CliRunner().invoke(app_that(RegardError("q has D = 5,\nwanted D = 7")), ["fall"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "regard: error: q has D = 5, wanted D = 7\n"


@pytest.mark.parametrize("args", [["--debug", "fall"], ["fall", "--debug"]], ids=" ".join)
def test_debug_shows_the_traceback_wherever_it_stands(args: list[str]) -> None:
    done = CliRunner().invoke(app_that(RegardError("no")), args)
    assert done.exit_code == 2
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.endswith("regard: error: no\n")


def test_debug_after_a_double_dash_is_an_argument() -> None:
    app = typer.Typer(cls=main.Application)

    @app.callback()
    def group() -> None: ...

    @app.command()
    def say(word: str) -> None:
        print(word)

    assert CliRunner().invoke(app, ["say", "--", "--debug"]).stdout == "--debug\n"


@pytest.mark.parametrize(
    ("attempt", "line"),
    [
        (lambda folder: (folder / "none").read_text(), "none: No such file or directory"),
        (lambda folder: folder.read_text(), "Is a directory"),
        (lambda folder: folder.joinpath("f").mkdir() or folder.joinpath("f").mkdir(), "f: File exists"),
    ],
    ids=["missing", "directory", "exists"],
)
def test_trouble_with_files_names_the_file(attempt: Callable[[Path], object], line: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"\[Errno") as caught:
        attempt(tmp_path)
    done = CliRunner().invoke(app_that(caught.value), ["fall"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"regard: error: {tmp_path}")
    assert done.stderr.endswith(f"{line}\n")


def test_a_fault_of_ours_says_so_and_exits_1() -> None:
    done = CliRunner().invoke(app_that(KeyError("q")), ["fall"])
    assert done.exit_code == 1
    assert done.stderr == "regard: error: KeyError: 'q' (a fault in regard; --debug shows where)\n"


def test_an_interrupt_is_quiet_and_exits_130() -> None:
    done = CliRunner().invoke(app_that(KeyboardInterrupt()), ["fall"])
    assert (done.exit_code, done.stderr) == (130, "")


def test_a_reader_that_stops_reading_is_no_error() -> None:
    for many in (False, True):
        write = f"for _ in range({10**5 if many else 1}): print('x' * 80)"
        script = f"""
import typer
from regard import __version__
from regard.cli import main
app = typer.Typer(cls=main.Application)
@app.callback()
def group() -> None: ...
@app.command()
def say() -> None:
    {write}
app(["say"])
"""
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        process.stderr.close()
        assert process.wait(timeout=60) == 1


def test_without_the_extra_it_says_how_to_get_it() -> None:
    script = "import sys; sys.modules['typer'] = None; from regard.cli import run; run()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == ('regard: error: the command line needs its extra: pip install "regard[cli]"\n')
