"""How recurrent translators start: what is given to a gate moves it, and what it remembers turns without growing."""

from __future__ import annotations

from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.translate.models import architecture
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.text.vocabulary import PAD

N = 32
WIDTHS: dict[str, dict[str, Any]] = {
    "cho": {"readout": 24},
    "bahdanau": {"readout": 24, "alignment": 40},
    "sutskever": {"layers": 3},
    "luong": {"layers": 2},
}


def fresh(name: str) -> EncoderDecoder[Any, Any]:
    torch.manual_seed(7)
    found = architecture(name)
    sizes = {"embedding": 48, "hidden": N, **WIDTHS[name]}
    return found.model(found.config(source_vocabulary=500, target_vocabulary=500, **sizes)).eval()


def gates(weight: Tensor) -> list[Tensor]:
    return list(weight.detach().split(N))


@pytest.mark.parametrize("name", ["cho", "sutskever", "luong"])
@torch.no_grad()
def test_every_matrix_starts_as_it_is_said_to(name: str) -> None:
    for at, weight in fresh(name).named_parameters():
        if "embedding" in at:
            assert weight[PAD].abs().max() == 0
            assert weight[PAD + 1 :].std().item() == pytest.approx(1.0, abs=0.02)
        elif "weight_hh" in at or at == "cell_state.weight":
            for gate in gates(weight):
                torch.testing.assert_close(gate @ gate.t(), torch.eye(N), atol=1e-5, rtol=0)
        elif "weight_ih" in at or (at.startswith("cell_") and weight.ndim == 2):
            for gate in gates(weight):
                bound = sqrt(6 / (N + gate.shape[1]))  # Glorot & Bengio 2010, equation 16, of one gate
                assert 0.9 * bound < gate.abs().max().item() <= bound
        elif "bias_ih" in at and name in ("sutskever", "luong"):
            assert [gate.unique().item() for gate in gates(weight)] == [0, 1, 0, 0]  # i, f, g, o
        elif "bias" in at:
            assert weight.abs().max() == 0


@torch.no_grad()
def test_bahdanau_starts_quietly() -> None:
    """Embeddings of length 1, and the gates of a matrix under one bound."""
    for at, weight in fresh("bahdanau").named_parameters():
        if "embedding" in at:
            assert weight[PAD + 1 :].std().item() == pytest.approx(48**-0.5, abs=0.005)
        elif "weight_ih" in at or (at.startswith("cell_") and weight.ndim == 2 and at != "cell_state.weight"):
            bound = sqrt(6 / (3 * N + weight.shape[1]))
            assert 0.9 * bound < weight.abs().max().item() <= bound
        elif "weight_hh" in at or at == "cell_state.weight":
            for gate in gates(weight):
                torch.testing.assert_close(gate @ gate.t(), torch.eye(N), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["sutskever", "luong"])
@torch.no_grad()
def test_the_top_of_a_stack_hears_which_word_it_is_given(name: str) -> None:
    """A word moves each layer's state by at least a fifth of what it moves the one below. From embeddings of length 1
    and Glorot's bound over all gates at once it was 0.03 in the first and a seventh from layer to layer."""
    model: Any = fresh(name)
    words = torch.arange(4, 404).unsqueeze(1)
    _, (hidden, _) = model.encoder(model.source_embedding(words))
    spread = hidden.std(1).mean(-1)  # over words, of each layer
    assert spread[0] > 0.1
    assert (spread[1:] > spread[:-1] / 5).all()
