"""What is drawn has the distribution that was asked for, and follows from seed and line alone."""

from __future__ import annotations

import pytest
import torch

from regard.translate.decoding.beam import Beam
from regard.translate.decoding.decode import decode
from regard.translate.decoding.penalty import Penalty
from regard.translate.decoding.sampling import Sampling, kept
from regard.translate.text.vocabulary import EOS, UNK
from tests.translate.decoding.conftest import random_model

SOURCE = [5, 7, 4, EOS]


def test_draws_are_as_frequent_as_they_are_probable() -> None:
    """2,000 draws of one piece; padding and begin, which are never said, leave their probability to the others."""
    model = random_model("bahdanau", 9, 6, 3)
    drawn = decode(model, [SOURCE], Sampling(2000, unknown=True, longest=1))[0]
    said = decode(model, [SOURCE], Beam(5, 5, unknown=True, longest=1))[0]
    exact = torch.tensor([one.log_p for one in said], dtype=torch.float64).exp()
    assert len(said) == 4
    for one, p in zip(said, (exact / exact.sum()).tolist(), strict=True):
        share = sum(each.ids == one.ids for each in drawn) / len(drawn)
        assert abs(share - p) <= 4 * (p * (1 - p) / len(drawn)) ** 0.5  # four standard deviations
        assert {each.log_p for each in drawn if each.ids == one.ids} == {one.log_p}


def test_few_pieces_or_a_low_temperature_take_the_likeliest() -> None:
    model = random_model("transformer", 9, 31, 3)
    greedy = decode(model, [SOURCE], Beam(1))[0][0]
    for how in (Sampling(top_k=1), Sampling(top_p=1e-6), Sampling(temperature=1e-4)):
        assert decode(model, [SOURCE], how)[0][0].ids == greedy.ids
    assert len({one.ids for one in decode(model, [SOURCE], Sampling(9, temperature=3.0))[0]}) > 1


def test_what_is_kept() -> None:
    log_p = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    for k, p, count in ((0, 1.0, 4), (3, 1.0, 3), (0, 0.4, 1), (0, 0.41, 2), (0, 0.7, 2), (0, 0.91, 4), (2, 0.95, 2)):
        assert int((kept(log_p, 1.0, k, p)[0] > 0).sum()) == count
    weights, order = kept(log_p.flip(0), 0.5, 0, 1.0)
    torch.testing.assert_close(weights, torch.tensor([16.0, 9, 4, 1], dtype=torch.float64) / 30)
    assert order.tolist() == [3, 2, 1, 0]


def test_seed_line_and_draw_settle_it() -> None:
    model = random_model("bahdanau", 9, 31, 3)
    how = Sampling(3, seed=5)
    same = decode(model, [SOURCE] * 5, how)
    assert len({tuple(one.ids for one in each) for each in same}) == 5
    assert decode(model, [SOURCE], how, numbers=[3])[0] == same[3]
    assert decode(model, [SOURCE], Sampling(3, seed=6), numbers=[3])[0] != same[3]


def test_draws_are_listed_best_first_by_the_penalty() -> None:
    drawn = decode(random_model("bahdanau", 9, 31, 3), [SOURCE], Sampling(20, penalty=Penalty(0.5)))[0]
    assert [one.score for one in drawn] == sorted((one.score for one in drawn), reverse=True)
    for one in drawn:
        assert one.score == pytest.approx(one.log_p / len(one.ids) ** 0.5)


@pytest.mark.parametrize("how", [Beam(3, 3), Sampling(3)], ids=["beam", "sampling"])
def test_a_prefix_is_said_and_then_the_model_goes_on(how: Beam | Sampling) -> None:
    """What follows is what the model says after it: the constrained search is exhaustive over what goes on."""
    model = random_model("transformer", 9, 31, 8)
    prefix = [9, UNK, 20]
    for one in decode(model, [SOURCE, SOURCE], how, prefixes=[prefix, []])[0]:
        assert one.ids[:3] == tuple(prefix)
        assert UNK not in one.ids[3:]
    assert decode(model, [SOURCE], how, prefixes=[[]]) == decode(model, [SOURCE], how)
    how = Beam(31**2, 1, Penalty(0.0), longest=2)
    found = decode(model, [SOURCE], how, prefixes=[prefix])[0][0]
    rest = [(EOS,)] + [(a, b) for a in range(4, 31) for b in range(3, 31)]
    full = torch.tensor([[*prefix, *each, *[0] * (2 - len(each))] for each in rest])
    previous = torch.cat([torch.full((len(full), 1), 2), full[:, :-1]], 1)
    with torch.no_grad():
        log_p = model(torch.tensor([SOURCE] * len(full)), torch.full((len(full),), 4), previous).log_softmax(-1)
    each = log_p.gather(-1, full.unsqueeze(-1)).squeeze(-1)
    scores = [float(each[n, : 3 + len(r)].sum()) for n, r in enumerate(rest)]
    assert found.log_p == pytest.approx(max(scores), abs=1e-4)
    assert found.ids[3:] == rest[scores.index(max(scores))]
