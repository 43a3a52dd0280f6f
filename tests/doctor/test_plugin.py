"""The pytest plugin, in pytest runs of its own."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

#: A plugin that is installed is there already; from a source tree that is not, it's named.
INSTALLED = [each for each in metadata.entry_points(group="pytest11") if each.value == "regard.doctor.plugin"]
PLUGIN = [] if INSTALLED else ["-p", "regard.doctor.plugin"]

#: A stand-in for the probes: the batch is the list of what is observed, so that the plugin alone is under test.
CONFTEST = """
import regard
from regard.doctor import Finding, Passed, Report, Untested

def check(model, batch, **options):
    print("options", sorted(options.items()))
    return Report.of(model, [Passed("future", "cut at 3")] if batch is None else batch, 0.5)

regard.check = check
"""

CASES = """
import pytest
from regard.doctor import Finding, Untested

ERROR = Finding("CAU001", "token 9 moves the output at 4", "layers.3")
WARNING = Finding("SCL001", "scores spread by 8.1")
NOTE = Finding("POS001", "left padding moves 4 of 5")

def test_healthy(attention_check):
    assert attention_check("toy", None).clean

def test_note(attention_check):
    assert attention_check("toy", [NOTE]).findings == [NOTE]

def test_sick(attention_check):
    attention_check("toy", [ERROR])
    raise RuntimeError("never reached")

def test_warned(attention_check):
    attention_check("toy", [WARNING])

def test_allowed(attention_check):
    attention_check("toy", [WARNING], allow=["SCL001"])

def test_allows_another(attention_check):
    attention_check("toy", [WARNING], allow=["CAU001"])

def test_misspelt(attention_check):
    attention_check("toy", None, allow=["CAU01"])

def test_nothing_ran(attention_check):
    attention_check("toy", [Untested("future", "the model cannot run on the batch")])

@pytest.mark.attention(allow=["SCL001"], causal=True, prefix=2)
class TestMarked:
    def test_class(self, attention_check):
        attention_check("toy", [WARNING], causal=False)

    @pytest.mark.attention(allow=["CAU001"], prefix=3)
    def test_both(self, attention_check):
        attention_check("toy", [WARNING, ERROR], sets=True)

def test_has_nothing_to_do_with_it():
    pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    source = Path(__file__).resolve().parents[2] / "src"
    monkeypatch.setenv("PYTHONPATH", str(source))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_cases=CASES)
    return pytester


def outcomes(run: pytest.Pytester, *arguments: str) -> tuple[dict[str, str], str]:
    """What became of each test, and all that was printed."""
    done = run.runpytest_subprocess(*PLUGIN, "-rA", "--strict-markers", *arguments)
    text = done.stdout.str()
    words = [line.split() for line in text.splitlines() if line.startswith(("PASSED ", "FAILED ", "ERROR "))]
    return {each[1].rpartition("::")[2]: each[0] for each in words}, text


def test_errors_and_warnings_fail_with_the_report_and_accepted_codes_do_not(run: pytest.Pytester) -> None:
    found, text = outcomes(run)
    assert found == {
        "test_healthy": "PASSED",
        "test_note": "PASSED",
        "test_sick": "FAILED",
        "test_warned": "FAILED",
        "test_allowed": "PASSED",
        "test_allows_another": "FAILED",
        "test_misspelt": "FAILED",
        "test_nothing_ran": "FAILED",
        "test_class": "PASSED",
        "test_both": "PASSED",
        "test_has_nothing_to_do_with_it": "PASSED",
    }
    assert "error     CAU001  Later tokens reach earlier outputs" in text
    assert "fix: Apply the causal mask" in text
    assert "never reached" not in text
    assert "untested  future: the model cannot run on the batch" in text
    assert "did you mean 'CAU001'" in text
    assert "::test_sick - Failed: 1 error; 0 checks passed" in text
    assert "plugin.py" not in text.replace("-p regard.doctor.plugin", "").partition("test_misspelt")[0]  # no traceback


def test_the_markers_options_reach_the_check_and_the_calls_come_first(run: pytest.Pytester) -> None:
    _, text = outcomes(run, "-k", "TestMarked", "-s")
    assert "options [('causal', False), ('prefix', 2)]" in text
    assert "options [('causal', True), ('prefix', 3), ('sets', True)]" in text


def test_the_marker_chooses_every_test_that_checks_attention(run: pytest.Pytester) -> None:
    found, _ = outcomes(run, "-m", "not attention")
    assert found == {"test_has_nothing_to_do_with_it": "PASSED"}
    done = run.runpytest_subprocess(*PLUGIN, "--markers")
    assert "@pytest.mark.attention(allow=[...], **options)" in done.stdout.str()


def test_reports_are_written_in_each_format_asked_for(run: pytest.Pytester) -> None:
    files = ["all.json", "all.html", "all.sarif"]
    _, text = outcomes(run, *(f"--regard-report={name}" for name in files))
    assert all(f"regard: wrote 9 reports to {name}" in text for name in files)
    reports = json.loads((run.path / "all.json").read_text())["reports"]
    assert reports[2]["model"] == "toy in test_cases.py::test_sick"
    assert reports[2]["findings"][0]["code"] == "CAU001"
    assert (run.path / "all.html").read_text().count("<section") == 9
    results = json.loads((run.path / "all.sarif").read_text())["runs"][0]["results"]
    place = results[1]["locations"][0]["physicalLocation"]
    assert (results[1]["ruleId"], place["artifactLocation"]["uri"]) == ("CAU001", "test_cases.py")
    line = (run.path / "test_cases.py").read_text().splitlines()[place["region"]["startLine"] - 1]
    assert line == "def test_sick(attention_check):"


@pytest.mark.parametrize(
    ("name", "words"), [("report.txt", ".html, .json, .sarif"), ("nowhere/report.json", "found no folder nowhere")]
)
def test_a_report_that_cannot_be_written_is_said_before_anything_runs(
    run: pytest.Pytester, name: str, words: str
) -> None:
    done = run.runpytest_subprocess(*PLUGIN, f"--regard-report={name}")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert words in done.stderr.str()


def test_a_full_disk_fails_the_run(run: pytest.Pytester) -> None:
    run.makeconftest(
        CONFTEST + "\nimport os\ndef full(*_): raise OSError(28, 'No space left on device')\n"
        "def pytest_unconfigure():\n    pass\nos.fsync = full\n"
    )
    done = run.runpytest_subprocess(*PLUGIN, "--regard-report=all.json", "-k", "test_healthy")
    assert done.ret == pytest.ExitCode.INTERNAL_ERROR
    assert "regard: error: --regard-report: cannot write all.json: No space left on device" in done.stdout.str()
    assert not list(run.path.glob("*all.json*"))


LOOK = """
import sys

def pytest_unconfigure():
    print("loaded:", [name for name in ("torch", "numpy", "rich", "transformers") if name in sys.modules])
"""


@pytest.mark.parametrize("arguments", [["--version"], ["--collect-only"], ["-q"]])
def test_nothing_heavy_is_imported_until_a_test_asks(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).resolve().parents[2] / 'src'}:{pytester.path}")
    pytester.makepyfile(look=LOOK, test_other="def test_it(): pass\ndef test_checked(attention_check): pass\n")
    done = pytester.runpytest_subprocess(*PLUGIN, "-p", "look", *arguments, "-k", "test_it")
    assert done.ret == 0
    if arguments != ["--version"]:  # which stops before there is anything to look at
        done.stdout.fnmatch_lines(["*loaded: []*"])
    script = (
        "import sys, pytest\n"
        f"pytest.main({[*PLUGIN, *arguments]!r})\n"
        "print('loaded:', [name for name in ('torch', 'numpy', 'rich', 'transformers') if name in sys.modules])\n"
    )
    done = pytester.run(sys.executable, "-c", script)
    done.stdout.fnmatch_lines(["*loaded: []*"])


def test_reports_come_back_from_the_workers_of_xdist() -> None:
    from types import SimpleNamespace

    from regard.doctor import plugin

    config = SimpleNamespace(stash={plugin._reports: [{"model": "first"}]})
    plugin.pytest_testnodedown(SimpleNamespace(config=config, workeroutput={"regard_reports": [{"model": "second"}]}))
    plugin.pytest_testnodedown(SimpleNamespace(config=config))  # one that died
    assert config.stash[plugin._reports] == [{"model": "first"}, {"model": "second"}]
