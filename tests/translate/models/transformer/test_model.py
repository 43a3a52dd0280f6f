"""The Transformer is the published one: what may not be seen, one step and all steps, its numbers, its starts."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.memory import EluPlusOne, FeatureScore
from regard.translate.decoding import walk
from regard.translate.decoding.beam import beam_search
from regard.translate.models.transformer import model as transformer
from regard.translate.models.transformer.config import Transformer
from regard.translate.models.transformer.layers import DecoderLayer, EncoderLayer
from regard.translate.models.transformer.model import Model
from regard.translate.text.batches import Batch, collate, pad
from regard.translate.text.vocabulary import EOS, PAD
from regard.translate.training.run import loss

SIZES = Transformer(source_vocabulary=31, target_vocabulary=37, width=14, heads=7, layers=3, feed=11)


VARIANTS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre"},
    "entmax15": {"normalize": "entmax15", "positions": "none"},
    "talking": {"talking": True, "score": "cosine"},
    "linear": {"encoder": "linear", "normalize": "sparsemax"},
    "window": {"encoder": "window", "reach": 2, "talking": True, "score": "euclidean"},
    "shared": {"shared": True, "source_vocabulary": 37},
}


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> Model:
    """A model of odd sizes with weights of every sort, in float64."""
    torch.manual_seed(3)
    made = Model(replace(SIZES, **VARIANTS[request.param])).double().eval()
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


def test_a_later_piece_changes_nothing_before_it(model: Model, batch: Batch) -> None:
    other = batch.previous.clone()
    other[:, 2] = (other[:, 2] + 5) % 30 + 4
    a, b = (model(batch.source, batch.source_lengths, previous) for previous in (batch.previous, other))
    assert torch.equal(a[:, :2], b[:, :2])
    assert not torch.allclose(a[1, 2], b[1, 2])
    looks = [model.align(batch.source, batch.source_lengths, previous) for previous in (batch.previous, other)]
    assert torch.equal(looks[0][..., :2, :], looks[1][..., :2, :])
    assert not torch.allclose(looks[0][1, ..., 2, :], looks[1][1, ..., 2, :])  # here the look knows its input


def test_padding_of_the_source_changes_nothing(model: Model, batch: Batch) -> None:
    wider = torch.nn.functional.pad(batch.source, (0, 3))
    place = torch.arange(wider.shape[1])
    scribbled = torch.where(place < batch.source_lengths.unsqueeze(1), wider, 4 + (7 * place) % 23)
    before, after = loss(model, batch), loss(model, replace(batch, source=scribbled))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)
    for a, b in zip(
        torch.autograd.grad(before, list(model.parameters())),
        torch.autograd.grad(after, list(model.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(b, a, rtol=0, atol=1e-11)


def test_the_padding_test_would_see_a_missing_mask(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    model = Model(SIZES).double().eval()
    right = loss(model, batch)
    monkeypatch.setattr("regard.mask.padding", lambda lengths: None)
    assert (loss(model, batch) - right).abs().item() > 1e-4


def test_a_sentence_alone_and_in_a_batch_reads_the_same(model: Model, batch: Batch) -> None:
    together = model(batch.source, batch.source_lengths, batch.previous)
    for n, (s, t) in enumerate(zip(batch.source_lengths.tolist(), batch.target_lengths.tolist(), strict=True)):
        alone = model(batch.source[n : n + 1, :s], batch.source_lengths[n : n + 1], batch.previous[n : n + 1, :t])
        torch.testing.assert_close(together[n, :t], alone[0])


def test_weights_are_distributions_over_the_sentence(model: Model, batch: Batch) -> None:
    found = model.align(batch.source, batch.source_lengths, batch.previous)
    assert found.shape == (4, 3, 7, 13, 11)  # (B, N, H, T, S)
    hidden = torch.arange(11) >= batch.source_lengths.unsqueeze(1)
    assert found.masked_select(hidden[:, None, None, None]).abs().max().item() == 0.0
    torch.testing.assert_close(found.sum(-1), torch.ones_like(found[..., 0]))


def test_forward_is_the_steps_one_after_another_for_every_beginning(model: Model, batch: Batch) -> None:
    """Two beginnings of each target go side by side, and do not see each other."""
    other = (batch.previous + 9) % 30 + 4
    wanted = [model(batch.source, batch.source_lengths, previous) for previous in (batch.previous, other)]
    memory, state = model.encode(batch.source, batch.source_lengths)
    state = state.spread(2)
    for i in range(batch.previous.shape[1]):
        logits, state = model.step(state, torch.stack([batch.previous[:, i], other[:, i]], 1), memory)
        for n in range(2):
            torch.testing.assert_close(logits[:, n], wanted[n][:, i])


def test_a_layer_is_torch_s_own(batch: Batch) -> None:
    """nn.TransformerDecoderLayer is only the witness: ours is built of this package's parts."""
    for norm in ("post", "pre"):
        torch.manual_seed(3)
        ours = DecoderLayer(replace(SIZES, norm=norm)).double().eval()
        theirs = nn.TransformerDecoderLayer(
            14, 7, dim_feedforward=11, dropout=0.0, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
        ).eval()
        with torch.no_grad():
            for mine, yours in ((ours.own, theirs.self_attn), (ours.cross, theirs.multihead_attn)):
                parts = (mine.query, mine.key, mine.value)
                yours.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
                yours.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
                yours.out_proj.load_state_dict(mine.out.state_dict())
            theirs.linear1.load_state_dict(ours.feed[0].state_dict())
            theirs.linear2.load_state_dict(ours.feed[2].state_dict())
            for res, layer_norm in (
                (ours.after_own, theirs.norm1),
                (ours.after_cross, theirs.norm2),
                (ours.after_feed, theirs.norm3),
            ):
                res.norm.weight.normal_()
                layer_norm.load_state_dict(res.norm.state_dict())
        y, x = torch.randn(2, 5, 14).double(), torch.randn(2, 3, 14).double()
        k, v = ours.cross.pairs(x)
        memory = transformer.Memory((k,), (v,), torch.tensor([3, 2]))
        found = ours(y, partial(transformer._itself, 0, ours), partial(transformer._cross, 0, ours, memory))
        wanted = theirs(
            y,
            x,
            tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
            memory_key_padding_mask=torch.tensor([[False, False, False], [False, False, True]]),
        )
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("talking", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_parameter_count(variant: str, talking: bool) -> None:
    sizes = replace(SIZES, **{**VARIANTS[variant], "talking": talking})
    assert sum(p.numel() for p in Model(sizes).parameters()) == sizes.parameters


def test_a_shared_embedding_is_three_that_stay_the_same(batch: Batch) -> None:
    """Looked up by both sides and read out by: its gradient is the sum of what each would have."""
    torch.manual_seed(3)
    shared = Model(replace(SIZES, shared=True, source_vocabulary=37)).double().eval()
    apart = Model(replace(SIZES, source_vocabulary=37)).double().eval()
    apart.load_state_dict({**shared.state_dict(), "source_embedding.weight": shared.target_embedding.weight})
    one, two = loss(shared, batch), loss(apart, batch)
    torch.testing.assert_close(one, two)
    one.backward()
    two.backward()
    grown = [table.weight.grad for table in (shared.target_embedding, apart.target_embedding, apart.source_embedding)]
    assert grown[0] is not None
    assert grown[1] is not None
    assert grown[2] is not None
    torch.testing.assert_close(grown[0], grown[1] + grown[2])
    assert float(grown[2].abs().max()) > 1e-3
    with pytest.raises(RegardError, match="shared: found vocabularies of 31 and 37 pieces, wanted one for both sides"):
        replace(SIZES, shared=True)


def test_embeddings_start_as_large_as_positions() -> None:
    torch.manual_seed(0)
    model = Model(Transformer(source_vocabulary=997, target_vocabulary=997, width=64)).eval()
    ids = torch.arange(4, 997).unsqueeze(0)
    x = model._embed(model.source_embedding, ids, 0)
    table = model._embed(model.source_embedding, torch.full_like(ids, PAD), 0)  # PAD is 0: the positions alone
    torch.testing.assert_close(table.square().sum(-1), torch.full((1, 993), 32.0))  # |PE|² = D / 2
    assert (x - table).square().mean().item() == pytest.approx(1.0, abs=0.05)


def test_a_place_is_where_it_stands_not_how_it_came(model: Model) -> None:
    ids = torch.tensor([[5, 6, 7]])
    whole = model._embed(model.target_embedding, ids, 0)
    torch.testing.assert_close(model._embed(model.target_embedding, ids[:, 2:], 2), whole[:, 2:])


def test_a_search_over_a_batch_is_over_its_sentences(model: Model) -> None:
    rows = [[5, 9, EOS], [EOS], [4, 6, 8, 10, 12, 14, EOS], [16, EOS]]
    together = beam_search(model, *pad(rows), width=3)
    for row, found in zip(rows, together, strict=True):
        alone = beam_search(model, *pad([row]), width=3)[0]
        assert found.ids == alone.ids
        assert found.score == pytest.approx(alone.score, abs=1e-5)
        previous = torch.tensor([[2, *found.ids[:-1]]])
        p = model(torch.tensor([row]), torch.tensor([len(row)]), previous)[0].detach().log_softmax(-1)
        said = sum(float(p[i, y]) for i, y in enumerate(found.ids)) / len(found.ids)
        assert found.score == pytest.approx(said, abs=1e-5)  # the state of the winner was its own


def test_what_was_said_goes_with_the_hypothesis_that_said_it(model: Model, batch: Batch) -> None:
    """As a search reorders: beginnings that change places go on as they would have where they were."""
    memory, state = model.encode(batch.source, batch.source_lengths)
    state = walk.spread(state, 3)
    said = torch.tensor([[5, 6, 7]]).expand(4, -1)
    _, state = model.step(state, said, memory)
    parent = torch.tensor([[2, 0, 0], [1, 1, 2], [0, 1, 2], [2, 1, 0]])
    taken = walk.taken(state, parent)
    logits, _ = model.step(state, said, memory)
    moved, _ = model.step(taken, said.gather(1, parent), memory)
    torch.testing.assert_close(moved, logits.gather(1, parent.unsqueeze(-1).expand_as(logits)))
    assert not torch.allclose(moved, logits)


def layer_and_input(**changes: Any) -> tuple[EncoderLayer, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    layer = EncoderLayer(replace(SIZES, **changes)).double().eval()
    return layer, torch.randn(2, 11, 14).double(), torch.tensor([11, 7])


def test_a_window_sees_its_neighbours_alone() -> None:
    layer, x, lengths = layer_and_input(encoder="window", reach=2)
    x.requires_grad_()
    layer(x, lengths)[0, 5].sum().backward()
    assert x.grad is not None
    assert x.grad[0].abs().sum(-1).nonzero().flatten().tolist() == [3, 4, 5, 6, 7]


def test_a_linear_encoder_is_the_look_its_features_describe() -> None:
    """In linear time it is softmax over log φ(q)·φ(k), the quadratic form (Katharopoulos et al. 2020, eq. 4)."""
    layer, x, lengths = layer_and_input(encoder="linear")
    other, _, _ = layer_and_input()
    other.load_state_dict(layer.state_dict())
    other.own.score = FeatureScore(EluPlusOne())
    found, wanted = layer(x, lengths), other(x, lengths)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found[row, :length], wanted[row, :length])


def test_heads_that_begin_to_talk_say_nothing_yet() -> None:
    """P_l and P_w start as the identity: the model is the one that does not talk."""
    torch.manual_seed(3)
    talking, silent = (Model(replace(SIZES, talking=talks)).double().eval() for talks in (True, False))
    silent.load_state_dict({n: p for n, p in talking.state_dict().items() if "talking" not in n})
    given = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([4, 2]), torch.tensor([[2, 9], [2, 11]])
    torch.testing.assert_close(talking(*given), silent(*given))


def test_a_sparse_decoder_gives_words_no_weight_at_all(batch: Batch) -> None:
    torch.manual_seed(3)
    model = Model(replace(SIZES, normalize="sparsemax")).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=2.0)
    found = model.align(batch.source, batch.source_lengths, batch.previous)
    inside = torch.arange(11) < batch.source_lengths.unsqueeze(1)
    assert (found.masked_select(inside[:, None, None, None]) == 0).double().mean() > 0.2


def test_positions_alone_tell_the_order_of_the_source(batch: Batch) -> None:
    """Vaswani et al. 2017, section 3.5: without them a source is a bag of pieces."""
    order = torch.tensor([3, 0, 9, 4, 10, 1, 7, 2, 8, 5, 6])  # of the first sentence, which fills its row
    for positions, same in (("none", True), ("sinusoidal", False)):
        torch.manual_seed(3)
        model = Model(replace(SIZES, positions=positions)).double().eval()
        straight, turned = (
            model(source, batch.source_lengths[:1], batch.previous[:1])
            for source in (batch.source[:1], batch.source[:1, order])
        )
        assert torch.allclose(straight, turned, atol=1e-10) is same


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_reversal_is_learnt(norm: str) -> None:
    """Exact on sequences that were not trained on; what is said first stands last in the source."""
    torch.manual_seed(0)
    draw = random.Random(3)

    def batch(count: int) -> Batch:
        rows = [[draw.randrange(4, 10) for _ in range(draw.randint(2, 7))] for _ in range(count)]
        return collate([[*row, EOS] for row in rows], [[*(y + 6 for y in reversed(row)), EOS] for row in rows])

    model = Model(
        Transformer(source_vocabulary=16, target_vocabulary=20, width=64, heads=4, layers=2, feed=128, norm=norm)
    )
    optimiser = torch.optim.Adam(model.parameters())
    for update in range(400):
        optimiser.param_groups[0]["lr"] = 0.003 * min(1.0, (update + 1) / 100) * (1.0 - update / 400)
        optimiser.zero_grad()
        loss(model, batch(32)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    unseen = batch(199)
    found = beam_search(model, unseen.source, unseen.source_lengths, width=1)
    right = [tuple(row[:length]) for row, length in zip(unseen.target.tolist(), unseen.target_lengths, strict=True)]
    exact = sum(each.ids == row for each, row in zip(found, right, strict=True)) / 199
    assert exact >= 0.95


def test_bfloat16_products_stay_close() -> None:
    torch.manual_seed(0)
    model = Model(replace(SIZES, width=28)).eval()
    batch = collate([[5, 6, 7, 3], [8, 3]], [[9, 10, 3], [11, 12, 13, 3]])
    exact = loss(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = loss(model, batch)
    torch.testing.assert_close(rough, exact, rtol=0.02, atol=0)


@pytest.mark.parametrize(
    ("name", "value"), [("layers", 0), ("feed", -3), ("width", 15), ("heads", 5), ("norm", "both"), ("dropout", 1.0)]
)
def test_sizes_that_cannot_be(name: str, value: object) -> None:
    with pytest.raises(RegardError, match=r"(width|norm|layers|feed|dropout): found"):
        replace(SIZES, **{name: value})  # type: ignore[arg-type]
