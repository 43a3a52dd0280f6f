"""Many heads: against a loop over everything, and the properties that must hold."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import regard
from regard import mask, nn, normalize, position, score

B, L, S, D, M, H, G, E = 2, 5, 7, 18, 11, 6, 3, 13


def weight(layer: nn.MultiHead, name: str) -> tuple[Tensor, Tensor]:
    return layer.get_parameter(f"{name}.weight").data, layer.get_parameter(f"{name}.bias").data


def looped(layer: nn.MultiHead, x: Tensor, memory: Tensor, allowed: Callable[[int, int, int, int], bool]) -> Tensor:
    """Scaled-dot attention of the layer's weights, one number at a time, in float64."""
    wq, bq = weight(layer, "query")
    wk, bk = weight(layer, "key")
    wv, bv = weight(layer, "value")
    wo, bo = weight(layer, "out")
    d, e = wq.shape[0] // layer.heads, wv.shape[0] // layer.kv_heads
    out = torch.zeros(x.shape[0], x.shape[1], layer.width, dtype=torch.float64)
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            heads = torch.zeros(layer.heads * e, dtype=torch.float64)
            for h in range(layer.heads):
                g = h // (layer.heads // layer.kv_heads)
                q = wq[h * d : (h + 1) * d] @ x[b, i] + bq[h * d : (h + 1) * d]
                total = 0.0
                for j in range(memory.shape[1]):
                    if not allowed(b, h, i, j):
                        continue
                    k = wk[g * d : (g + 1) * d] @ memory[b, j] + bk[g * d : (g + 1) * d]
                    v = wv[g * e : (g + 1) * e] @ memory[b, j] + bv[g * e : (g + 1) * e]
                    unnormalised = math.exp(float(sum(q[c] * k[c] for c in range(d))) / math.sqrt(d))
                    heads[h * e : (h + 1) * e] += unnormalised * v
                    total += unnormalised
                heads[h * e : (h + 1) * e] /= total or 1.0
            out[b, i] = wo @ heads + bo
    return out


@pytest.mark.parametrize("talking", [False, True], ids=["plain", "talking heads that say nothing"])
def test_it_equals_a_loop_over_everything_under_all_masks_at_once(talking: bool) -> None:
    table = torch.rand(H, 3, 3) < 0.8
    masks = (
        mask.causal(anchor="end")
        & mask.window(4, 2, anchor="end")
        & mask.padding([S, 4])
        & mask.blocks(table, 3)
        & (mask.strided(3, anchor="end") | mask.segments([0, 1, 0, 1, 0, 1, 0], query_ids=[0, 0, 1, 1, 0]))
        & ~mask.where(lambda b, h, i, j: (h == 2) & (i == 1))  # an empty row
    )
    layer = nn.MultiHead(
        D, H, G, memory_width=M, value_width=E, mask=masks, talking=nn.TalkingHeads(H) if talking else None
    ).double()
    x, memory = torch.randn(B, L, D).double(), torch.randn(B, S, M).double()
    query_segments = [0, 0, 1, 1, 0]

    def allowed(b: int, h: int, i: int, j: int) -> bool:
        place = i + S - L
        return (
            j <= place
            and -4 <= j - place <= 2
            and j < (S, 4)[b]
            and bool(table[h, i // 3, j // 3])
            and ((place - j) % 3 == 0 or query_segments[i] == j % 2)
            and not (h == 2 and i == 1)
        )

    torch.testing.assert_close(layer(x, memory), looped(layer, x, memory, allowed), atol=1e-10, rtol=0)


def test_without_a_memory_it_reads_itself() -> None:
    layer = nn.MultiHead(D, H).double()
    x = torch.randn(B, L, D).double()
    torch.testing.assert_close(layer(x), looped(layer, x, x, lambda *_: True), atol=1e-10, rtol=0)
    assert torch.equal(layer(x), layer(x, x))


@pytest.mark.parametrize("hidden", ["none", "padding", "causal", "both"])
def test_it_equals_torchs_layer_with_the_same_weights(hidden: str) -> None:
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=True).double()
    ours = nn.MultiHead(D, H).double()
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        for name, w, b in zip(
            ("query", "key", "value"), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
        ):
            ours.get_parameter(f"{name}.weight").copy_(w)
            ours.get_parameter(f"{name}.bias").copy_(b)
        ours.get_submodule("out").load_state_dict(theirs.out_proj.state_dict())
    x = torch.randn(B, L, D).double()
    ignored = torch.arange(L) >= torch.tensor([[L], [3]])  # True = ignore, their convention
    future = torch.ones(L, L, dtype=torch.bool).triu(1)
    padded, causal = hidden in ("padding", "both"), hidden in ("causal", "both")
    expected, expected_weights = theirs(
        x,
        x,
        x,
        key_padding_mask=ignored if padded else None,
        attn_mask=future if causal else None,
        average_attn_weights=False,
    )
    seen: regard.mask.Mask = mask.where(lambda b, h, i, j: j == j)
    if padded:
        seen = seen & mask.from_torch_key_padding(ignored)
    if causal:
        seen = seen & mask.from_torch_attn_mask(future)
    torch.testing.assert_close(ours(x, mask=seen), expected, atol=1e-10, rtol=0)
    torch.testing.assert_close(ours.weights(x, mask=seen), expected_weights, atol=1e-10, rtol=0)


def test_one_head_is_single_head_attention() -> None:
    many, one = nn.MultiHead(D, 1, bias=False), nn.Attention(D, project="qkv", score="scaled_dot")
    for name in ("query", "key", "value"):
        one.get_parameter(f"{name}.weight").data = many.get_parameter(f"{name}.weight").data
    many.get_parameter("out.weight").data = torch.eye(D)
    x = torch.randn(B, L, D)
    torch.testing.assert_close(many(x), one(x, x))


def test_shuffling_the_input_shuffles_the_output_unless_it_is_causal() -> None:
    x, order = torch.randn(B, L, D).double(), torch.tensor([3, 0, 4, 1, 2])
    layer = nn.MultiHead(D, H, G).double()
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], atol=1e-12, rtol=0)
    causal = nn.MultiHead(D, H, G, mask=mask.causal()).double()
    assert (causal(x[:, order]) - causal(x)[:, order]).abs().max() > 0.05


def test_shuffling_the_memory_changes_nothing() -> None:
    layer = nn.MultiHead(D, H, memory_width=M).double()
    x, memory, order = torch.randn(B, L, D).double(), torch.randn(B, S, M).double(), torch.randperm(S)
    torch.testing.assert_close(layer(x, memory[:, order]), layer(x, memory), atol=1e-12, rtol=0)


@pytest.mark.parametrize("talking", [None, nn.TalkingHeads(H)], ids=["plain", "talking"])
def test_a_causal_layer_has_no_derivative_in_what_comes_later(talking: nn.TalkingHeads | None) -> None:
    layer = nn.MultiHead(D, H, mask=mask.causal(), talking=talking).double()
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x).sum(-1), torch.randn(L, D).double())
    reach = jacobian.abs().sum(-1)  # (L of the output, L of the input)
    assert bool((reach.triu(1) == 0).all())
    assert bool((reach.diagonal() > 0).all())


def logits(layer: nn.MultiHead, tokens: Tensor, lengths: list[int], extra: int, masked: bool) -> Tensor:
    """A pooled sentence whose padding is not zero, as it is after biases and positions."""
    padded = torch.cat([tokens, torch.full((len(lengths), extra, D), 0.7)], 1)
    seen = mask.padding(lengths) if masked else None
    real = torch.arange(padded.shape[1]) < torch.tensor(lengths)[:, None]
    output: Tensor = layer(padded, mask=seen)
    return (output * real[..., None]).sum(1) / torch.tensor(lengths)[:, None]


def test_more_padding_changes_nothing_and_would_if_it_were_not_masked() -> None:
    layer, tokens, lengths = nn.MultiHead(D, H), torch.randn(B, S, D), [S, 4]
    few, many = (logits(layer, tokens, lengths, extra, masked=True) for extra in (1, 17))
    torch.testing.assert_close(few, many, atol=1e-6, rtol=0)
    few, many = (logits(layer, tokens, lengths, extra, masked=False) for extra in (1, 17))
    assert (few - many).abs().max() > 0.05


@pytest.mark.parametrize("talking", [False, True], ids=["plain", "talking"])
def test_rubbish_in_padding_reaches_nothing(talking: bool) -> None:
    layer = nn.MultiHead(D, H, G, talking=nn.TalkingHeads(H) if talking else None)
    x, memory, seen = torch.randn(B, L, D), torch.randn(B, S, D), mask.padding([4, 3])
    expected, weights = layer(x, memory[:, :4], seen), layer.weights(x, memory[:, :4], seen)
    for rubbish in (torch.nan, torch.inf, 1e30):
        memory[:, 4:] = rubbish
        torch.testing.assert_close(layer(x, memory, seen), expected)
        torch.testing.assert_close(layer.weights(x, memory, seen)[..., :4], weights)


def test_permuting_heads_in_all_four_projections_changes_nothing() -> None:
    layer = nn.MultiHead(D, H).double()
    x, order = torch.randn(B, L, D).double(), torch.tensor([4, 2, 0, 5, 3, 1])
    before = layer(x)
    for name in ("query", "key", "value"):
        for kind in ("weight", "bias"):
            p = layer.get_parameter(f"{name}.{kind}")
            p.data = p.data.unflatten(0, (H, -1))[order].flatten(0, 1)
    out = layer.get_parameter("out.weight")
    out.data = out.data.unflatten(1, (H, -1))[:, order].flatten(1)
    torch.testing.assert_close(layer(x), before, atol=1e-12, rtol=0)


def test_grouped_heads_are_heads_whose_keys_and_values_are_copies() -> None:
    grouped, full = nn.MultiHead(D, H, G).double(), nn.MultiHead(D, H).double()
    state = grouped.state_dict()
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        state[name] = state[name].unflatten(0, (G, -1)).repeat_interleave(H // G, 0).flatten(0, 1)
    full.load_state_dict(state)
    x = torch.randn(B, L, D).double()
    torch.testing.assert_close(grouped(x), full(x), atol=1e-12, rtol=0)


def test_the_layers_mask_and_the_calls_mask_hold_together() -> None:
    layer = nn.MultiHead(D, H, mask=mask.causal())
    w = layer.weights(torch.randn(B, L, D), mask=torch.arange(L) != 2)
    assert bool((w.triu(1) == 0).all())
    assert bool((w[..., 2] == 0).all())


def test_independent_projections_do_not_favour_the_diagonal() -> None:
    shares = [nn.MultiHead(64, 1).weights(torch.randn(1, 20, 64)).diagonal(0, -2, -1).mean() for _ in range(60)]
    assert abs(torch.stack(shares).mean() - 1 / 20) < 0.01
    same = nn.Attention(64, project="", score="scaled_dot")
    x = torch.randn(1, 20, 64)
    assert same.weights(x, x).diagonal(0, -2, -1).mean() > 0.9


@pytest.mark.parametrize(
    "part",
    [
        lambda: position.Rotary(score.ScaledDot()),
        lambda: score.ScaledDot() + position.ALiBi(H),
        lambda: score.ScaledDot() + position.RelativeBias(H, reach=3),
    ],
    ids=["rotary", "ALiBi", "relative bias"],
)
def test_positions_come_with_the_score(part: Callable[[], score.Score]) -> None:
    layer = nn.MultiHead(36, H, score=part())
    for p in layer.score.parameters():
        p.data.normal_()
    x, order = torch.randn(B, L, 36), torch.tensor([3, 0, 4, 1, 2])
    assert (layer(x[:, order]) - layer(x)[:, order]).abs().max() > 1e-3
    # Only distances count: a query two places later, keys two places later, gives the same weights.
    memory = torch.randn(1, 1, 36).expand(1, L, 36)
    w = regard.scores(
        *(layer.get_submodule(n)(memory).unflatten(-1, (H, -1)).transpose(1, 2) for n in ("query", "key")),
        score=layer.score,
    )
    torch.testing.assert_close(w[..., 1, 0], w[..., 4, 3], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("talking", [False, True], ids=["plain", "talking"])
def test_parts_with_parameters_learn_in_every_head(talking: bool) -> None:
    for part in (
        score.General(D // H, D // H, heads=H),
        score.Additive(D // H, D // H, width=7),
        score.Concat(D // H, D // H, width=7),
        score.Learned.mlp(D // H, D // H, width=7),
    ):
        alpha = torch.nn.Parameter(torch.full((H,), 1.4))
        layer = nn.MultiHead(
            D, H, score=part, normalize=normalize.Entmax(alpha), talking=nn.TalkingHeads(H) if talking else None
        )
        if isinstance(part, score.Additive):
            part.energy.data.normal_()  # it starts at 0, as published, where no gradient reaches the rest
        layer(torch.randn(B, L, D), mask=mask.padding([L, 3])).square().sum().backward()
        for name, p in layer.named_parameters():
            assert p.grad is not None, name
            assert bool(p.grad.isfinite().all()), name
            # One number more for all scores of a row changes no weight: its gradient is 0, or what rounding leaves.
            alike = name in ("key.bias", "score.function.out.bias")
            assert alike or bool(p.grad.abs().max() > 0), name


def test_autocast_reads_in_the_narrow_type() -> None:
    for talking in (None, nn.TalkingHeads(H)):
        layer, x = nn.MultiHead(D, H, talking=talking), torch.randn(B, L, D)
        with torch.autocast("cpu", torch.bfloat16):
            found = layer(x, mask=mask.causal())
        torch.testing.assert_close(found.float(), layer(x, mask=mask.causal()), atol=0.05, rtol=0.05)


def test_dropout_acts_in_training_alone() -> None:
    x = torch.randn(B, L, D)
    for talking in (None, nn.TalkingHeads(H)):
        layer = nn.MultiHead(D, H, dropout=0.5, talking=talking)
        assert not torch.equal(layer(x), layer(x))
        layer.eval()
        assert torch.equal(layer(x), layer(x))


def test_an_empty_row_gives_the_bias_of_the_last_projection() -> None:
    for talking in (None, nn.TalkingHeads(H)):
        layer = nn.MultiHead(D, H, talking=talking)
        y = layer(torch.randn(B, L, D), mask=mask.padding([0, L]))
        torch.testing.assert_close(y[0], layer.get_parameter("out.bias").expand(L, D))
        y.sum().backward()
        assert all(bool(p.grad.isfinite().all()) for p in layer.parameters() if p.grad is not None)


def test_a_plain_layer_has_four_squares_of_parameters() -> None:
    assert sum(p.numel() for p in nn.MultiHead(D, H).parameters()) == 4 * D * D + 4 * D
    assert sum(p.numel() for p in nn.MultiHead(D, H, bias=False).parameters()) == 4 * D * D


def test_a_reading_shows_every_head() -> None:
    layer = nn.MultiHead(D, H, G, value_width=E, dropout=0.5)
    x = torch.randn(B, L, D)
    reading = layer.read(x, groups={"first": torch.arange(L) < 1})
    assert reading.output.shape == (B, H, L, E)
    w = layer.weights(x)
    torch.testing.assert_close(reading.mass["first"], w[..., 0], atol=1e-5, rtol=0)
    assert reading.entropy is not None
    torch.testing.assert_close(reading.entropy, -(w * w.log()).sum(-1), atol=1e-5, rtol=0)


def test_leading_axes_may_be_fewer_or_more() -> None:
    for talking in (None, nn.TalkingHeads(H)):
        layer = nn.MultiHead(D, H, G, talking=talking, mask=mask.causal(anchor="start"))
        x, memory = torch.randn(3, B, L, D), torch.randn(3, B, S, D)
        one_by_one = torch.stack([torch.stack([layer(x[a, b], memory[a, b]) for b in range(B)]) for a in range(3)])
        torch.testing.assert_close(layer(x, memory), one_by_one, atol=1e-5, rtol=1e-5)
        assert layer.weights(x, memory).shape == (3, B, H, L, S)


def test_its_state_goes_out_and_in() -> None:
    def build() -> nn.MultiHead:
        return nn.MultiHead(
            D,
            H,
            G,
            score=score.ScaledDot() + position.RelativeBias(H, 2),
            talking=nn.TalkingHeads(H),
            normalize=normalize.Softmax(sink=torch.nn.Parameter(torch.zeros(H))),
        )

    one, other = build(), build()
    for p in one.parameters():
        p.data.normal_(std=0.5)
    assert {"score.bias.weight", "talking.before", "talking.after", "normalize.sink"} <= set(one.state_dict())
    other.load_state_dict(one.state_dict())
    x = torch.randn(B, L, D)
    assert torch.equal(one(x), other(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("talking", [False, True], ids=["plain", "talking"])
def test_half_precision_stays_finite_and_close(dtype: torch.dtype, talking: bool) -> None:
    layer = nn.MultiHead(D, H, talking=nn.TalkingHeads(H) if talking else None, mask=mask.padding([L, 0]))
    x = 4 * torch.randn(B, L, D)
    expected = layer(x)
    found = layer.to(dtype)(x.to(dtype))
    assert found.dtype == dtype
    assert bool(found.isfinite().all())
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("talking", [False, True], ids=["plain", "talking"])
def test_it_compiles_whole(talking: bool) -> None:
    layer = nn.MultiHead(
        36,
        H,
        G,
        score=position.Rotary(score.ScaledDot()),
        mask=mask.causal(),
        talking=nn.TalkingHeads(H) if talking else None,
    )
    x = torch.randn(B, L, 36)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: nn.MultiHead(17, 6), "width: found D = 17 for H = 6 heads"),
        (lambda: nn.MultiHead(18, 6, 4), "kv_heads: found G = 4 for H = 6"),
        (lambda: nn.MultiHead(18, 6, talking=nn.TalkingHeads(5)), r"wanted TalkingHeads\(6\)"),
        (lambda: nn.MultiHead(18, 6, dropout=1.0), "dropout: found 1.0"),
        (lambda: nn.TalkingHeads(0), "heads is 0"),
        (lambda: nn.MultiHead(18, 6)(torch.ones(2, 5, 17)), r"x: found \(2, 5, 17\), wanted \(…, L, D\) with D = 18"),
        (lambda: nn.MultiHead(18, 6)(torch.ones(2, 5, 18), torch.ones(2, 7, 17)), r"memory: found \(2, 7, 17\)"),
        (lambda: nn.MultiHead(18, 6)(torch.ones(2, 5, 18), torch.ones(3, 7, 18)), r"leading axes \(3,\), x has \(2,\)"),
        (lambda: nn.MultiHead(18, 6, score="scaled"), "did you mean 'scaled_dot'"),
        (lambda: nn.MultiHead(18, 6)(torch.ones(2, 5, 18), mask=torch.ones(5, 5)), "wanted booleans, True = may look"),
        (lambda: nn.MultiHead(18, 6, mask=mask.causal())(torch.ones(2, 5, 18), torch.ones(2, 7, 18)), 'anchor="end"'),
        (
            lambda: nn.MultiHead(18, 6, talking=nn.TalkingHeads(6)).read(torch.ones(2, 5, 18)),
            "talking heads are no distributions",
        ),
    ],
)
def test_bad_input_is_named_with_what_was_wanted(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(regard.RegardError, match=message):
        attempt()
