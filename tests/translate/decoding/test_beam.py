"""Beam search finds what looking at every target would find."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.errors import RegardError
from regard.translate.decoding.beam import beam_search
from regard.translate.models.recurrent.bahdanau import Model
from regard.translate.models.recurrent.config import Bahdanau
from regard.translate.text.batches import pad
from regard.translate.text.vocabulary import BOS, EOS, PAD, UNK

SIZES = Bahdanau(source_vocabulary=17, target_vocabulary=7, embedding=6, hidden=5, alignment=4, readout=3)


@pytest.fixture
def model() -> Model:
    torch.manual_seed(11)
    made = Model(SIZES)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.8)
    return made.eval()


def log_p(model: Model, source: list[int], target: tuple[int, ...]) -> float:
    """log p(target | source) by a forced reading, as the search counts it: padding and begin are never said."""
    previous = torch.tensor([[BOS, *target[:-1]]])
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([len(source)]), previous)[0]
    p = torch.log_softmax(logits, -1)
    return float(sum(p[i, y] for i, y in enumerate(target)))


def test_greedy_takes_the_best_piece_each_time(model: Model) -> None:
    source = [5, 9, EOS]
    found = beam_search(model, *pad([source]), width=1)[0]
    said: list[int] = []
    while len(said) < 16 and (not said or said[-1] != EOS):
        with torch.no_grad():
            logits = model(torch.tensor([source]), torch.tensor([3]), torch.tensor([[BOS, *said]]))[0, -1]
        logits[[PAD, BOS]] = -torch.inf
        said.append(int(logits.argmax()))
    assert found.ids == tuple(said)


@pytest.mark.parametrize("normalise", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_short_targets(model: Model, normalise: float) -> None:
    source = [5, 9, EOS]
    found = beam_search(model, *pad([source]), width=600, normalise=normalise)[0]
    open_pieces = [y for y in range(SIZES.target_vocabulary) if y not in (PAD, BOS, EOS)]
    every = [(*body, EOS) for length in range(4) for body in itertools.product(open_pieces, repeat=length)]
    best = max(log_p(model, source, target) / len(target) ** normalise for target in every)
    assert found.score >= best - 1e-5
    assert found.score == pytest.approx(log_p(model, source, found.ids) / len(found.ids) ** normalise, abs=1e-5)


def test_a_batch_is_its_sentences(model: Model) -> None:
    rows = [[5, 9, EOS], [EOS], [4, 6, 8, 10, 12, 14, EOS], [16, EOS]]
    together = beam_search(model, *pad(rows), width=3)
    for row, found in zip(rows, together, strict=True):
        alone = beam_search(model, *pad([row]), width=3)[0]
        assert found.ids == alone.ids
        assert found.score == pytest.approx(alone.score, abs=1e-5)


def test_a_wider_beam_is_no_worse_here(model: Model) -> None:
    scores = [beam_search(model, *pad([[5, 9, 7, EOS]]), width=w, normalise=0.0)[0].score for w in (1, 3, 50)]
    assert scores[-1] == max(scores)


def test_what_is_never_said(model: Model) -> None:
    with torch.no_grad():
        model.output.weight[[PAD, BOS, UNK]] = model.output.weight.abs().max() * 9  # nothing would be likelier
    for width in (1, 4):
        ids = beam_search(model, *pad([[5, 9, EOS]]), width=width, unknown=False)[0].ids
        assert not {PAD, BOS, UNK} & set(ids)


def test_a_target_that_never_ends_is_cut(model: Model) -> None:
    with torch.no_grad():
        model.output.weight[EOS] = 0.0
        model.output.weight[5] = 0.0
        model.readout_state.bias.fill_(50.0)
        model.output.weight[5].fill_(1.0)
    found = beam_search(model, *pad([[6, EOS], [6, 7, 8, EOS]]), width=2)
    assert [len(hypothesis.ids) for hypothesis in found] == [2 * 2 + 10, 2 * 4 + 10]


def test_search_leaves_the_mode_alone(model: Model) -> None:
    model.train()
    beam_search(model, *pad([[5, EOS]]), width=2)
    assert model.training


def test_no_sentence_and_no_width(model: Model) -> None:
    assert beam_search(model, torch.zeros(0, 0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)) == []
    with pytest.raises(RegardError, match="beam: found 0"):
        beam_search(model, *pad([[5, EOS]]), width=0)
