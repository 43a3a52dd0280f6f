"""What holds of every recurrent translator: its equations, its padding, its steps, its size."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.errors import RegardError
from regard.translate.decoding.beam import Beam
from regard.translate.decoding.decode import decode
from regard.translate.decoding.penalty import Penalty
from regard.translate.models import architecture
from regard.translate.models.encoder_decoder import Looks
from regard.translate.text.vocabulary import EOS
from regard.translate.training.loss import loss
from tests.translate.models.recurrent import written_out
from tests.translate.models.recurrent.cases import CASES, LOOKING, LUONG, made, sentences

every = pytest.mark.parametrize("name", CASES)
looking = pytest.mark.parametrize("name", LOOKING)
blind = pytest.mark.parametrize("name", [name for name in CASES if name not in LOOKING])


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("bahdanau")])
@torch.no_grad()
def test_the_articles_equations(name: str) -> None:
    model, batch = made(name), sentences()
    logits = model(batch.source, batch.source_lengths, batch.previous)
    looks = model.align(batch.source, batch.source_lengths, batch.previous)
    for b, (S, T) in enumerate(zip(batch.source_lengths.tolist(), batch.target_lengths.tolist(), strict=True)):
        source, previous = batch.source[b, :S].tolist(), batch.previous[b, :T].tolist()
        if name == "cho":
            wanted = written_out.cho(model, source, previous)
        else:
            wanted, looked = written_out.stacked(model, source, previous)
            if name in LUONG:
                torch.testing.assert_close(looks[b, 0, 0, :T, :S], looked, rtol=0, atol=1e-10)
        torch.testing.assert_close(logits[b, :T], wanted, rtol=0, atol=1e-10)


@every
def test_padding_of_the_source_changes_nothing(name: str) -> None:
    """Neither the loss nor any gradient, whatever stands there and however much of it."""
    model, batch = made(name), sentences()
    wider = torch.nn.functional.pad(batch.source, (0, 3))
    place = torch.arange(wider.shape[1])
    other = replace(batch, source=torch.where(place < batch.source_lengths.unsqueeze(1), wider, 4 + 7 * place % 23))
    before, after = loss(model, batch), loss(model, other)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for a, b in zip(torch.autograd.grad(before, parameters), torch.autograd.grad(after, parameters), strict=True):
        torch.testing.assert_close(b, a, rtol=0, atol=1e-12)


@every
def test_forward_is_the_steps_one_after_another(name: str) -> None:
    model, batch = made(name), sentences()
    together = model(batch.source, batch.source_lengths, batch.previous)
    memory, state = model.encode(batch.source, batch.source_lengths)
    for i in range(batch.previous.shape[1]):
        logits, state = model.step(state, batch.previous[:, i : i + 1], memory)
        torch.testing.assert_close(together[:, i], logits[:, 0], rtol=0, atol=1e-12)


@every
def test_beginnings_beside_each_other_do_not_mix(name: str) -> None:
    model, batch = made(name), sentences()
    memory, state = model.encode(batch.source, batch.source_lengths)
    states = state if isinstance(state, tuple) else (state,)
    pieces = torch.tensor([[5, 9, 5]]).expand(4, 3)
    two: Any = tuple(x.expand(x.shape[0], 3, *x.shape[2:]) for x in states)
    logits, _ = model.step(two if isinstance(state, tuple) else two[0], pieces, memory)
    alone, _ = model.step(state, pieces[:, 1:2], memory)
    torch.testing.assert_close(logits[:, 1:2], alone, rtol=0, atol=1e-12)
    torch.testing.assert_close(logits[:, 0], logits[:, 2], rtol=0, atol=1e-12)


@looking
def test_what_a_step_says_of_its_look_is_what_align_says(name: str) -> None:
    model, batch = made(name), sentences()
    assert isinstance(model, Looks)
    wanted = model.align(batch.source, batch.source_lengths, batch.previous)
    memory, state = model.encode(batch.source, batch.source_lengths)
    hidden = torch.arange(batch.source.shape[1]) >= batch.source_lengths.unsqueeze(1)
    for i in range(batch.previous.shape[1]):
        _, state, looked = model.step_looking(state, batch.previous[:, i : i + 1], memory)
        torch.testing.assert_close(looked[..., 0, :], wanted[..., i, :], rtol=0, atol=1e-12)
    assert wanted.masked_select(hidden[:, None, None, None]).abs().max().item() == 0.0


@blind
def test_a_model_that_never_looks_says_so(name: str) -> None:
    model, batch = made(name).float(), sentences()
    assert not isinstance(model, Looks)
    assert model.align(batch.source, batch.source_lengths, batch.previous).shape == (4, 0, 0, 13, 11)
    assert decode(model, [[5, 7, EOS]], Beam(2, longest=4))[0][0].ids
    with pytest.raises(RegardError, match="looks: this model reads its source once"):
        decode(model, [[5, 7, EOS]], Beam(2, longest=4, penalty=Penalty(coverage=0.1)))


@blind
def test_what_is_handed_over_is_all_that_is_known_of_the_source(name: str) -> None:
    """And it is the whole source: a word that is changed, first or last, changes it."""
    model, batch = made(name), sentences()
    before = model(batch.source[:1], batch.source_lengths[:1], batch.previous[:1])
    for place in (0, 10):
        other = batch.source[:1].clone()
        other[0, place] = (other[0, place] + 3) % 27 + 4
        assert not torch.equal(model(other, batch.source_lengths[:1], batch.previous[:1]), before)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("bahdanau", "luong") and "sparse" not in name])
def test_a_sentence_in_a_batch_has_the_bits_that_it_has_alone(name: str) -> None:
    readout = {"readout": 4} if CASES[name][0] in ("cho", "bahdanau") else {}
    model = made(name, embedding=8, hidden=12, **readout).float()  # multiples of 4, which it is promised for
    rows = [[*range(4, 4 + n % 3 * 3), 5 + n, EOS] for n in range(19)]
    together = decode(model, rows, Beam(3, 2, longest=6), looking=name in LUONG)
    for n in (0, 7, 17):
        alone = decode(model, [rows[n]], Beam(3, 2, longest=6), looking=name in LUONG, numbers=[n])[0]
        for a, b in zip(alone, together[n], strict=True):
            assert (a.ids, a.score.hex()) == (b.ids, b.score.hex())
            if a.looks is not None and b.looks is not None:
                assert torch.equal(a.looks, b.looks)
            else:
                assert a.looks is b.looks


@looking
def test_a_copy_looks_with_its_own_weights(name: str) -> None:
    """As the running average does: changing one must not move the other."""
    model, batch = made(name), sentences()
    given = batch.source, batch.source_lengths, batch.previous
    copy, before = deepcopy(model), model.align(*given)
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.zero_()
    assert torch.equal(model.align(*given), before)
    assert not torch.allclose(copy.align(*given), before)


@every
def test_parameter_count_as_derived_by_hand(name: str) -> None:
    for more in ({}, {"embedding": 7, "hidden": 3}, {"layers": 4}):
        if set(more) <= set(architecture(CASES[name][0]).sizes):
            model = made(name, **more)
            assert sum(parameter.numel() for parameter in model.parameters()) == model.config.parameters


@every
def test_bfloat16_products_stay_close(name: str) -> None:
    torch.manual_seed(0)
    kind, sizes = CASES[name]
    config: Any = architecture(kind).config
    big = {**sizes, "embedding": 32, "hidden": 32}
    model = architecture(kind).model(config(source_vocabulary=31, target_vocabulary=37, **big)).eval()
    batch = sentences()
    exact = loss(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = loss(model, batch)
    rough.backward()
    torch.testing.assert_close(rough, exact, rtol=0.02, atol=0)


@every
def test_dropout_falls_in_training_alone(name: str) -> None:
    model, batch = made(name, dropout=0.5), sentences()
    assert torch.equal(loss(model, batch), loss(model, batch))
    assert torch.equal(loss(model, batch), loss(made(name), batch))
    model.train()
    assert not torch.equal(loss(model, batch), loss(model, batch))
