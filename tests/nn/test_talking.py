"""Talking heads: what mixing keeps, and what it breaks on purpose."""

from __future__ import annotations

import torch

from regard import mask, nn
from regard.normalize import Softmax

B, L, S, D, H = 2, 5, 7, 18, 6


def test_heads_that_say_nothing_are_plain_heads() -> None:
    plain, talking = nn.MultiHead(D, H).double(), nn.MultiHead(D, H, talking=nn.TalkingHeads(H)).double()
    talking.load_state_dict(plain.state_dict() | {"talking.before": torch.eye(H), "talking.after": torch.eye(H)})
    x, memory = torch.randn(B, L, D).double(), torch.randn(B, S, D).double()
    for hidden in (None, mask.padding([S, 3]), mask.causal(anchor="end")):
        torch.testing.assert_close(talking(x, memory, hidden), plain(x, memory, hidden), atol=1e-10, rtol=0)


def test_it_equals_the_published_sums_written_out() -> None:
    talk, s = nn.TalkingHeads(3).double(), torch.randn(3, 2, 5).double()
    for p in talk.parameters():
        p.data.normal_()
    mixed = torch.zeros_like(s)
    for h in range(3):
        for g in range(3):
            mixed[h] += talk.before[g, h].detach() * s[g]
    w, expected = mixed.exp() / mixed.exp().sum(-1, keepdim=True), torch.zeros_like(s)
    for h in range(3):
        for g in range(3):
            expected[h] += talk.after[g, h].detach() * w[g]
    torch.testing.assert_close(talk(s, Softmax(), None), expected, atol=1e-12, rtol=0)


def test_the_row_sums_of_a_head_are_the_column_sum_of_the_last_mixing() -> None:
    layer = nn.MultiHead(D, H, talking=nn.TalkingHeads(H))
    after = layer.get_parameter("talking.after")
    after.data.normal_()
    w = layer.weights(torch.randn(B, L, D), mask=mask.causal())
    torch.testing.assert_close(w.sum(-1), after.sum(0).view(1, H, 1).expand(B, H, L), atol=1e-5, rtol=0)
    assert bool((w < 0).any())


def test_columns_that_are_distributions_make_rows_that_are() -> None:
    layer = nn.MultiHead(D, H, talking=nn.TalkingHeads(H))
    layer.get_parameter("talking.after").data = torch.rand(H, H).softmax(0)
    layer.get_parameter("talking.before").data.normal_()
    w = layer.weights(torch.randn(B, L, D), mask=mask.padding([L, 3]))
    torch.testing.assert_close(w.sum(-1), torch.ones(B, H, L))
    assert bool((w >= 0).all())


def test_the_read_leaves_the_hull_of_its_values() -> None:
    talk = nn.TalkingHeads(2).requires_grad_(False)
    talk.after.copy_(torch.tensor([[1.0, -1.0], [0.0, 1.0]]))  # head 1 gives what it would, minus what head 0 gives
    s = torch.tensor([[[2.0, 0.0, 0.0]], [[0.0, 2.0, 2.0]]])  # (H, L, S)
    values = torch.tensor([[1.0], [0.0], [0.0]])
    heads = talk(s, Softmax(), None) @ values
    assert 0 < float(heads[0]) < 1
    assert float(heads[1]) < -0.5


def test_the_mask_comes_after_the_first_mixing() -> None:
    layer = nn.MultiHead(D, H, talking=nn.TalkingHeads(H))
    layer.get_parameter("talking.before").data.normal_()
    w = layer.weights(torch.randn(B, L, D), mask=mask.causal())
    assert bool(w.isfinite().all())
    assert bool((w.triu(1) == 0).all())
    s = torch.randn(1, H, L, L).masked_fill(torch.ones(L, L, dtype=torch.bool).triu(1), -torch.inf)
    assert bool(layer.talking is not None and layer.talking(s, Softmax(), None).isnan().any())  # what it avoids


def test_gradients_reach_both_mixings() -> None:
    layer = nn.MultiHead(D, H, talking=nn.TalkingHeads(H)).double()
    assert layer.talking is not None
    x, before, after = torch.randn(1, 3, D).double(), layer.talking.before.data, layer.talking.after.data

    def read(p: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.func.functional_call(layer, {"talking.before": p, "talking.after": w}, (x,))
        return found

    inputs = (before.requires_grad_(), after.requires_grad_())
    assert torch.autograd.gradcheck(read, inputs)
