"""Handwriting synthesis: the network with plain loops, parts of a sequence, rows, what is written and when it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import regard
from regard.memory.soft_window import Moved
from regard.nn import HandwritingSynthesis, PenMixture
from regard.nn.handwriting import HandState

B, T, U, E, N, K, M = 2, 6, 3, 5, 7, 4, 3
F64 = torch.float64


def hand(peepholes: bool = True, layers: int = 3) -> HandwritingSynthesis:
    found = HandwritingSynthesis(E, N, layers=layers, windows=K, mixtures=M, peepholes=peepholes).double()
    for p in found.parameters():
        torch.nn.init.normal_(p, std=0.4)
    return found


def texts(batch: int = B) -> Tensor:
    return torch.randint(E, (batch, U))


def by_steps(model: HandwritingSynthesis, strokes: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
    """One row, section 5.1 of the paper step by step: all layers at every step, the window between the first two."""
    state = [(torch.zeros(1, N, dtype=F64), torch.zeros(1, N, dtype=F64)) for _ in model.layers]
    places, read = torch.zeros(K, dtype=F64), torch.zeros(E, dtype=F64)
    outputs, ways = [], []
    layers: list[Any] = list(model.layers)
    for x in strokes:
        state[0] = layers[0].step(torch.cat([x, read])[None], state[0])
        h = state[0][0][0]
        numbers = model.tell.weight @ h + model.tell.bias
        alpha, beta = numbers[:K].exp(), numbers[K : 2 * K].exp()
        places = places + numbers[2 * K :].exp()
        read = torch.zeros(E, dtype=F64)
        for u, letter in enumerate(text.tolist(), start=1):
            read[letter] += (alpha * (-beta * (places - u) ** 2).exp()).sum()
        answer = model.answer.bias + model.answer.weight[:, :N] @ h
        for n in range(1, len(layers)):
            state[n] = layers[n].step(torch.cat([x, h, read])[None], state[n])
            h = state[n][0][0]
            answer = answer + model.answer.weight[:, n * N : (n + 1) * N] @ h
        outputs.append(answer)
        ways.append(places)
    return torch.stack(outputs), torch.stack(ways)


@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
def test_the_network_is_the_papers(peepholes: bool, layers: int) -> None:
    model, strokes, text = hand(peepholes, layers), torch.randn(B, T, 3, dtype=F64), texts()
    followed, _ = model(strokes, model.reset(text))
    for b in range(B):
        outputs, places = by_steps(model, strokes[b], text[b])
        for found, wanted in zip(followed.pen, PenMixture.of(outputs), strict=True):
            torch.testing.assert_close(found[b], wanted, rtol=0, atol=1e-10)
        torch.testing.assert_close(followed.places[b], places, rtol=0, atol=1e-10)
    assert bool((followed.places.diff(dim=1) > 0).all())


@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("cut", [0, 1, 4, 6])
def test_a_sequence_in_parts_is_the_sequence(peepholes: bool, cut: int) -> None:
    model, strokes = hand(peepholes), torch.randn(B, T, 3, dtype=F64)
    whole, last = model(strokes, model.reset(text := texts()))
    first, state = model(strokes[:, :cut], model.reset(text))
    second, end = model(strokes[:, cut:], state)
    for a, b, c in zip(first.pen, second.pen, whole.pen, strict=True):
        torch.testing.assert_close(torch.cat([a, b], 1), c, rtol=0, atol=1e-13)
    for a, b in zip(end[1:], last[1:], strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("peepholes", [True, False])
def test_rows_of_their_own_lengths_are_as_alone(peepholes: bool) -> None:
    model, strokes, text = hand(peepholes), torch.randn(3, T, 3, dtype=F64), texts(3)
    valid = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1]]).bool()
    letters = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]]).bool()
    strokes[~valid], text[~letters] = torch.nan, -7
    followed, state = model(strokes, model.reset(text, valid=letters), valid=valid)
    for b in range(3):
        alone, end = model(strokes[b : b + 1, valid[b]], model.reset(text[b : b + 1, letters[b]]))
        for a, c in zip(followed.pen, alone.pen, strict=True):
            torch.testing.assert_close(a[b, valid[b]], c[0], rtol=0, atol=1e-13)
        for a, c in zip(state[1:], end[1:], strict=True):
            torch.testing.assert_close(a[b], c[0], rtol=0, atol=1e-13)
    sum(part[valid].sum() for part in followed.pen).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_the_loss_is_that_of_the_next_point_and_padding_is_not_in_it() -> None:
    model, strokes, text = hand(), torch.randn(2, T, 3, dtype=F64), texts()
    valid = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]).bool()
    padded = strokes.masked_fill(~valid.unsqueeze(-1), torch.nan)
    rows = []
    for b in range(2):
        n = int(valid[b].sum())
        before = torch.cat([torch.zeros(1, 3, dtype=F64), strokes[b, : n - 1]])
        outputs, _ = by_steps(model, before, text[b])
        rows.append(-PenMixture.of(outputs).log_density(strokes[b, :n]))
    found = model.loss(padded, text, valid=valid)
    torch.testing.assert_close(found, torch.cat(rows).mean(), rtol=0, atol=1e-10)
    found.backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []
    with pytest.raises(regard.RegardError, match="wanted padding on the right"):
        model.loss(strokes, text, valid=valid.flip(1))


def test_rows_know_nothing_of_each_other() -> None:
    model, strokes = hand(), torch.randn(3, T, 3, dtype=F64, requires_grad=True)
    followed, _ = model(strokes, model.reset(texts(3)))
    (gradient,) = torch.autograd.grad(followed.pen.means[1].sum(), strokes)
    assert gradient[[0, 2]].abs().max() == 0
    assert gradient[1].abs().amax(-1).min() > 0


class Clerk(HandwritingSynthesis):
    """One whose windows are told to go a third of a character at every step, whatever it sees."""

    def __init__(self) -> None:
        super().__init__(E, N, windows=1, mixtures=1)
        with torch.no_grad():
            self.tell.weight.zero_()
            self.tell.bias.copy_(torch.tensor([0.0, 2.0, math.log(1 / 3)]))


def test_a_row_ends_when_the_window_is_past_its_text() -> None:
    clerk, generator = Clerk(), torch.Generator().manual_seed(2)
    valid = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]).bool()
    line = clerk.write(torch.zeros(3, 4, dtype=torch.long), valid=valid, generator=generator)
    # φ(U + 1) > φ(U) once κ = t / 3 > U + ½: with U = 4 at t = 14, which is not drawn any more; with U = 2 at t = 8
    assert line.valid.sum(1).tolist() == [13, 7, 0]
    assert line.strokes.shape == (3, 13, 3)
    assert line.strokes[~line.valid].abs().max() == 0
    assert line.strokes[line.valid][:, :2].abs().min() > 0
    assert line.ended.tolist() == [True, True, True]
    assert line.weights.shape == (3, 13, 4)
    short = clerk.write(torch.zeros(2, 4, dtype=torch.long), valid=valid[:2], limit=9)
    assert short.ended.tolist() == [False, True]
    assert short.valid.sum(1).tolist() == [9, 7]
    assert clerk.write(torch.zeros(2, 4, dtype=torch.long), limit=0).strokes.shape == (2, 0, 3)
    assert clerk.write(torch.zeros(2, 0, dtype=torch.long)).ended.tolist() == [True, True]


def test_what_is_written_is_drawn_from_the_density_and_repeats_with_its_generator() -> None:
    model, text = hand().float(), texts()
    lines = [model.write(text, limit=5, bias=0.5, generator=torch.Generator().manual_seed(n)) for n in (1, 1, 2)]
    assert torch.equal(lines[0].strokes, lines[1].strokes)
    assert not torch.equal(lines[0].strokes, lines[2].strokes)
    still = model.write(text[:1], limit=4, bias=60.0)  # every point is the likeliest mean, so a step shows where it is
    state: HandState = model.reset(text[:1])
    x = torch.zeros(1, 3)
    for t in range(still.strokes.shape[1]):
        pen, state = model.step(x, state)
        wanted = pen.means[0, pen.logits[0].argmax()]
        torch.testing.assert_close(still.strokes[0, t, :2], wanted, rtol=0, atol=1e-3)
        x = still.strokes[:, t]


def test_windows_start_at_the_pace_they_are_told() -> None:
    model = HandwritingSynthesis(E, N, windows=K, pace=0.2)
    torch.nn.init.zeros_(model.tell.weight)
    followed, _ = model(torch.randn(1, T, 3), model.reset(texts(1)))
    torch.testing.assert_close(followed.places[0, -1], torch.full((K,), 0.2 * T))
    assert followed.place.shape == (1, T)


def test_half_precision_keeps_its_windows_in_float32() -> None:
    model = hand().to(torch.bfloat16)
    loss = model.loss(torch.randn(B, T, 3, dtype=torch.bfloat16), texts())
    assert loss.dtype == torch.float32
    loss.backward()
    _, state = model(torch.randn(B, T, 3, dtype=torch.bfloat16), model.reset(texts()))
    assert state.window.places.dtype == torch.float32
    assert state.read.dtype == torch.bfloat16


def test_a_text_of_its_users_own_numbers_can_be_written_into_the_window() -> None:
    model, text = hand(), texts()
    state = model.reset(text)
    empty = model.memory.reset(B, dtype=F64)
    own = state._replace(window=model.memory.write(empty, F.one_hot(text, E).double()))
    strokes = torch.randn(B, T, 3, dtype=F64)
    assert torch.equal(model(strokes, own)[0].weights, model(strokes, state)[0].weights)
    assert model(strokes, state._replace(window=empty))[0].weights.shape == (B, T, 0)
    assert isinstance(model.memory.move(empty, Moved(*torch.zeros(3, B, K, dtype=F64))), tuple)


def test_what_does_not_fit_is_refused() -> None:
    model = hand()
    state, strokes = model.reset(texts()), torch.zeros(B, T, 3, dtype=F64)
    cases: dict[str, Callable[[], object]] = {
        r"hidden is 0": lambda: HandwritingSynthesis(E, 0),
        r"pace is 0": lambda: HandwritingSynthesis(E, N, pace=0),
        r"text is \(3,\) of torch\.int64, wanted integers \(B, U\)": lambda: model.reset(torch.zeros(3).long()),
        r"text has 0 to 5, wanted 0 to 4; padding is told by valid": lambda: model.reset(torch.tensor([[0, 5]])),
        r"valid is \(1, 3\)": lambda: model.reset(torch.tensor([[0, 4]]), valid=torch.ones(1, 3).bool()),
        r"strokes are \(2, 6, 2\)": lambda: model(strokes[..., :2], state),
        r"state is for 2 rows, strokes are 1": lambda: model(strokes[:1], state),
        r"valid is \(2, 5\) of torch\.bool": lambda: model(strokes, state, valid=torch.ones(B, 5).bool()),
        r"limit is -1": lambda: model.write(texts(), limit=-1),
    }
    for message, call in cases.items():
        with pytest.raises(regard.RegardError, match=message):
            call()
