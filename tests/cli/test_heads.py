"""`regard inspect MODEL --text FILE`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regard.cli.main import app

MODEL = """
import torch
import torch.nn.functional as F
from torch import nn

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(256, 12), nn.Linear(12, 36)

    def forward(self, tokens):
        q, k, v = (x.unflatten(-1, (3, 4)).transpose(1, 2) for x in self.qkv(self.embed(tokens)).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

def own():
    return Tiny(), (torch.arange(9)[None],)

def make(text):
    raw = list(text.read_bytes())
    return {"model": Tiny(), "batch": (torch.tensor([raw]),), "strings": [[chr(b) for b in raw]]}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny_reader.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "text").write_text("the cat sat on the mat", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["inspect", *arguments], env={"COLUMNS": "100", "NO_COLOR": "1"})


def test_it_prints_the_heads_worst_first_and_a_bar_for_each(here: Path) -> None:
    result = run("tiny_reader:make", "--text", "text")
    assert result.exit_code == 0, result.stderr
    assert "tiny_reader:make, 22 tokens" in result.stdout
    assert "3 heads of 1 module, worst first" in result.stdout
    assert "▁ one key to █ everywhere alike" in result.stdout
    assert "not measured" not in result.stdout


def test_json_holds_every_head(here: Path) -> None:
    found = json.loads(run("tiny_reader:make", "--text", "text", "--json").stdout)
    assert found["tokens"] == 22
    assert [head["head"] for head in found["heads"]] == [0, 1, 2]
    assert found["untested"] == []


def test_a_factory_with_a_batch_of_its_own_needs_no_text(here: Path) -> None:
    result = run("tiny_reader:own")
    assert result.exit_code == 0, result.stderr
    assert "tiny_reader:own, 9 tokens" in result.stdout


def test_the_page_is_written_whole(here: Path) -> None:
    result = run("tiny_reader:make", "--text", "text", "--html", "heads.html", "--cells", "7")
    assert result.exit_code == 0, result.stderr
    page = (here / "heads.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert '"height":4' in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a cat", "--serve"], "--serve: is for the heads of a model, wanted --text FILE beside it"),
        (["a cat", "--max-length", "5"], "--max-length: is for the heads of a model"),
        (["tiny_reader:make", "--text", "text", "--to", "fr"], "--to: is for translating a sentence"),
        (["tiny_reader:make", "--text", "text", "--png", "x.png"], "--png: is for translating a sentence"),
        (["--text", "text"], "--text: found no model"),
        (["tiny_reader:make", "--text", "absent"], "absent"),
        (["tiny_reader:make", "--text", "text", "--html", "no/such/x.html"], "found no folder"),
        (["tiny_reader:own", "--text", "text"], "gives a batch of its own and takes no text; leave --text out"),
        (
            ["tiny_reader:own", "--to", "fr"],
            "a sentence, and tiny_reader:own looks at a model",
        ),
        (["tiny_reader:absent", "--text", "text"], "has no absent"),
        (["model"], "found a model; to look at its heads give it a text"),
    ],
)
def test_what_cannot_be_done_is_one_line(here: Path, arguments: list[str], says: str) -> None:
    (here / "model").mkdir()
    (here / "model" / "config.json").write_text("{}", encoding="utf-8")
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())
    assert result.stderr.count("\n") == 1
