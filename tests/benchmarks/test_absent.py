"""What a sink is for: readers that look at nothing when what is asked for is not there (three seeds)."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.absent import ASKED, BOS, KEYS, LONE, LONE_SINK, SINK, VALUES, Questions, Reader, ask, train


def test_half_of_the_questions_have_no_answer_in_the_memory() -> None:
    given = Questions.draw(17, 5, torch.Generator().manual_seed(0))
    there = given.asked[..., None] == given.keys[:, None]
    assert there[:, :ASKED].sum(-1).eq(1).all()
    assert not there[:, ASKED:].any()
    answer = (there.long() * given.values[:, None]).sum(-1)
    assert torch.equal(given.answers[:, :ASKED], answer[:, :ASKED])
    assert given.answers[:, ASKED:].eq(VALUES).all()
    assert given.keys.max() < KEYS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_bos_is_what_absent_keys_look_at_and_without_it_they_are_lost(seed: int) -> None:
    reader = train(BOS, seed, steps=800)
    kept, evicted = (ask(reader, BOS.pairs, seed, evict=evict) for evict in (False, True))
    assert min(kept.present, kept.absent) > 0.99
    assert kept.first_absent >= 10 * kept.first_present
    assert evicted.loss >= max(5 * kept.loss, 0.08)
    assert evicted.present > 0.99  # what is there is found all the same


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_softmax_with_a_sink_needs_no_token_for_it(seed: int) -> None:
    found = ask(train(SINK, seed, steps=600, rate=1e-2), SINK.pairs, seed)
    assert min(found.present, found.absent) > 0.99


@pytest.mark.slow
def test_of_a_single_pair_softmax_alone_learns_nothing_and_a_sink_does() -> None:
    """Softmax's weight on the one pair is 1 whatever is asked, so the mean loss is ln 2 at least, trained or not."""
    for reader in (Reader(LONE).eval(), train(LONE, 0, steps=300, rate=1e-2)):
        blind = ask(reader, 1, 0)
        assert (blind.first_present, blind.first_absent) == (1.0, 1.0)
        assert blind.loss >= math.log(2)
    seeing = ask(train(LONE_SINK, 0, steps=600, rate=1e-2), 1, 0)
    assert seeing.loss < math.log(2) / 2
    assert min(seeing.present, seeing.absent) > 0.9
