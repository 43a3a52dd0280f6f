"""A model by the name a person types."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from regard.bridge.load import load
from regard.errors import RegardError

WORDS = ["<pad>", "<unk>", "a", "cat", "sat", "on", "the", "mat", "."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny causal model of random weights, with a vocabulary of words, saved as Hugging Face saves them."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    where = tmp_path_factory.mktemp("tiny")
    tokens = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[attr-defined,unused-ignore]
    kind: Any = transformers.PreTrainedTokenizerFast
    kind(tokenizer_object=tokens, unk_token="<unk>", pad_token="<pad>").save_pretrained(where)
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=len(WORDS), n_positions=13)
    transformers.GPT2LMHeadModel(config).save_pretrained(where)
    return where


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> str:
    """A module of that name in the current folder, as a person writes one."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(folder)
    return name


def test_each_line_is_a_row_padded_at_the_right(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("the cat sat on the mat .\n\na cat .\n", encoding="utf-8")
    found = load(str(folder), text)
    assert isinstance(found.batch, dict)
    assert found.batch["input_ids"].tolist() == [[6, 3, 4, 5, 6, 7, 8], [2, 3, 8, 0, 0, 0, 0]]
    assert found.batch["attention_mask"].tolist() == [[1] * 7, [1, 1, 1, 0, 0, 0, 0]]
    assert found.strings[1] == ("a", "cat", ".")
    assert found.causal is True
    assert found.options == {"pad_id": 0}
    assert not found.model.training
    assert found.run().logits.shape == (2, 7, len(WORDS))


def test_a_text_of_one_line_is_two_rows_so_that_there_is_padding(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("the cat sat on the mat .", encoding="utf-8")
    found = load(str(folder), text)
    assert isinstance(found.batch, dict)
    assert found.batch["attention_mask"].sum(-1).tolist() == [7, 3]


def test_a_whole_text_is_one_row_no_longer_than_the_model_has_positions(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a cat .\n" * 5, encoding="utf-8")
    found = load(str(folder), text, rows=None, length=None)
    assert isinstance(found.batch, dict)
    assert found.batch["input_ids"].shape == (1, 13)
    assert load(str(folder), text, rows=None, length=5).batch["input_ids"].shape == (1, 5)  # type: ignore[call-overload]


def test_a_folder_without_a_tokenizer_is_given_tokens_that_mean_nothing(tmp_path: Path) -> None:
    config = transformers.BertConfig(
        num_hidden_layers=1, num_attention_heads=2, hidden_size=8, intermediate_size=8, vocab_size=40
    )
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    found = load(str(tmp_path))
    assert isinstance(found.batch, dict)
    assert found.batch["attention_mask"].sum(-1).tolist() == [23, 17, 11]
    assert found.causal is False
    with pytest.raises(RegardError, match="no tokenizer"):
        load(str(tmp_path), Path(__file__))


def test_an_encoder_decoder_is_given_both_sides(tmp_path: Path) -> None:
    kind: Any = transformers.T5Config
    config = kind(num_layers=1, num_heads=2, d_model=8, d_ff=8, d_kv=4, vocab_size=40, decoder_start_token_id=0)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    assert load(str(tmp_path)).run().logits.shape == (3, 23, 40)


def test_a_pad_id_that_the_vocabulary_does_not_hold_is_not_taken(tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=40, n_positions=32)  # ends with 50256
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    found = load(str(tmp_path))
    assert found.options == {"pad_id": 0}
    assert found.run().logits.shape == (3, 23, 40)


@pytest.mark.parametrize(
    ("number", "returns"),
    [
        (1, "model, {'x': torch.ones(2, 3)}"),
        (2, "model, torch.ones(2, 3)"),
        (3, "{'model': model, 'batch': (torch.ones(2, 3),), 'causal': True, 'pad_id': 7}"),
        (4, "model, torch.ones(2, 3), {'causal': True, 'pad_id': 7}"),
    ],
)
def test_a_factory_says_model_and_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, returns: str
) -> None:
    code = (
        "import torch\nclass Model(torch.nn.Linear):\n    def forward(self, x):\n        return super().forward(x)\n"
        f"def make():\n    model = Model(3, 5)\n    return {returns}\n"
    )
    found = load(module(tmp_path, monkeypatch, f"mine{number}", code) + ":make")
    assert found.run().shape == (2, 5)
    assert isinstance(found.model, nn.Linear)
    assert not found.model.training
    if number >= 3:
        assert found.causal is True
        assert found.options == {"pad_id": 7}


def test_a_factory_may_say_a_folder_and_take_the_text(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = repr(str(folder))
    code = f"def where():\n    return {here}\ndef read(text):\n    return {here} if text is None else 3\n"
    name = module(tmp_path, monkeypatch, "mine_folder", code)
    assert type(load(f"{name}:where").model).__name__ == "GPT2LMHeadModel"
    assert load(f"{name}:read").name == "mine_folder:read"
    with pytest.raises(RegardError, match="gave int"):
        load(f"{name}:read", tmp_path)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such:make", "no module no_such"),
        ("faulty:absent", "has no absent"),
        ("faulty:number", "found int, wanted a function"),
        ("faulty:nothing", "gave NoneType, wanted"),
        ("faulty:asks", "wants size"),
        ("faulty:no_batch", "batch is NoneType"),
        ("faulty:no_model", "model is int"),
        ("faulty:falls", "the factory raised KeyError: 'size'; call it"),
        ("torn:make", "importing torn raised ZeroDivisionError: division by zero; mend it"),
        ("nobody/has-this-model", "found no such folder, and no such model in the Hugging Face cache.*--download"),
        ("faulty:typo", "unknown name 'casual'; did you mean 'causal'"),
        ("needs:anything", "needs the module not_there_at_all"),
        (":make", "wanted a Hugging Face folder or name"),
        ("/no/such/folder", "no such folder"),
        ("./", "no config.json"),
    ],
)
def test_a_wrong_name_is_one_line_that_says_what_was_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    module(tmp_path, monkeypatch, "needs", "import not_there_at_all\n")
    module(tmp_path, monkeypatch, "torn", "1 / 0\n")
    module(
        tmp_path,
        monkeypatch,
        "faulty",
        "import torch\nnumber = 3\ndef nothing(): pass\ndef asks(size): pass\n"
        "def falls(): return {}['size']\n"
        "def no_batch(): return torch.nn.Linear(1, 1), None\ndef no_model(): return 3, torch.ones(1)\n"
        "def typo(): return {'model': torch.nn.Linear(1, 1), 'batch': torch.ones(1), 'casual': True}\n",
    )
    with pytest.raises(RegardError, match=says) as raised:
        load(name)
    assert "\n" not in str(raised.value)


def test_a_text_that_cannot_be_read_is_said(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    with pytest.raises(RegardError, match=r"--text: cannot read .*No such file"):
        load(str(folder), text)
    text.write_bytes(b"\n \n")
    with pytest.raises(RegardError, match="is empty"):
        load(str(folder), text)
    text.write_bytes(b"caf\xe9")
    with pytest.raises(RegardError, match="not UTF-8 at byte 3"):
        load(str(folder), text)
    with pytest.raises(RegardError, match="length: found 0"):
        load(str(folder), None, length=0)


def test_nothing_of_a_tokenizer_is_missing_from_the_strings(folder: Path) -> None:
    found = load(str(folder))
    assert isinstance(found.batch, dict)
    assert [len(row) for row in found.strings] == found.batch["attention_mask"].sum(-1).tolist()
    assert torch.is_tensor(found.batch["input_ids"])


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_damaged_folder_is_said(folder: Path, tmp_path: Path, file: str) -> None:
    for each in folder.iterdir():
        (tmp_path / each.name).write_bytes(each.read_bytes())
    (tmp_path / file).write_bytes(b"{" * 40)
    with pytest.raises(RegardError, match="no model could be loaded"):
        load(str(tmp_path))


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "transformers" or name.startswith("transformers.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)  # what an import that fails leaves
    with pytest.raises(RegardError, match=r'pip install "regard\[hf\]"'):
        load("some-model")
