"""`regard inspect`, as typed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regard.cli.inspect import FIRST
from regard.cli.main import app


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["inspect", *arguments], input=stdin, env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_without_an_argument_it_shows_the_cat_and_says_that_the_model_saw_it() -> None:
    result = run()
    assert result.exit_code == 0
    assert FIRST in result.stdout
    assert "exactly 0" in result.stdout
    assert "weight is not explanation" in " ".join(result.stdout.split())
    assert "four times" in result.stdout


def test_the_nouns_of_the_first_look_are_where_a_person_would_put_them() -> None:
    found = json.loads(run("--json").stdout)
    links = {word["text"]: word["peak_word"] for word in found["words"]}
    assert links["chat"] == "cat"
    assert links.keys() & {"tapis", "paillasson", "natte"}
    assert all(links[word] == "mat" for word in links.keys() & {"tapis", "paillasson", "natte"})
    assert found["weight_on_padding"] == 0.0


def test_standard_input_gives_a_line_of_json_for_each_sentence() -> None:
    result = run("-", "--json", "--to", "zh", stdin=b"I lost it.\nCome here!\n")
    assert [json.loads(line)["sentence"] for line in result.stdout.splitlines()] == ["I lost it.", "Come here!"]


@pytest.mark.parametrize(
    ("stdin", "sentences"), [("I lost it.\nCome here!\n", ["I lost it.", "Come here!"]), ("", [FIRST])]
)
def test_a_pipe_is_read_when_no_sentence_is_given(
    stdin: str, sentences: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()  # a true one: whether it holds text is asked of the system
    os.write(writing, stdin.encode())
    os.close(writing)
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        with pytest.raises(SystemExit, match="0"):
            app(["inspect", "--json"])
    assert [json.loads(line)["sentence"] for line in capsys.readouterr().out.splitlines()] == sentences


def test_pictures_and_pages_are_written(tmp_path: Path) -> None:
    png, html = tmp_path / "look.png", tmp_path / "look.html"
    assert run("Come here!", "--png", str(png), "--html", str(html)).exit_code == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "Come here!" in html.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        ([""], None, ["sentence", "nothing"]),
        (["-"], b"one\n\nthree\n", ["line 2", "empty"]),
        (["-"], b"caf\xe9\n", ["not UTF-8", "byte 3"]),
        (["x", "--to", "de"], None, ["de", "fr", "zh"]),
        (["x", "--model", "nowhere"], None, ["nowhere"]),
        (["x", "--png", "look.jpg"], None, ["look.jpg", ".png"]),
        (["x", "--html", "nowhere/look.html"], None, ["nowhere"]),
        (["x", "--beam", "0"], None, ["beam", "0", "1"]),
    ],
)
def test_bad_input_is_one_line_on_standard_error(arguments: list[str], stdin: bytes | None, words: list[str]) -> None:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("regard: error: ")
    for word in words:
        assert word in result.stderr


def test_a_model_directory_that_lacks_a_file_is_named(tmp_path: Path) -> None:
    result = run("x", "--model", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"regard: error: model: {tmp_path} lacks config.json; ")
