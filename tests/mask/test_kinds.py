"""Each mask against the matrix it stands for, and what each refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import RegardError, mask
from regard.grid import Grid
from regard.mask import Mask


def matrix(m: Mask, L: int, S: int, B: int = 1, H: int = 1, b: int = 0, h: int = 0) -> list[str]:
    """The allowed matrix as rows of x and . for reading at a glance."""
    seen = m.tensor(B, H, L, S).expand(B, H, L, S)[b, h]
    return ["".join("x" if cell else "." for cell in row) for row in seen.tolist()]


def test_causal_where_the_lengths_agree_needs_no_anchor() -> None:
    assert matrix(mask.causal(), 3, 3) == ["x..", "xx.", "xxx"]


def test_the_four_causal_triangles_of_unequal_lengths() -> None:
    assert matrix(mask.causal("start"), 2, 5) == ["x....", "xx..."]
    assert matrix(mask.causal("end"), 2, 5) == ["xxxx.", "xxxxx"]
    assert matrix(mask.causal("start"), 5, 2) == ["x.", "xx", "xx", "xx", "xx"]
    assert matrix(mask.causal("end"), 5, 2) == ["..", "..", "..", "x.", "xx"]


@pytest.mark.parametrize("m", [mask.causal(), mask.window(1, 1), mask.strided(2)], ids=repr)
def test_where_the_lengths_differ_nobody_guesses_which_ends_meet(m: Mask) -> None:
    wanted = r'L = 1 queries and S = 4 keys differ.*anchor="end" \(the last.*decoding.*anchor="start" \(the first'
    q, k = torch.zeros(1, 8), torch.zeros(4, 8)
    with pytest.raises(RegardError, match=wanted):
        m.tensor(1, 1, 1, 4)
    with pytest.raises(RegardError, match=wanted):
        regard.attend(q, k, k, mask=m)
    strange: Any = "left"
    with pytest.raises(RegardError, match="anchor is 'left', wanted"):
        mask.causal(strange).tensor(1, 1, 2, 3)


def test_decoding_one_query_at_the_end_reads_every_key_and_at_the_start_only_the_first() -> None:
    q, k, v = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8)
    for engine in ("reference", "sdpa"):
        whole = regard.attend(q, k, v, engine=engine)
        assert torch.allclose(regard.attend(q, k, v, mask=mask.causal("end"), engine=engine), whole, atol=1e-6)
        first = regard.attend(q, k, v, mask=mask.causal("start"), engine=engine)
        assert torch.allclose(first, v[:, :, :1], atol=1e-6)


def test_stepwise_decoding_equals_the_full_causal_pass_for_any_number_of_new_tokens() -> None:
    x = torch.randn(1, 2, 10, 8, dtype=torch.float64)
    for m in (mask.causal("end"), mask.window(3, 0, "end"), mask.strided(3, "end") & mask.causal("end")):
        full = regard.attend(x, x, x, mask=m)
        for start, stop in ((0, 4), (4, 5), (5, 8), (8, 10)):
            step = regard.attend(x[:, :, start:stop], x[:, :, :stop], x[:, :, :stop], mask=m)
            assert (step - full[:, :, start:stop]).abs().max() < 1e-12


def test_a_causal_read_does_not_move_when_the_future_does() -> None:
    x = torch.randn(1, 2, 7, 8, dtype=torch.float64, requires_grad=True)
    for engine in ("reference", "sdpa"):
        out = regard.attend(x, x, x, mask=mask.causal(), engine=engine)
        for t in range(7):
            (moved,) = torch.autograd.grad(out[:, :, t].sum(), x, retain_graph=True)
            assert (moved[:, :, t + 1 :] == 0).all()
            assert moved[:, :, t].abs().sum() > 0


def test_a_window_counts_neighbours_and_always_sees_its_own_place() -> None:
    assert matrix(mask.window(1, 0), 4, 4) == ["x...", "xx..", ".xx.", "..xx"]
    assert matrix(mask.window(0, 2), 4, 4) == ["xxx.", ".xxx", "..xx", "...x"]
    assert matrix(mask.window(0, 0), 3, 3) == ["x..", ".x.", "..x"]
    assert matrix(mask.window(None, 0), 3, 3) == matrix(mask.causal(), 3, 3)
    assert matrix(mask.window(1, None), 3, 3) == ["xxx", "xxx", ".xx"]
    assert matrix(mask.window(None, None, "end"), 2, 3) == ["xxx", "xxx"]


@pytest.mark.parametrize("reach", [6, 7, 100, None])
def test_a_window_as_wide_as_the_memory_is_the_whole_causal_mask(reach: int | None) -> None:
    assert torch.equal(mask.window(reach, 0).tensor(1, 1, 7, 7), mask.causal().tensor(1, 1, 7, 7))


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_the_measured_reach_of_a_window_is_the_declared_one(engine: str) -> None:
    x = torch.randn(1, 1, 9, 8, dtype=torch.float64)
    v = torch.randn(1, 1, 9, 8, dtype=torch.float64, requires_grad=True)
    out = regard.attend(x, x, v, mask=mask.window(3, 0), engine=engine)
    (moved,) = torch.autograd.grad(out[0, 0, 8].sum(), v)
    assert (moved.abs().sum(-1)[0, 0] > 0).tolist() == [False] * 5 + [True] * 4  # window(3, 0) is four keys


def test_padding_hides_what_lies_past_each_length() -> None:
    m = mask.padding(torch.tensor([0, 2, 3]))
    assert [matrix(m, 1, 3, 3, b=b) for b in range(3)] == [["..."], ["xx."], ["xxx"]]
    assert mask.padding([1, 3]).natural_size == (2, 0, 3, 3)


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_more_padding_changes_nothing_and_unmasked_padding_does(engine: str) -> None:
    q, k, v = (torch.randn(1, 2, n, 8, dtype=torch.float64) for n in (3, 3, 3))
    alone = regard.attend(q, k, v, engine=engine)
    padded_k, padded_v = (torch.nn.functional.pad(x, (0, 0, 0, 7)) for x in (k, v))
    masked = regard.attend(q, padded_k, padded_v, mask=mask.padding([3]), engine=engine)
    assert (masked - alone).abs().max() < 1e-12
    leaky = regard.read(q, padded_k, padded_v, engine=engine, groups={"padding": torch.arange(10) >= 3})
    assert leaky.mass["padding"].mean() > 0.4  # a zero key scores 0, which is not −inf
    share = 1 - leaky.mass["padding"].unsqueeze(-1)
    assert (leaky.output - share * alone).abs().max() < 1e-12  # zero values only shrink the read


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_padding_belongs_to_its_batch_row_also_when_there_are_as_many_rows_as_key_heads(engine: str) -> None:
    q, k, v = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    m = mask.padding([5, 3])
    both = regard.attend(q, k, v, mask=m, engine=engine)
    assert torch.allclose(both[0], regard.attend(q[0], k[0], v[0], engine=engine), atol=1e-6)
    assert torch.allclose(both[1], regard.attend(q[1], k[1, :, :3], v[1, :, :3], engine=engine), atol=1e-6)


def test_segments_see_their_own_and_a_negative_id_sees_and_is_seen_by_nobody() -> None:
    m = mask.segments([0, 0, 1, -1])
    assert matrix(m, 4, 4) == ["xx..", "xx..", "..x.", "...."]
    cross = mask.segments(torch.tensor([[0, 1, 1]]), query_ids=[1, 0])
    assert matrix(cross, 2, 3) == [".xx", "x.."]
    many = mask.segments(torch.tensor([[0, 1], [0, 0]]))
    assert matrix(many, 2, 2, 2, b=0) == ["x.", ".x"]
    assert matrix(many, 2, 2, 2, b=1) == ["xx", "xx"]


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_packed_documents_read_as_if_they_were_alone(engine: str) -> None:
    x = torch.randn(1, 2, 7, 8, dtype=torch.float64)
    packed = regard.attend(x, x, x, mask=mask.segments([0] * 3 + [1] * 4) & mask.causal(), engine=engine)
    for part in (slice(0, 3), slice(3, 7)):
        own = x[:, :, part]
        alone = regard.attend(own, own, own, mask=mask.causal(), engine=engine)
        assert (packed[:, :, part] - alone).abs().max() < 1e-12


def test_strides_count_from_the_query() -> None:
    assert matrix(mask.strided(2), 4, 4) == ["x.x.", ".x.x", "x.x.", ".x.x"]
    assert matrix(mask.strided(3, "end"), 2, 5) == ["x..x.", ".x..x"]
    assert matrix(mask.strided(3, "start"), 2, 5) == ["x..x.", ".x..x"]
    assert matrix(mask.strided(1), 2, 2) == ["xx", "xx"]


def test_blocks_are_seen_whole_or_not_at_all() -> None:
    table = torch.tensor([[[True, False], [False, True]], [[False, True], [True, True]]])
    m = mask.blocks(table, 2)
    assert matrix(m, 3, 4, 1, 2, h=0) == ["xx..", "xx..", "..xx"]
    assert matrix(m, 3, 4, 1, 2, h=1) == ["..xx", "..xx", "xxxx"]
    with pytest.raises(RegardError, match=r"a 2 × 2 table of size 2 covers L ≤ 4, S ≤ 4; the read has L = 5, S = 4"):
        m.tensor(1, 2, 5, 4)


def test_dense_broadcasts_from_the_right_and_refuses_what_does_not_fit() -> None:
    keys = torch.tensor([[True, False, True], [False, True, True]])
    assert matrix(mask.dense(keys[:, None, None, :]), 2, 3, 2, b=1) == [".xx", ".xx"]
    assert mask.dense(torch.tensor(True)).tensor(1, 1, 2, 3).all()
    wanted = r"mask dense: found \(B, H, L, S\) = \(1, 1, 2, 3\), the read has \(2, 5, 4, 3\).*mask\[:, None, None, :\]"
    q, k = torch.zeros(2, 5, 4, 8), torch.zeros(2, 5, 3, 8)
    for engine in ("auto", "reference", "sdpa"):
        with pytest.raises(RegardError, match=wanted):
            regard.attend(q, k, k, mask=mask.dense(keys), engine=engine)


@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_a_boolean_tensor_given_as_the_mask_is_dense(engine: str) -> None:
    q, k = torch.randn(2, 5, 4, 8), torch.randn(2, 5, 3, 8)
    allowed = torch.rand(4, 3) > 0.4
    bare: Any = allowed
    assert torch.equal(
        regard.attend(q, k, k, mask=bare, engine=engine),
        regard.attend(q, k, k, mask=mask.dense(allowed), engine=engine),
    )


def test_where_takes_any_predicate_on_index_tensors_and_nothing_else() -> None:
    assert matrix(mask.where(lambda b, h, i, j: (i + j + h) % 2 == 0), 2, 3, 1, 2, h=1) == [".x.", "x.x"]
    with pytest.raises(RegardError, match=r"mask where: the function gave torch.int64, wanted a boolean tensor"):
        mask.where(lambda b, h, i, j: i * j).tensor(1, 1, 2, 2)
    with pytest.raises(RegardError, match="the function gave bool"):
        mask.where(lambda b, h, i, j: True).tensor(1, 1, 2, 2)  # type: ignore[arg-type, return-value]


def test_masks_of_integers_are_refused_with_the_converter_that_is_wanted() -> None:
    q, k = torch.zeros(2, 8), torch.zeros(3, 8)
    integers: Any = torch.ones(2, 3, dtype=torch.int64)
    with pytest.raises(RegardError, match=r"found torch.int64, wanted booleans, True = may look.*from_huggingface"):
        regard.attend(q, k, k, mask=integers)
    with pytest.raises(RegardError, match=r"found torch.float32, wanted booleans.*from_additive"):
        mask.dense(torch.zeros(2, 3))
    with pytest.raises(RegardError, match="mask dense: found list"):
        mask.dense([[True]])  # type: ignore[arg-type]
    with pytest.raises(RegardError, match="up to four axes"):
        mask.dense(torch.ones(1, 1, 1, 1, 1, dtype=torch.bool))
    with pytest.raises(RegardError, match=r"blocks: table: found torch.int64|blocks.*wanted booleans"):
        mask.blocks(torch.ones(2, 2, dtype=torch.int64), 2)
    strange: Any = "causal"
    with pytest.raises(RegardError, match=r"mask: found str, wanted an object of regard.mask"):
        regard.attend(q, k, k, mask=strange)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda: mask.padding(torch.tensor([[1, 0]])),
            r"lengths is \(1, 2\).*one integer a batch row.*from_huggingface",
        ),
        (lambda: mask.padding(torch.tensor([1.0])), "torch.float32, wanted one integer"),
        (lambda: mask.padding(torch.tensor([True, False])), "torch.bool.*from_torch_key_padding"),
        (lambda: mask.segments(torch.tensor([0.5])), r"segments: ids is \(1,\) of torch.float32, wanted integers"),
        (lambda: mask.segments([0], query_ids=torch.tensor(0)), "segments: query_ids"),
        (lambda: mask.window(-1, 0), "window: left is -1, wanted a count of neighbours"),
        (lambda: mask.window(0, -2), "window: right is -2"),
        (lambda: mask.strided(0), "strided: n is 0, wanted at least 1"),
        (lambda: mask.blocks([[True]], 0), "blocks: size is 0, wanted at least 1"),
        (lambda: mask.blocks(torch.ones(2, dtype=torch.bool), 2), r"found shape \(2,\), wanted \(rows, columns\)"),
    ],
)
def test_a_mask_that_cannot_be_says_what_it_wants(build: Any, words: str) -> None:
    with pytest.raises(RegardError, match=words):
        build()


@pytest.mark.parametrize(
    ("m", "words"),
    [
        (mask.padding([1, 2, 3]), r"padding: lengths is for 3 batch rows, the read has B = 2.*unsqueeze\(1\)"),
        (mask.segments([0, 1]), r"segments: ids is \(1, 2\), the read has S = 5; wanted \(S,\) or \(B, S\)"),
        (mask.segments([0] * 5), r"segments: query_ids is \(1, 5\), the read has L = 4"),
        (mask.segments(torch.zeros(3, 5, dtype=torch.int64), [0] * 4), "segments: ids is for 3 batch rows"),
        (mask.blocks([[True]], 2), "covers L ≤ 2, S ≤ 2; the read has L = 4, S = 5"),
        (mask.dense(torch.ones(3, 1, 1, 5, dtype=torch.bool)), r"found \(B, H, L, S\) = \(3, 1, 1, 5\)"),
    ],
    ids=lambda x: repr(x)[:30],
)
@pytest.mark.parametrize("engine", ["reference", "sdpa"])
def test_a_mask_that_does_not_fit_the_read_says_both_sizes(m: Mask, words: str, engine: str) -> None:
    q, k = torch.zeros(2, 3, 4, 8), torch.zeros(2, 3, 5, 8)
    with pytest.raises(RegardError, match=words):
        regard.attend(q, k, k, mask=m, engine=engine)


def test_a_finite_fill_hides_nothing_in_an_empty_row_and_a_mask_does() -> None:
    s = torch.tensor([3.0, 1.0, -2.0, 7.0]) - 1e9
    assert torch.softmax(s, -1).tolist() == [0.25] * 4  # no NaN, and no mask either
    k = torch.eye(4)
    w = regard.weights(torch.tensor([[3.0, 1.0, -2.0, 7.0]]), k, score="dot", mask=mask.dense(torch.zeros(4).bool()))
    assert w.tolist() == [[0.0] * 4]


def test_a_mask_acts_before_the_softmax_and_by_minus_infinity() -> None:
    scores = torch.tensor([[2.0, 0.0, -1.0, -3.0]])
    first_two = mask.dense(torch.tensor([True, True, False, False]))
    w = regard.weights(scores, torch.eye(4), score="dot", mask=first_two)
    assert w[0].tolist() == pytest.approx([0.881, 0.119, 0, 0], abs=1e-3)
    raised = regard.weights(scores + torch.tensor([0, 0, 0, 12.0]), torch.eye(4), score="dot", mask=first_two)
    assert torch.allclose(raised, w)  # a forbidden score does not leak through the denominator


@pytest.mark.parametrize("m", [mask.causal(), mask.padding([2, 4]), mask.dense(torch.rand(4, 4) > 0.5)], ids=repr)
def test_the_kernels_own_flag_and_a_mask_are_never_given_together(m: Mask) -> None:
    flag, tensor = m.sdpa_flags(Grid.of(2, 1, 4, 4))
    assert not (flag and tensor is not None)
    assert flag or tensor is not None


def test_the_kernels_causal_flag_is_used_only_where_it_means_the_same() -> None:
    assert mask.causal().sdpa_flags(Grid.of(1, 1, 5, 5)) == (True, None)
    assert mask.causal("end").sdpa_flags(Grid.of(1, 1, 5, 5)) == (True, None)
    assert mask.causal("start").sdpa_flags(Grid.of(1, 1, 2, 5)) == (True, None)  # the kernel's triangle is top left
    flag, tensor = mask.causal("end").sdpa_flags(Grid.of(1, 1, 2, 5))
    assert not flag
    assert isinstance(tensor, Tensor)
    assert mask.causal("end").sdpa_flags(Grid.of(1, 1, 1, 5)) == (False, None)  # one query at the end sees all
    flag, tensor = (mask.causal() & mask.padding([3])).sdpa_flags(Grid.of(1, 1, 5, 5))
    assert not flag
    assert isinstance(tensor, Tensor)
    with pytest.raises(RegardError, match="anchor"):
        mask.causal().sdpa_flags(Grid.of(1, 1, 2, 5))


def test_a_minus_infinite_score_of_a_visible_key_is_not_a_crash() -> None:
    assert not math.isnan(regard.weights(torch.zeros(1, 2), torch.zeros(3, 2)).sum().item())
