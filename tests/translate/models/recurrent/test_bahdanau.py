"""The model is the article's: who asks, what is read, what padding may not change, how it starts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.translate.models.recurrent.bahdanau import Model
from regard.translate.models.recurrent.config import Bahdanau
from regard.translate.models.recurrent.readers import Memory
from regard.translate.text.batches import Batch, collate
from regard.translate.text.vocabulary import PAD
from regard.translate.training.loss import loss

SIZES = Bahdanau(source_vocabulary=31, target_vocabulary=37, embedding=6, hidden=5, alignment=4, readout=3)


@pytest.fixture
def model() -> Model:
    """A model of odd sizes with weights of every sort, in float64."""
    torch.manual_seed(3)
    made = Model(SIZES).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.5)
    return made


@pytest.fixture
def batch() -> Batch:
    draw = torch.Generator().manual_seed(5)
    rows = [
        [torch.randint(4, high, (length,), generator=draw).tolist() for length in sizes]
        for high, sizes in ((31, (11, 2, 7, 1)), (37, (3, 13, 5, 1)))
    ]
    return collate(rows[0], rows[1])


def scribbled(batch: Batch) -> Batch:
    """The same sentences with other pieces where there is padding, and more of it."""
    wider = torch.nn.functional.pad(batch.source, (0, 3))
    place = torch.arange(wider.shape[1])
    noise = 4 + (7 * place) % 23
    return replace(batch, source=torch.where(place < batch.source_lengths.unsqueeze(1), wider, noise))


def test_padding_of_the_source_changes_nothing(model: Model, batch: Batch) -> None:
    """Breaks if the mask does: without it the scribbles weigh in the reads (see the next test)."""
    other = scribbled(batch)
    assert not torch.equal(other.source[:, : batch.source.shape[1]], batch.source)
    before, after = loss(model, batch), loss(model, other)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)
    for (name, parameter), a, b in zip(
        model.named_parameters(),
        torch.autograd.grad(before, list(model.parameters())),
        torch.autograd.grad(after, list(model.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(b, a, rtol=0, atol=1e-12, msg=f"gradient of {name} {tuple(parameter.shape)}")


def test_the_padding_test_would_see_a_missing_mask(model: Model, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.translate.models.recurrent.readers.padding", lambda lengths: None)
    assert (loss(model, batch) - loss(model, scribbled(batch))).abs().item() > 1e-4


def test_a_sentence_alone_and_in_a_batch_reads_the_same(model: Model, batch: Batch) -> None:
    together = model(batch.source, batch.source_lengths, batch.previous)
    for n, (s, t) in enumerate(zip(batch.source_lengths.tolist(), batch.target_lengths.tolist(), strict=True)):
        alone = model(batch.source[n : n + 1, :s], batch.source_lengths[n : n + 1], batch.previous[n : n + 1, :t])
        torch.testing.assert_close(together[n, :t], alone[0])


def test_weights_on_padding_are_exactly_zero(model: Model, batch: Batch) -> None:
    found = model.align(batch.source, batch.source_lengths, batch.previous)[:, 0, 0]  # (B, T, S)
    hidden = torch.arange(batch.source.shape[1]) >= batch.source_lengths.unsqueeze(1)
    assert found.masked_select(hidden.unsqueeze(1)).abs().max().item() == 0.0
    torch.testing.assert_close(found.sum(-1), torch.ones_like(found[..., 0]))


def test_padding_of_the_target_bears_no_loss(model: Model, batch: Batch) -> None:
    wider = replace(
        batch,
        target=torch.nn.functional.pad(batch.target, (0, 2), value=PAD),
        previous=torch.nn.functional.pad(batch.previous, (0, 2), value=9),
    )
    torch.testing.assert_close(loss(model, wider), loss(model, batch))


@torch.no_grad()
def test_an_untrained_model_prefers_some_places_and_without_its_energy_none(batch: Batch) -> None:
    untrained = Model(SIZES).eval()
    found = untrained.align(batch.source, batch.source_lengths, batch.previous)[:, 0, 0]
    assert float(found[0].std(-1).max()) > 1e-3
    untrained.get_parameter("score.energy").zero_()
    found = untrained.align(batch.source, batch.source_lengths, batch.previous)[:, 0, 0]
    for row, length in zip(found, batch.source_lengths.tolist(), strict=True):
        assert torch.equal(row[:, :length], torch.full_like(row[:, :length], 1 / length))
        entropy = -(row[:, :length] * row[:, :length].log()).sum(-1)
        torch.testing.assert_close(entropy, torch.full_like(entropy, math.log(length)))


def test_the_state_before_the_step_asks(model: Model, batch: Batch) -> None:
    """α_i and the readout of y_i depend on y_{i-1} only through E y_{i-1}: α_i not at all."""
    other = batch.previous.clone()
    other[:, 2] = (other[:, 2] + 5) % 30 + 4  # y_1 enters s_2, which asks at step 3, not at step 2
    a, b = (model.align(batch.source, batch.source_lengths, previous)[:, 0, 0] for previous in (batch.previous, other))
    assert torch.equal(a[1, :3], b[1, :3])
    assert not torch.allclose(a[1, 3], b[1, 3])


def test_changing_the_new_state_cannot_change_its_own_look(
    model: Model, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = model.align(batch.source, batch.source_lengths, batch.previous)[:, 0, 0]
    true, calls = model.advance, iter(range(10**6))

    def moved(projected: Tensor, context: Tensor, state: Tensor) -> Tensor:
        after = true(projected, context, state)
        return after + 1.0 if next(calls) == 2 else after  # s_3, by the third step

    monkeypatch.setattr(model, "advance", moved)
    after = model.align(batch.source, batch.source_lengths, batch.previous)[:, 0, 0]
    assert torch.equal(after[:, :3], before[:, :3])
    assert not torch.allclose(after[1, 3], before[1, 3])


def test_the_first_state_is_the_backward_state_at_the_first_place(model: Model, batch: Batch) -> None:
    memory, first = model.encode(batch.source, batch.source_lengths)
    backward = memory.states[:, 0, 0, SIZES.hidden :]
    torch.testing.assert_close(first[:, 0], torch.tanh(backward @ model.first.weight.t()))


def test_the_encoder_is_nn_gru_over_packed_sentences(model: Model, batch: Batch) -> None:
    packed = nn.utils.rnn.pack_padded_sequence(
        model.source_embedding(batch.source), batch.source_lengths, batch_first=True, enforce_sorted=False
    )
    wanted, _ = nn.utils.rnn.pad_packed_sequence(model.encoder(packed)[0], batch_first=True)
    memory, _ = model.encode(batch.source, batch.source_lengths)
    valid = (torch.arange(batch.source.shape[1]) < batch.source_lengths.unsqueeze(1)).unsqueeze(-1)
    torch.testing.assert_close(memory.states[:, 0] * valid, wanted)


def test_a_step_is_the_article_s_formulas(model: Model) -> None:
    """One step written out from the parameters, with nn.GRUCell in the article's place."""
    state, previous = torch.randn(2, 1, 5).double(), torch.tensor([[7], [9]])
    h = torch.randn(2, 1, 3, 10).double()
    lengths = torch.tensor([3, 2])
    logits, after = model.step(state, previous, Memory(h, model.score.keys(h), lengths))
    p = dict(model.named_parameters())
    cell = nn.GRUCell(6 + 10, 5).double()
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat([p["cell_previous.weight"], p["cell_context.weight"]], 1))
        cell.weight_hh.copy_(p["cell_state.weight"])
        cell.bias_ih.copy_(p["cell_previous.bias"])
        cell.bias_hh.copy_(p["cell_state.bias"])
    for b, length in enumerate(lengths.tolist()):
        s, y, memory = state[b, 0], p["target_embedding.weight"][previous[b, 0]], h[b, 0, :length]
        energies = torch.stack(
            [p["score.energy"] @ torch.tanh(p["score.query.weight"] @ s + p["score.key.weight"] @ x) for x in memory]
        )
        context = torch.softmax(energies, 0) @ memory
        t = (
            p["readout_state.weight"] @ s
            + p["readout_state.bias"]
            + p["readout_previous.weight"] @ y
            + p["readout_context.weight"] @ context
        )
        maxout = torch.stack([torch.maximum(t[2 * i], t[2 * i + 1]) for i in range(3)])
        torch.testing.assert_close(logits[b, 0], p["output.weight"] @ maxout)
        torch.testing.assert_close(after[b, 0], cell(torch.cat([y, context]), s))


def test_forward_is_the_steps_one_after_another(model: Model, batch: Batch) -> None:
    together = model(batch.source, batch.source_lengths, batch.previous)
    memory, state = model.encode(batch.source, batch.source_lengths)
    for i in range(batch.previous.shape[1]):
        logits, state = model.step(state, batch.previous[:, i : i + 1], memory)
        torch.testing.assert_close(together[:, i], logits[:, 0])


@pytest.mark.parametrize(
    "sizes",
    [
        SIZES,
        Bahdanau(source_vocabulary=11, target_vocabulary=13, embedding=2, hidden=3, alignment=5, readout=7),
        replace(SIZES, score="general"),
        Bahdanau(source_vocabulary=3500, target_vocabulary=3500, embedding=256, hidden=288, alignment=256, readout=256),
    ],
)
def test_parameter_count(sizes: Bahdanau) -> None:
    assert sum(p.numel() for p in Model(sizes).parameters()) == sizes.parameters


def test_dropout_is_one_mask_a_sentence() -> None:
    torch.manual_seed(0)
    model = Model(replace(SIZES, dropout=0.5)).train()
    dropped = model.drop(torch.ones(3, 7, 6), 0)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(model.eval().drop(torch.ones(3, 7, 6), 0), torch.ones(3, 7, 6))


def test_bfloat16_products_stay_close() -> None:
    torch.manual_seed(0)
    model = Model(replace(SIZES, embedding=32, hidden=32, alignment=32, readout=32)).eval()
    batch = collate([[5, 6, 7, 3], [8, 3]], [[9, 10, 3], [11, 12, 13, 3]])
    exact = loss(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = loss(model, batch)
    torch.testing.assert_close(rough, exact, rtol=0.02, atol=0)


@pytest.mark.parametrize(("name", "value"), [("hidden", 0), ("embedding", -3), ("dropout", 1.0), ("dropout", -0.1)])
def test_sizes_that_cannot_be(name: str, value: float) -> None:
    with pytest.raises(RegardError, match=f"{name}: found {value}"):
        replace(SIZES, **{name: value})  # type: ignore[arg-type]
