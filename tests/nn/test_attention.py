"""One head with projections: what it computes, what it can learn, what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import regard
from regard import mask, nn, normalize, score

TOY = torch.tensor([[[1.0, 0.1], [0.5, 0.5], [0.0, 1.0], [-0.8, 0.2]]], dtype=torch.float64)
ASKED = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
RIGHT = [0.46735327, 0.28346409, 0.17192966, 0.07725298]
IN_CIRCULATION = [0.451, 0.273, 0.165, 0.111]


def test_without_projections_it_is_the_four_line_read() -> None:
    layer = nn.Attention(2, project="")
    assert list(layer.parameters()) == []
    torch.testing.assert_close(
        layer.weights(ASKED, TOY)[0], torch.tensor(RIGHT, dtype=torch.float64), atol=1e-8, rtol=0
    )
    wanted = torch.tensor([[0.54728294, 0.37584763]], dtype=torch.float64)
    torch.testing.assert_close(layer(ASKED, TOY), wanted, atol=1e-8, rtol=0)


def test_the_weights_in_circulation_are_not_these() -> None:
    off = (nn.Attention(2, project="").weights(ASKED, TOY)[0] - torch.tensor(IN_CIRCULATION)).abs().max()
    assert off > 0.03


def test_with_a_projected_query_it_is_the_bilinear_score() -> None:
    layer = nn.Attention(5, 3, project="q").double()
    query, memory = torch.randn(2, 5).double(), torch.randn(2, 7, 3).double()
    general = score.General(5, 3).double()
    general.weight.data = layer.get_parameter("query.weight").data.T
    expected = regard.attend(query[:, None, None], memory[:, None], memory[:, None], score=general)
    torch.testing.assert_close(layer(query, memory), expected[:, 0, 0], atol=1e-12, rtol=0)
    assert [tuple(p.shape) for p in layer.parameters()] == [(3, 5)]


def test_a_key_projection_adds_parameters_and_no_function() -> None:
    two = nn.Attention(5, 3, project="qk").double()
    one = nn.Attention(5, 3, project="q").double()
    key, query = two.get_parameter("key.weight").data, two.get_parameter("query.weight").data
    one.get_parameter("query.weight").data = key.T @ query
    asked, memory = torch.randn(2, 5).double(), torch.randn(2, 7, 3).double()
    torch.testing.assert_close(one(asked, memory), two(asked, memory), atol=1e-12, rtol=0)


@pytest.mark.parametrize(("project", "count"), [("", 0), ("q", 15), ("k", 9), ("qk", 24), ("qkv", 33)])
def test_it_holds_the_projections_it_was_asked_for(project: str, count: int) -> None:
    assert sum(p.numel() for p in nn.Attention(5, 3, project=project).parameters()) == count


def test_one_query_is_many_queries_of_which_there_is_one() -> None:
    layer = nn.Attention(5, 3, project="qkv")
    query, memory = torch.randn(2, 5), torch.randn(2, 7, 3)
    assert layer(query, memory).shape == (2, 3)
    assert layer.weights(query, memory).shape == (2, 7)
    assert torch.equal(layer(query, memory), layer(query[:, None], memory)[:, 0])
    assert torch.equal(layer.weights(query, memory), layer.weights(query[:, None], memory)[:, 0])
    alone = layer(query[0], memory[0])  # no batch axis at all
    torch.testing.assert_close(alone, layer(query, memory)[0])


def test_score_normalizer_and_mask_are_objects_that_are_passed() -> None:
    layer = nn.Attention(
        5,
        3,
        project="v",
        score=score.Additive(5, 3, width=11),
        normalize=normalize.Sparsemax(),
        mask=mask.padding([7, 4]),
    )
    for name, spread in (("energy", 30.0), ("query.weight", 1.0), ("key.weight", 1.0)):
        layer.score.get_parameter(name).data.normal_(std=spread)
    weights = layer.weights(torch.randn(2, 13, 5), torch.randn(2, 7, 3), mask=mask.where(lambda b, h, i, j: j != 0))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 13))
    assert bool((weights[1, :, 4:] == 0).all())
    assert bool((weights[..., 0] == 0).all())
    assert bool((weights[0, :, 1:] == 0).any())  # sparsemax


def test_the_read_and_the_reading_are_of_the_weights_under_both_masks() -> None:
    layer = nn.Attention(5, 3, project="q", mask=mask.padding([7, 4]))
    query, memory, now = torch.randn(2, 13, 5), torch.randn(2, 7, 3), mask.window(1, 1, anchor="start")
    weights = layer.weights(query, memory, now)
    torch.testing.assert_close(layer(query, memory, now), weights @ memory)
    torch.testing.assert_close(layer.read(query, memory, now).output[:, 0], weights @ memory)
    assert not torch.allclose(weights, layer.weights(query, memory))


def test_a_named_normalizer_is_the_layers_own() -> None:
    nn.Attention(5, normalize="gumbel").eval()
    assert nn.Attention(5, normalize="gumbel").normalize.training


def test_a_reading_is_of_one_head() -> None:
    layer = nn.Attention(5, 3)
    reading = layer.read(torch.randn(2, 13, 5), torch.randn(2, 7, 3), telemetry="entropy")
    assert reading.output.shape == (2, 1, 13, 3)
    assert reading.entropy is not None
    assert reading.entropy.shape == (2, 1, 13)


def test_a_query_that_may_see_nothing_reads_nothing() -> None:
    layer = nn.Attention(5, 3, project="qkv", mask=mask.padding([0, 7]))
    memory = torch.randn(2, 7, 3, requires_grad=True)
    output = layer(torch.randn(2, 5), memory)
    assert bool((output[0] == 0).all())
    output.sum().backward()
    assert memory.grad is not None
    assert bool((memory.grad[0] == 0).all())


def retrieved(frozen: bool, seed: int) -> float:
    """Accuracy of finding the key that a hidden rotation of the query points at, after 200 steps."""
    torch.manual_seed(seed)
    width, candidates = 8, 16
    hidden = torch.linalg.qr(torch.randn(width, width)).Q
    layer = nn.Attention(width, project="q")

    def batch(size: int) -> tuple[Tensor, Tensor, Tensor]:
        memory = torch.nn.functional.normalize(torch.randn(size, candidates, width), dim=-1)
        answer = torch.randint(candidates, (size,))
        return 8 * memory[torch.arange(size), answer] @ hidden, memory, answer

    head = torch.nn.Parameter(torch.ones(()))  # both arms have something to train
    layer.requires_grad_(not frozen)
    optimiser = torch.optim.Adam([head, *layer.parameters()] if not frozen else [head], lr=0.03)
    for _ in range(200):
        query, memory, answer = batch(64)
        loss = -(layer.weights(head * query, memory)[torch.arange(64), answer] + 1e-9).log().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    query, memory, answer = batch(500)
    return (layer.weights(query, memory).argmax(-1) == answer).float().mean().item()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_learns_to_retrieve_and_cannot_with_its_projection_frozen(seed: int) -> None:
    torch.set_num_threads(1)
    assert retrieved(frozen=False, seed=seed) > 0.95
    assert retrieved(frozen=True, seed=seed) < 0.5


@pytest.mark.parametrize("project", ["q", "qk", "qkv"])
def test_autocast_narrows_what_is_projected_and_what_is_not(project: str) -> None:
    layer, query, memory = nn.Attention(5, 3, project=project), torch.randn(2, 5), torch.randn(2, 7, 3)
    expected = layer(query, memory)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(query, memory)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.05, rtol=0.05)


def test_half_precision_stays_finite_where_a_score_would_overflow() -> None:
    layer = nn.Attention(5, project="qkv").half()
    x = torch.full((2, 7, 5), 200.0).half()
    x[:, 0] = -200.0
    assert bool(layer(x[:, 0], x).isfinite().all())


def test_it_compiles_whole() -> None:
    layer = nn.Attention(5, 3, project="qkv")
    query, memory = torch.randn(2, 13, 5), torch.randn(2, 7, 3)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(query, memory), layer(query, memory))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: nn.Attention(5, project="qq"), "project: found 'qq', wanted letters among \"qkv\""),
        (lambda: nn.Attention(5, project="qo"), "project: found 'qo'"),
        (lambda: nn.Attention(5, 3)(torch.ones(2, 4), torch.ones(2, 7, 3)), r"query: found \(2, 4\).*Dq = 5"),
        (lambda: nn.Attention(5, 3)(torch.ones(2, 5), torch.ones(2, 7, 4)), r"memory: found \(2, 7, 4\).*Dm = 3"),
        (lambda: nn.Attention(5, 3)(torch.ones(3, 5), torch.ones(2, 7, 3)), r"query: found leading axes \(3,\)"),
        (lambda: nn.Attention(5, 3)(torch.ones(1, 2, 7, 5), torch.ones(2, 7, 3)), r"query: found \(1, 2, 7, 5\)"),
        (lambda: nn.Attention(5, 3, project="k")(torch.ones(2, 5), torch.ones(2, 7, 3)), "q has width D = 5"),
        (lambda: nn.Attention(5, score="dott"), "did you mean 'dot'"),
        (lambda: nn.Attention(5, mask=3), "mask: found int, wanted an object of regard.mask"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_named_with_what_was_wanted(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(regard.RegardError, match=message):
        attempt()
