"""A forced reading: the looks of the very steps that say the target, and the word of every piece."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.errors import RegardError
from regard.translate.decoding.forced import forced
from regard.translate.models import architecture, complete
from regard.translate.text.vocabulary import BOS, Vocabulary
from regard.translate.translator import Translator

LINES = ["the cat sat on the mat", "a dog ran", "the dog sat", "cats and dogs"]


@pytest.fixture(params=["bahdanau", "transformer"])
def translator(request: pytest.FixtureRequest) -> Translator:
    torch.manual_seed(5)
    vocabulary = Vocabulary.train(LINES * 5, 23)
    small: dict[str, dict[str, int]] = {
        "bahdanau": {"embedding": 7, "hidden": 11, "alignment": 13, "readout": 5},
        "transformer": {"width": 14, "heads": 7, "layers": 3, "feed": 11},
    }
    sizes: Any = complete(request.param, small[request.param])
    made = architecture(request.param)
    model = made.model(made.config(source_vocabulary=23, target_vocabulary=23, **sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return Translator(model, vocabulary, vocabulary)


def test_words_are_those_of_spaces_and_pieces_are_the_line_s(translator: Translator) -> None:
    for line, found in zip(LINES, forced(translator, LINES, LINES), strict=True):
        ids = translator.source.encode([line])[0]
        assert len(found.source_words) == len(ids)
        starts = [n for n, piece in enumerate(translator.source.pieces(ids)) if piece.startswith("▁")]
        steps = [b - a for a, b in zip(found.source_words, found.source_words[1:-1], strict=False)]
        assert [0, *(n + 1 for n, step in enumerate(steps) if step)] == starts
        assert found.source_words[-1] == -1
        assert max(found.source_words) + 1 == len(line.split())


def test_the_weights_are_those_of_the_steps_that_say_the_target(translator: Translator) -> None:
    """Piece by piece, as the search goes, with the line's own pieces."""
    source, target = (translator.source.encode([line])[0] for line in LINES[:2])
    found = next(forced(translator, LINES[:1], LINES[1:2]))
    ids, lengths = torch.tensor([source]), torch.tensor([len(source)])
    with torch.no_grad():
        memory, state = translator.model.encode(ids, lengths)
        log_p = 0.0
        for before, piece in zip([BOS, *target], target, strict=False):
            logits, state = translator.model.step(state, torch.tensor([[before]]), memory)
            log_p += float(logits[0, 0].log_softmax(-1)[piece])
        looked = translator.model.align(ids, lengths, torch.tensor([[BOS, *target[:-1]]]))[0]
    assert found.log_p == pytest.approx(log_p, rel=1e-5)
    torch.testing.assert_close(found.weights, looked)


def test_a_batch_is_its_pairs(translator: Translator) -> None:
    target = [*LINES[2:], *LINES[:2]]
    together = list(forced(translator, LINES, target, batch=3))
    for n, found in enumerate(together):
        alone = next(forced(translator, [LINES[n]], [target[n]]))
        assert (alone.source_words, alone.target_words) == (found.source_words, found.target_words)
        torch.testing.assert_close(alone.weights, found.weights)
        torch.testing.assert_close(found.weights.sum(-1), torch.ones_like(found.weights[..., 0]))
        assert alone.log_p == pytest.approx(found.log_p, rel=1e-4)


def test_an_empty_side_has_its_end_mark_alone(translator: Translator) -> None:
    found = list(forced(translator, ["", "a dog"], ["a dog", ""]))
    assert found[0].source_words == (-1,)
    assert found[1].target_words == (-1,)


def test_sides_of_different_length_are_refused(translator: Translator) -> None:
    with pytest.raises(RegardError, match="target: found 1 sentences, source has 2"):
        next(forced(translator, ["a", "b"], ["a"]))
