"""Weights become links: pieces become words, the row of a step later, argmax and threshold, and what is refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import mask, nn
from regard.align import symmetrize
from regard.align.links import Links
from regard.align.soft.attention import Fold, fold, links, shifted
from regard.errors import RegardError

WORDS = st.lists(st.integers(-1, 4), max_size=7)


def by_hand(w: torch.Tensor, target: list[int], source: list[int], how: str) -> torch.Tensor:
    """Word by word, piece by piece."""
    out = torch.zeros(max(target, default=-1) + 1, max(source, default=-1) + 1, dtype=w.dtype)
    for j in range(out.shape[0]):
        for i in range(out.shape[1]):
            rows = [t for t, word in enumerate(target) if word == j]
            columns = [s for s, word in enumerate(source) if word == i]
            cells = [[float(w[t, s]) for s in columns] for t in rows]
            if how == "max":
                out[j, i] = max((x for row in cells for x in row), default=0.0)
            else:
                out[j, i] = sum(map(sum, cells)) / max(1, len(rows))
    return out


@given(WORDS, WORDS, st.sampled_from(["sum", "max"]))
def test_words_are_their_pieces(target: list[int], source: list[int], how: Fold) -> None:
    w = torch.rand(3, 2, len(target), len(source), dtype=torch.float64)
    found = fold(w, target, source, how)
    for head in range(3):
        for layer in range(2):
            torch.testing.assert_close(found[head, layer], by_hand(w[head, layer], target, source, how))


def test_words_of_one_piece_are_left_as_they_are() -> None:
    w = torch.rand(5, 3).softmax(-1)
    for how in ("sum", "max"):
        torch.testing.assert_close(fold(w, [0, 1, 2, 3, 4], [0, 1, 2], how), w)


def test_a_row_of_words_keeps_the_mass_of_its_pieces() -> None:
    w = torch.rand(7, 11).softmax(-1)
    found = fold(w, [0, 0, 1, 2, 2, 2, -1], [0, 1, 1, 1, 2, 3, 3, 4, 4, 5, -1])
    torch.testing.assert_close(found.sum(-1) + w[:6, -1].view(6, 1)[[0, 2, 3], 0] * 0, found.sum(-1))
    assert (found.sum(-1) < 1).all()  # the mark's share is nobody's
    everything = fold(w, [0, 0, 1, 2, 2, 2, -1], [0, 1, 1, 1, 2, 3, 3, 4, 4, 5, 6])
    torch.testing.assert_close(everything.sum(-1), torch.ones(3))


def test_the_shift_takes_the_row_of_the_next_step() -> None:
    w = torch.rand(2, 3, 5, 7)
    found = shifted(w)
    assert torch.equal(found[..., :-1, :], w[..., 1:, :])
    assert (found[..., -1, :] == 0).all()
    assert found.shape == w.shape


def test_a_model_that_looks_one_step_late_is_read_right_by_the_shift() -> None:
    """It writes word t and looks at its source at step t + 1: rows are off by one, and the shift puts them right."""
    order = [2, 0, 3, 1]
    late = torch.eye(4)[[0, *order]]  # the look before t is at the source of t - 1; five steps with the end mark
    target, source = [0, 1, 2, 3, -1], [0, 1, 2, 3]
    wanted = Links.of([[(i, j) for j, i in enumerate(order)]])
    assert links([fold(shifted(late), target, source)]).hard == wanted
    assert links([fold(late, target, source)]).hard != wanted


@given(st.integers(0, 5), st.integers(0, 5), st.floats(0.01, 1.0))
def test_links_are_the_cells_they_say(J: int, I: int, threshold: float) -> None:
    w = torch.rand(J, I) * (torch.rand(J, I) > 0.3)
    strong = links([w], threshold=threshold)
    assert strong[0] == [(i, j) for i in range(I) for j in range(J) if float(w[j, i]) >= threshold]
    best = links([w])
    rows = {j for j in range(J) if I and float(w[j].max()) > 0}
    assert sorted(j for _, j in best[0]) == sorted(rows)
    assert all(float(w[j, i]) == float(w[j].max()) for i, j in best[0])
    assert best.probability is not None
    assert all(p == float(w[j, i]) for (i, j), p in zip(best[0], best.probability, strict=True))


def test_sentences_stay_apart_and_in_order() -> None:
    found = links([torch.eye(2), torch.zeros(0, 3), torch.zeros(2, 0), torch.eye(3).flip(0)])
    assert [found[s] for s in range(4)] == [[(0, 0), (1, 1)], [], [], [(0, 2), (1, 1), (2, 0)]]
    assert len(links([])) == 0


def test_two_translators_make_one_alignment() -> None:
    """One looks at the source for each target word, one at the target for each source word."""
    into_target = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.1, 0.7]])  # (J, I)
    into_source = torch.tensor([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])  # (I, J): its targets are the source words
    forward, reverse = links([into_target]), links([into_source]).turned
    assert forward[0] == [(0, 0), (2, 1)]
    assert symmetrize.intersection(forward, reverse)[0] == [(0, 0), (2, 1)]
    assert symmetrize.union(forward, reverse)[0] == [(0, 0), (1, 0), (2, 1)]


def test_a_layer_of_the_package_is_read() -> None:
    """A cross-attention layer whose keys tell its memory apart looks where it was made to look."""
    layer = nn.MultiHead(10, heads=2, bias=False)
    with torch.no_grad():
        for part in (layer.query, layer.key):
            part.weight.copy_(torch.eye(10) * 9)
    memory = torch.eye(10)[:5].repeat(2, 1, 1) + torch.eye(10)[5:].repeat(2, 1, 1)  # (B, S, D)
    order = [3, 0, 4, 1]
    w = layer.weights(memory[:, order], memory, mask=mask.padding([5, 5]))  # (B, H, L, S)
    assert w.shape == (2, 2, 4, 5)
    for head in w.unbind(1):
        assert links(head)[1] == sorted((i, j) for j, i in enumerate(order))


def test_what_cannot_be() -> None:
    w = torch.rand(2, 3)
    with pytest.raises(RegardError, match=r"target: found the words of 3 pieces for weights \(2, 3\)"):
        fold(w, [0, 1, 2], [0, 1, 2])
    with pytest.raises(RegardError, match=r"source: found the words of 2 pieces .* one for each column"):
        fold(w, [0, 1], [0, 1])
    with pytest.raises(RegardError, match="how: found 'mean', wanted sum or max"):
        fold(w, [0, 1], [0, 1, 2], "mean")  # type: ignore[arg-type]
    with pytest.raises(RegardError, match=r"weights: sentence 2 has shape \(3, 2, 3\), wanted \(J, I\)"):
        links([w, w.expand(3, 2, 3)])
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(RegardError, match="sentence 1 holds numbers below 0 or not finite; give weights, not"):
            links([torch.full((2, 2), bad)])
    for threshold in (0.0, -0.5, float("nan")):
        with pytest.raises(RegardError, match="threshold: found"):
            links([w], threshold=threshold)
