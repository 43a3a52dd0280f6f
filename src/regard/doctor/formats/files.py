"""Reports as the bytes of a file: JSON, a page, or SARIF."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.files import replace

if TYPE_CHECKING:
    from regard.doctor.report import Report

ENDINGS = (".html", ".json", ".sarif")


def check_place(path: Path, argument: str) -> None:
    """Raises before anything slow begins where ``path`` has no folder to stand in."""
    if not path.absolute().parent.is_dir():
        raise RegardError(f"{argument}: found no folder {path.parent} to write {path.name} in; make it first")
    if path.is_dir():
        raise RegardError(f"{argument}: {path} is a folder, wanted the name of a file to write")


def write(reports: Sequence[Report], path: Path, kind: str, argument: str) -> None:
    """Writes ``reports`` to ``path``, whole or not at all; ``kind`` is one of `ENDINGS`."""
    replace(path, encoded(reports, kind).encode(errors="replace"), argument)


def encoded(reports: Sequence[Report], kind: str) -> str:
    """``reports`` as the text of a file of that kind."""
    if kind == ".html":
        from regard.doctor.formats.page import document as page

        return page(reports)
    if kind == ".sarif":
        from regard.doctor.formats.sarif import document as sarif

        return json.dumps(sarif(reports), indent=2) + "\n"
    return json.dumps({"reports": [report.to_dict() for report in reports]}, indent=2) + "\n"
