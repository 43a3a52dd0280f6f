"""The documentation runs: every Python block, the output shown after it, the `regard` commands it names."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

ROOT = Path(__file__).resolve().parents[1]
READMES = [ROOT / "README.md", ROOT / "README.zh.md"]
PAGES = [page for page in [*READMES, *sorted((ROOT / "docs").rglob("*.md"))] if page.is_file()]
OPENING = re.compile(r"^(?P<indent> {0,3})(?P<fence>`{3,}|~{3,})[ ]*(?P<label>.*?)[ ]*$")
SHELLS = {"bash", "console", "sh"}
TEST_COMMAND = 'pip install -e ".[test]" && pytest -n auto --dist worksteal'
FIRST_COMMAND = 'pip install ".[cli]" && regard inspect'


@dataclass(frozen=True)
class Block:
    """A fenced block: its label, text and first line, and whether it directly follows another one."""

    label: str
    text: str
    line: int
    follows: bool


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in order."""
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    follows = False
    for _, line in lines:
        opening = OPENING.match(line)
        if opening is None:
            follows = follows and not line.strip()
            continue
        inside: list[str] = []
        start = 0
        for number, inner in lines:
            start = start or number
            if inner.strip() == opening["fence"]:
                break
            inside.append(inner.removeprefix(opening["indent"]))
        else:
            raise AssertionError(f"a fence {opening['fence']} is never closed")
        found.append(Block(opening["label"], "\n".join(inside) + "\n", start, follows))
        follows = True
    return found


def run_page(page: Path) -> None:
    """Run a page's Python blocks in one namespace; a `text` block right after one is what it must print."""
    names: dict[str, Any] = {"__name__": "__docs__"}
    printed: str | None = None
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.label == "text" and block.follows and printed is not None:
            assert tidy(printed) == tidy(block.text), f"{page.name}:{block.line}: printed something else"
        printed = run_block(page, block, names) if block.label == "python" else None


def run_block(page: Path, block: Block, names: dict[str, Any]) -> str:
    """Run one block and return what it printed. A session (`>>>`) is checked against itself."""
    output = io.StringIO()
    if block.text.startswith(">>>"):
        example = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line - 1)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        results = runner.run(example, out=output.write, clear_globs=False)
        names.update(example.globs)
        assert results.failed == 0, output.getvalue()
        return ""
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")  # so a traceback names the page's line
    with contextlib.redirect_stdout(output):
        exec(code, names)
    return output.getvalue()


def tidy(text: str) -> list[str]:
    """Lines without what nobody sees: white space at their ends, empty lines at the text's ends."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each `regard …` command in a shell block; in a `console` one only after `$`."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.label == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word and set(word) <= set(";&|()"):
                if words and words[0] == "regard":
                    yield words[1:]
                words = []
            else:
                words.append(word)


def complaint(words: list[str]) -> str | None:
    """What is wrong with these arguments of `regard`, by its registered commands and their options."""
    from regard.cli.main import app

    group: Any = typer.main.get_command(app)
    command, known = group, options(group)
    for word in words:
        if word == "--":
            return None
        if word.startswith("-") and word != "-":
            if word.split("=")[0] not in known:
                return f"regard {command.name} has no option {word}"
        elif command is group:
            if word not in group.commands:
                return f"there is no command regard {word}"
            command = group.commands[word]
            known = options(command) | {"--debug"}
    return None


def options(command: Any) -> set[str]:
    """The option names a command takes."""
    names = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return {name for name in names if name.startswith("-")} | {"--help"}


def test_the_readmes_are_there() -> None:
    assert [page.name for page in READMES if not page.is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_says_what_it_is_and_no_python_is_left_out(page: Path) -> None:
    found = blocks(page.read_text(encoding="utf-8"))
    assert [f"{page.name}:{each.line}" for each in found if not each.label] == []
    python_like = [each for each in found if each.label.lower().startswith(("py", "{py"))]
    assert [f"{page.name}:{each.line}: {each.label}" for each in python_like if each.label != "python"] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_exist_with_the_options_shown(page: Path) -> None:
    shells = [each for each in blocks(page.read_text(encoding="utf-8")) if each.label in SHELLS]
    found = [(each.line, complaint(words)) for each in shells for words in commands(each)]
    assert [f"{page.name}:{line}: {wrong}" for line, wrong in found if wrong] == []


def test_ci_runs_the_commands_that_the_readmes_give() -> None:
    for page in READMES:
        text = page.read_text(encoding="utf-8")
        assert FIRST_COMMAND in text, page.name
        assert TEST_COMMAND in text, page.name
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for part in [
        '\ninstall ".[cli]"\n',
        "regard inspect",
        '\ninstall -e ".[test]"\n',
        "\npytest -n auto --dist worksteal\n",
    ]:
        assert part in script, part


def test_a_block_that_prints_something_else_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 2\nprint(x)\n```\n\n```text\n2\n```\n\n```python\nprint(x + 1)\n```\n", "utf-8")
    run_page(page)
    page.write_text("```python\nprint(2)\n```\n\n```text\n3\n```\n", "utf-8")
    with pytest.raises(AssertionError, match=r"page\.md:6"):
        run_page(page)
    page.write_text("```python\n>>> 1 + 1\n3\n```\n", "utf-8")
    with pytest.raises(AssertionError, match="Expected"):
        run_page(page)


def test_wrong_commands_are_caught() -> None:
    block = Block("console", "$ cat f | regard tranlate --to fr > g\n$ regard bench --lst # all\nregard x\n", 1, False)
    assert [complaint(words) for words in commands(block)] == [
        "there is no command regard tranlate",
        "regard bench has no option --lst",
    ]
    assert complaint(["--debug", "bench", "--list"]) is None
    assert complaint(["bench", "--list", "--debug"]) is None
