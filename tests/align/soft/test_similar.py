"""Vectors choose one another: both ways, by any normaliser, symmetric in the sentences."""

from __future__ import annotations

import pytest
import torch

from regard.align.soft.similar import SIMILARITIES, Similarity, named
from regard.errors import RegardError
from regard.normalize import Entmax, Softmax

NAMES = sorted(SIMILARITIES)


@pytest.mark.parametrize("name", NAMES)
def test_vectors_far_apart_choose_themselves_wherever_they_stand(name: str) -> None:
    x = 9 * torch.randn(7, 31, dtype=torch.float64)
    order = torch.randperm(7)
    found = named(name)(x, x[order])
    assert torch.equal((found > 0).double(), torch.eye(7, dtype=torch.float64)[:, order])


@pytest.mark.parametrize("name", NAMES)
def test_exchanging_the_sentences_transposes(name: str) -> None:
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.randn(7, 3, dtype=torch.float64)
    torch.testing.assert_close(named(name)(x, y), named(name)(y, x).mT)


def test_softmax_is_awesome_align_s_formula() -> None:
    x, y = torch.randn(5, 11, dtype=torch.float64), torch.randn(7, 11, dtype=torch.float64)
    similar = x @ y.mT
    a, b = similar.softmax(-1), similar.softmax(-2)
    wanted = (a > 1e-3) & (b > 1e-3)
    assert 0 < int(wanted.sum()) < 35
    assert torch.equal(named("softmax")(x, y) > 0, wanted)


def test_argmax_is_simalign_s_intersection() -> None:
    x, y = torch.randn(13, 3, dtype=torch.float64), torch.randn(11, 3, dtype=torch.float64)
    cosine = torch.nn.functional.cosine_similarity(x.unsqueeze(1), y.unsqueeze(0), dim=-1)
    wanted = {(i, int(cosine[i].argmax())) for i in range(13)} & {(int(cosine[:, j].argmax()), j) for j in range(11)}
    assert set(map(tuple, (named("argmax")(x, y) > 0).nonzero().tolist())) == wanted


def test_any_normaliser_does() -> None:
    x = torch.randn(5, 3)
    cold, warm = (Similarity(Softmax(t), threshold=0.2)(x, x) > 0 for t in (0.1, 9.0))
    assert cold.sum() < warm.sum()  # each vector finds itself alone, or many
    sharp, round_ = (Similarity(Entmax(a), threshold=0.0)(x, x) > 0 for a in (2.0, 1.1))
    assert sharp.sum() <= round_.sum()


def test_nothing_to_look_at_links_nothing() -> None:
    assert named("softmax")(torch.zeros(0, 3), torch.zeros(5, 3)).shape == (0, 5)
    assert named("argmax")(torch.zeros(5, 3), torch.zeros(0, 3)).shape == (5, 0)


def test_what_cannot_be() -> None:
    with pytest.raises(RegardError, match="similarity: unknown name 'softmx'; did you mean 'softmax'"):
        named("softmx")
    with pytest.raises(RegardError, match=r"threshold: found 1\.5, wanted a weight"):
        Similarity(threshold=1.5)
