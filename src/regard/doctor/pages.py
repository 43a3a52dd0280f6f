"""The page of each code, ``docs/findings/CODE.md``: the wheel carries that folder as ``regard/_findings``."""

from __future__ import annotations

from pathlib import Path

from regard.doctor.catalogue import entry

_PACKAGE = Path(__file__).resolve().parents[1]


def page(code: str) -> str:
    """What is written about ``code``, as Markdown; its title and fix where the pages were left out of the install.

    Raises:
        RegardError: there is no such code.

    >>> page("CAU001").splitlines()[0]
    '# CAU001: Later tokens reach earlier outputs'
    """
    known = entry(code)
    for folder in (_PACKAGE / "_findings", _PACKAGE.parents[1] / "docs" / "findings"):
        file = folder / f"{code}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return f"# {code}: {known.title}\n\n{known.fix}\n"
