"""A translator that has learnt nothing, small enough to make for every test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.score import Additive
from regard.translate import checkpoint
from regard.translate.models.recurrent.bahdanau import Model
from regard.translate.models.recurrent.config import Bahdanau
from regard.translate.text.vocabulary import Vocabulary
from regard.translate.translator import Translator

LINES = ["the cat sat on the mat.", "a dog ate the hat.", "where is the cat?", "it's on the mat, said the dog!"]


@pytest.fixture(scope="session")
def untaught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a model that says nonsense, and looks somewhere while it does."""
    folder = tmp_path_factory.mktemp("untaught")
    vocabulary = Vocabulary.train(LINES * 5, 32)
    torch.manual_seed(0)
    config = Bahdanau(
        source_vocabulary=len(vocabulary),
        target_vocabulary=len(vocabulary),
        embedding=7,
        hidden=11,
        alignment=13,
        readout=5,
    )
    model = Model(config)
    assert isinstance(model.score, Additive)
    torch.nn.init.normal_(model.score.energy)
    torch.nn.init.normal_(model.score.query.weight)
    torch.nn.init.normal_(model.score.key.weight)
    checkpoint.save_config(folder, config)
    checkpoint.save_vocabularies(folder, vocabulary, vocabulary)
    checkpoint.save_model(folder, model.state_dict())
    return folder


@pytest.fixture
def translator(untaught: Path) -> Translator:
    return Translator.load(untaught)
