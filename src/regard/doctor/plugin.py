"""The pytest plugin: the fixture ``attention_check`` and the marker ``attention``.

pytest loads this in every run on a machine where regard is installed, so nothing but pytest is imported until a test
asks for the fixture::

    def test_the_decoder_reads_no_future(attention_check):
        attention_check(Decoder(), batch, causal=True, allow=["POS001"])
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regard.doctor.report import Report

_OPTION = "--regard-report"
_KINDS = (".html", ".json", ".sarif")

_reports = pytest.StashKey["list[dict[str, Any]]"]()
_said = pytest.StashKey["list[str]"]()


class AttentionCheck(Protocol):
    """What the fixture is: called with a model and a batch, it gives the report or fails the test."""

    def __call__(self, model: Any, batch: Any, *, allow: Iterable[str] = (), **options: Any) -> Report: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("regard", "attention, checked by regard")
    group.addoption(
        _OPTION,
        action="append",
        default=[],
        metavar="FILE",
        help="write the reports of all attention checks to FILE (.html, .json or .sarif); may be given again",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "attention(allow=[...], **options): codes that attention_check accepts in this test, and options of "
        "regard.check; every test that uses attention_check has the marker, so that -m attention chooses them",
    )
    config.stash[_reports], config.stash[_said] = [], []
    for name in config.getoption(_OPTION):
        file = Path(name)
        if file.suffix not in _KINDS:
            raise pytest.UsageError(f"{_OPTION}: found {name}, wanted a name that ends in {', '.join(_KINDS)}")
        if not file.absolute().parent.is_dir():
            raise pytest.UsageError(f"{_OPTION}: found no folder {file.parent} to write {file.name} in; make it first")


def pytest_itemcollected(item: pytest.Item) -> None:
    if "attention_check" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("attention"):
        item.add_marker("attention")


@pytest.fixture
def attention_check(request: pytest.FixtureRequest) -> AttentionCheck:
    """Checks a model's attention and fails the test, with the report, where there is an error or a warning.

    Called as ``attention_check(model, batch, causal=True, ...)`` with what ``regard.check`` takes, and ``allow``: codes
    of findings that this test accepts. It gives the report. Options that hold for a whole test, class or module stand
    in the marker: ``@pytest.mark.attention(allow=["POS001"], causal=True)``; the call's own come first.
    """
    marks = list(request.node.iter_markers("attention"))  # the closest first
    allowed = {code for mark in marks for code in mark.kwargs.get("allow", ())}
    marked = {name: value for mark in reversed(marks) for name, value in mark.kwargs.items() if name != "allow"}
    kept, at, of = request.config.stash[_reports], request.node.location, request.node.nodeid

    def check(model: Any, batch: Any, *, allow: Iterable[str] = (), **options: Any) -> Report:
        __tracebackhide__ = True
        import regard
        from regard.doctor.catalogue import entry
        from regard.doctor.formats.words import summary

        accepted = sorted({*allowed, *allow})
        for code in accepted:
            entry(code)  # a misspelt one is said before the probes run
        report: Report = regard.check(model, batch, **{**marked, **options}).accepting(accepted)
        source = report.source or f"{request.path}:{(at[1] or 0) + 1}"
        kept.append(replace(report, model=f"{report.model} in {of}", source=source).to_dict())
        if report.exit_status:
            pytest.fail(f"{summary(report)}\n\n{report}", pytrace=False)
        return report

    return check


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    found = config.stash[_reports]
    sent = getattr(config, "workeroutput", None)
    if sent is not None:  # a worker of pytest-xdist: the run that started it writes
        sent["regard_reports"] = found
        return
    for name in config.getoption(_OPTION):
        line, written = _write(found, Path(name))
        config.stash[_said].append(line)
        if not written:
            session.exitstatus = session.exitstatus or pytest.ExitCode.INTERNAL_ERROR


def _write(found: list[dict[str, Any]], path: Path) -> tuple[str, bool]:
    """A line about the file, and whether it was written."""
    from regard.doctor.formats.files import write
    from regard.doctor.report import Report
    from regard.errors import RegardError

    try:
        write([Report.from_dict(each) for each in found], path, path.suffix, _OPTION)
    except RegardError as error:
        return f"regard: error: {error}", False
    return f"regard: wrote {len(found)} report{'' if len(found) == 1 else 's'} to {path}", True


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist is done."""
    node.config.stash[_reports].extend(getattr(node, "workeroutput", {}).get("regard_reports", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[_said]:
        terminalreporter.write_line(line)
