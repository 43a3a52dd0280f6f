"""Stacked attention: the whole of the paper in loops, what is its own in every layer, and what must not be mixed up."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.nn import StackedAttention
from regard.normalize import Sparsemax

B, S, F, D, A, N = 3, 7, 5, 11, 13, 17
Numbers = list[float]


def made(layers: int = 2) -> StackedAttention:
    """In double precision, all numbers drawn, biases too."""
    net = StackedAttention(D, F, N, layers=layers, hidden=A).double()
    for p in net.parameters():
        p.data.normal_()
    return net


def asked() -> tuple[Tensor, Tensor]:
    return torch.randn(B, D, dtype=torch.float64), torch.randn(B, S, F, dtype=torch.float64)


def affine(W: list[Numbers], x: Numbers, b: Numbers | None = None) -> Numbers:
    rows = [sum(w * a for w, a in zip(row, x, strict=True)) for row in W]
    return rows if b is None else [r + c for r, c in zip(rows, b, strict=True)]


def by_the_paper(
    net: StackedAttention, v_Q: Numbers, f: list[Numbers], b_P: float = 0.7
) -> tuple[Numbers, list[Numbers]]:
    """Yang et al. 2016: equation 2 for v_I, 19 to 22 for each layer (15 to 18 are the first), 23 before its softmax."""
    p = {name: value.tolist() for name, value in net.named_parameters()}
    v = [[math.tanh(x) for x in affine(p["regions.weight"], one, p["regions.bias"])] for one in f] if net.scores else []
    u, looks = v_Q, []
    for k in range(len(net.scores)):
        W_Q, b_A = p[f"scores.{k}.query.weight"], p[f"scores.{k}.query.bias"]
        W_I, W_P = p[f"scores.{k}.key.weight"], p[f"scores.{k}.energy"]
        asking = affine(W_Q, u, b_A)
        h = [[math.tanh(a + b) for a, b in zip(affine(W_I, one), asking, strict=True)] for one in v]
        s = [sum(w * x for w, x in zip(W_P, one, strict=True)) + b_P for one in h]
        e = [math.exp(x - max(s)) for x in s]
        look = [x / sum(e) for x in e]
        u = [u[d] + sum(w * one[d] for w, one in zip(look, v, strict=True)) for d in range(len(u))]
        looks.append(look)
    return affine(p["answer.weight"], u, p["answer.bias"]), looks


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_the_network_is_the_paper(layers: int) -> None:
    net, (question, regions) = made(layers), asked()
    logits, weights = net(question, regions), net.weights(question, regions)
    assert weights.shape == (B, layers, S)
    found = net.recall(question, regions)
    for b in range(B):
        wanted, looks = by_the_paper(net, question[b].tolist(), regions[b].tolist())
        torch.testing.assert_close(logits[b].tolist(), wanted, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(weights[b].tolist(), looks, rtol=1e-10, atol=1e-10)
        for hop, look in zip(found.hops, looks, strict=True):
            assert hop.peak is not None
            assert hop.peak[b].item() == pytest.approx(max(look), abs=1e-10)
    torch.testing.assert_close(net.answer(found.query[:, 0]), logits)


def test_gradients_are_those_of_finite_differences() -> None:
    net, (question, regions) = made(), asked()
    names = [name for name, _ in net.named_parameters()]
    there = torch.rand(B, S) < 0.7

    def run(question: Tensor, regions: Tensor, *numbers: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(
            net, dict(zip(names, numbers, strict=True)), (question, regions), {"valid": there}
        )
        return found

    given = [x.detach().requires_grad_() for x in (question, regions, *net.parameters())]
    assert torch.autograd.gradcheck(run, given, fast_mode=True)


def test_every_number_learns() -> None:
    """Also from the start as it is made: no matrix waits for another to leave 0."""
    net = StackedAttention(D, F, N, layers=3)
    question, regions = torch.randn(B, D), torch.randn(B, S, F)
    torch.nn.functional.cross_entropy(net(question, regions), torch.tensor([1, 5, 16])).backward()
    for name, p in net.named_parameters():
        assert p.grad is not None, name
        assert bool((p.grad != 0).any()), name


def test_what_was_seen_is_added_and_every_layer_has_its_own() -> None:
    """Concatenated, W_u would be wider with every layer; shared, the numbers would not grow by a layer's."""
    layer = A * D + A * D + A + A  # W_Q, W_I, b_A, W_P
    counts = [sum(p.numel() for p in made(K).parameters()) for K in range(4)]
    assert counts[0] == N * D + N
    assert [b - a for a, b in pairwise(counts)] == [D * F + D + layer, layer, layer]
    net, (question, regions) = made(), asked()
    before = net.weights(question, regions)
    for p in net.scores[1].parameters():
        p.data.normal_()
    after = net.weights(question, regions)
    torch.testing.assert_close(after[:, 0], before[:, 0])
    assert bool(((after - before)[:, 1].abs().amax(-1) > 1e-3).all())


def test_without_layers_the_image_is_not_looked_at() -> None:
    net, (question, regions) = made(0), asked()
    torch.testing.assert_close(net(question, regions), net(question, torch.randn_like(regions)))
    assert net.recall(question, regions).hops == ()


def test_regions_have_no_order_and_those_that_are_not_there_are_not_seen() -> None:
    net, (question, regions) = made(), asked()
    order = torch.randperm(S)
    torch.testing.assert_close(net(question, regions[:, order]), net(question, regions))
    there = torch.ones(B, S, dtype=torch.bool)
    there[:, [1, 4]] = False
    there[2] = False
    spoilt = torch.where(there[..., None], regions, 1e3)
    found = net(question, spoilt, valid=there)
    torch.testing.assert_close(found[:2], net(question[:2], regions[:2][:, there[0]]))
    torch.testing.assert_close(found[2], net.answer(question[2]))  # nothing to see: the question alone
    weights = net.weights(question, spoilt, valid=there)
    assert bool((weights[~there[:, None].expand(B, 2, S)] == 0).all())


def test_each_layer_can_be_looked_at() -> None:
    net, (question, regions) = made(), asked()
    group = torch.arange(S) < torch.tensor([[1], [3], [7]])
    found = net.recall(question, regions, groups={"first": group}, telemetry="entropy")
    weights = net.weights(question, regions)
    for k, hop in enumerate(found.hops):
        torch.testing.assert_close(hop.mass["first"].flatten(), (weights[:, k] * group).sum(-1))
        assert hop.entropy is not None
        torch.testing.assert_close(hop.entropy.flatten(), torch.special.entr(weights[:, k]).sum(-1))


def test_another_normaliser_may_stand_in() -> None:
    net = StackedAttention(D, F, N, normalize=Sparsemax())
    for p in net.parameters():
        p.data.normal_()
    weights = net.weights(torch.randn(B, D), torch.randn(B, S, F))
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 2))
    assert bool((weights == 0).any())


def net() -> StackedAttention:
    return StackedAttention(D, F, N)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: StackedAttention(0, F, N), "width is 0, wanted a whole number of at least 1"),
    (lambda: StackedAttention(D, F, N, layers=-1), "layers is -1, wanted a whole number of at least 0"),
    (lambda: StackedAttention(D, F, N, hidden=0), "hidden is 0"),
    (lambda: StackedAttention(D, F, 2.5), "answers is 2.5"),  # type: ignore[arg-type]
    (lambda: net()(torch.zeros(B, D + 1), torch.zeros(B, S, F)), r"question is \(3, 12\) and regions \(3, 7, 5\)"),
    (lambda: net()(torch.zeros(B, D), torch.zeros(B + 1, S, F)), r"wanted \(B, 11\) and \(B, S, 5\)"),
    (lambda: net()(torch.zeros(B, D), torch.zeros(B, F)), "wanted"),
    (lambda: net()(torch.zeros(B, D), torch.zeros(B, S, F + 2)), "make the layer with features=7"),
    (lambda: net()(torch.zeros(B, D), torch.zeros(B, S, F), valid=torch.ones(B, S)), "valid is .* wanted booleans"),
    (lambda: net()(torch.zeros(B, D), torch.zeros(B, S, F), valid=torch.ones(S) > 0), r"booleans \(3, 7\)"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[f"{n}: {message}" for n, (_, message) in enumerate(BAD)])
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        call()
