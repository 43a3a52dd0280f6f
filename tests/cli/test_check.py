"""`regard check`, as typed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from regard.cli.main import app
from regard.doctor.finding import Finding, Passed
from regard.doctor.report import Report

#: A module as a person writes one: a decoder whose second layer forgets the triangle where it is told to.
MODELS = """
import torch
import torch.nn.functional as F
from torch import nn

class Layer(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal, self.qkv = causal, nn.Linear(12, 36)

    def forward(self, x, real):
        B, L, _ = x.shape
        q, k, v = (t.view(B, L, 3, 4).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        see = real[:, None, None] & torch.ones(L, L, dtype=torch.bool).tril(0 if self.causal else L)
        return x + F.scaled_dot_product_attention(q, k, v, attn_mask=see).transpose(1, 2).reshape(B, L, 12)

class Decoder(nn.Module):
    def __init__(self, *causal):
        super().__init__()
        self.embed, self.layers = nn.Embedding(50, 12), nn.ModuleList(map(Layer, causal))

    def forward(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x, attention_mask.bool())
        return x

class Broken(nn.Module):
    def forward(self, input_ids, attention_mask):
        raise RuntimeError("no such thing")

def batch():
    mask = (torch.arange(11) < torch.tensor([[11], [7]])).long()
    return {"input_ids": torch.randint(1, 50, (2, 11)) * mask, "attention_mask": mask}

def well():
    return Decoder(True, True), batch(), {"causal": True, "pad_id": 0}

def sick():
    return Decoder(True, False), batch(), {"causal": True, "pad_id": 0}

def broken():
    return Broken(), batch()

def falls():
    raise KeyError("size")
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "check_models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "check_models", raising=False)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments], env={"COLUMNS": "90", "NO_COLOR": "1"})


def stand_in(monkeypatch: pytest.MonkeyPatch, check: Callable[..., Report]) -> None:
    """`check` in place of the probes, so that the command alone is under test."""
    import regard.doctor.check as _  # noqa: F401

    monkeypatch.setattr(sys.modules["regard.doctor.check"], "check", check)


def sick_report(*_: Any, **__: Any) -> Report:
    found = Finding("CAU001", "token 9 moves the output at 4", "layers.1", f"{Path.cwd() / 'check_models.py'}:6")
    return Report.of("Decoder", [found, Passed("determinism", "two runs")], 0.5)


def test_a_sick_model_is_named_and_a_healthy_one_is_left_alone() -> None:
    sick = run("check_models:sick")
    assert (sick.exit_code, "error" in sick.stderr) == (1, False)  # kernels may say that they compile, once
    assert "error     CAU001  Later tokens reach earlier outputs" in sick.stdout
    assert "layers.1 (check_models.py:" in sick.stdout
    assert "regard check --explain CAU001" in sick.stdout
    well = run("check_models:well")
    assert (well.exit_code, "error" in well.stderr) == (0, False)
    assert not any(line.startswith(("error", "warning")) for line in well.stdout.splitlines())


def test_a_model_that_cannot_run_is_exit_2_and_nothing_passed() -> None:
    found = run("check_models:broken")
    assert found.exit_code == 2
    assert "no such thing" in " ".join(found.stdout.split())
    assert "nothing could be tested; 0 checks passed; 1 could not be tested" in " ".join(found.stdout.split())


def test_what_is_typed_reaches_the_check_and_comes_before_what_the_factory_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def check(model: Any, batch: Any, **options: Any) -> Report:
        seen.update(options)
        return Report.of("Decoder", [Passed("determinism", "two runs")])

    stand_in(monkeypatch, check)
    assert run("check_models:sick").exit_code == 0
    assert (seen["causal"], seen["pad_id"], "prefix" in seen) == (True, 0, False)
    asked = "--not-causal --prefix 3 --tokens ids --mask see --pad-id 7 --no-cache --sets"
    assert run("check_models:sick", *asked.split()).exit_code == 0
    del seen["progress"]
    assert seen == {
        "causal": False, "prefix": 3, "tokens": "ids", "mask": "see", "pad_id": 7, "cache": None, "sets": True,
    }  # fmt: skip


def test_json_page_and_sarif_say_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, sick_report)
    found = run("check_models:sick", "--json", "--html", "report.html", "--sarif", "report.sarif")
    assert (found.exit_code, found.stderr) == (1, "")
    report = json.loads(found.stdout)
    assert (report["model"], report["findings"][0]["code"]) == ("Decoder from check_models:sick", "CAU001")
    assert "CAU001" in (tmp_path / "report.html").read_text(encoding="utf-8")
    (result,) = json.loads((tmp_path / "report.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "check_models.py"


def test_an_accepted_code_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, sick_report)
    found = run("check_models:sick", "--allow", "CAU001", "--allow", "POS001")
    assert found.exit_code == 0
    assert "accepted (error): token 9" in found.stdout


def test_an_interrupt_leaves_the_file_of_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: Any, **__: Any) -> Report:
        raise KeyboardInterrupt

    (tmp_path / "report.html").write_text("old", encoding="utf-8")
    stand_in(monkeypatch, interrupted)
    assert run("check_models:sick", "--html", "report.html").exit_code == 130
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["MODEL", "package.module:factory"]),
        (["check_models:absent"], ["has no absent"]),
        (["no_such_module:make"], ["no module no_such_module"]),
        (["check_models:falls"], ["the factory raised KeyError: 'size'"]),
        (["nobody/has-this-model"], ["Hugging Face cache", "--download"]),
        (["./nowhere"], ["no such folder"]),
        (["check_models:well", "--html", "nowhere/report.html"], ["--html", "no folder nowhere"]),
        (["check_models:well", "--sarif", "."], ["--sarif", "is a folder"]),
        (["check_models:well", "--allow", "CAU01"], ["'CAU01'", "did you mean 'CAU001'"]),
        (["--explain", "CAU01"], ["did you mean 'CAU001'"]),
        (["check_models:well", "--batch", "0"], ["--batch"]),
    ],
)
def test_bad_input_is_one_line_on_standard_error(
    arguments: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("regard: error: ")
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    ("content", "words"), [(None, "No such file"), (b"\n \n", "is empty"), (b"caf\xe9", "not UTF-8 at byte 3")]
)
def test_a_text_that_cannot_be_read_is_said(tmp_path: Path, content: bytes | None, words: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        num_hidden_layers=1, num_attention_heads=1, hidden_size=4, intermediate_size=4, vocab_size=40
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    if content is not None:
        (tmp_path / "text").write_bytes(content)
    result = run("./bert", "--text", "text")
    assert result.exit_code == 2
    assert words in result.stderr
    assert "--text" in result.stderr


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    result = run("some/model")
    assert result.exit_code == 2
    assert 'pip install "regard[hf]"' in result.stderr


def test_a_code_is_explained() -> None:
    found = run("--explain", "cau001")
    assert found.exit_code == 0
    assert found.stdout.startswith("# CAU001: Later tokens reach earlier outputs")
