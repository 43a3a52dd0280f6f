"""A search against looking at every target there is, and a sentence in a batch against the sentence alone."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.errors import RegardError
from regard.translate import shipped
from regard.translate.decoding.beam import Beam
from regard.translate.decoding.decode import decode
from regard.translate.decoding.penalty import Penalty
from regard.translate.decoding.sampling import Sampling
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.models.transformer import model as transformer
from regard.translate.models.transformer.config import Transformer
from regard.translate.text.vocabulary import BOS, EOS, PAD, UNK
from tests.translate.decoding.conftest import SIZES, random_model

SAYABLE = (UNK, EOS, 4, 5)  # a vocabulary of 4, beside padding and begin, which are never said
OPEN = tuple(piece for piece in SAYABLE if piece != EOS)


def every_target(longest: int) -> list[tuple[int, ...]]:
    """All that end within so many pieces, and all of that length that do not."""
    ended = [(*body, EOS) for n in range(longest) for body in itertools.product(OPEN, repeat=n)]
    return ended + list(itertools.product(OPEN, repeat=longest))


def worth(
    model: EncoderDecoder[Any, Any], source: list[int], targets: list[tuple[int, ...]], penalty: Penalty
) -> list[float]:
    """s(y, x) by equation 14, from the model led through each target."""
    longest = max(map(len, targets))
    full = torch.tensor([[*y, *[PAD] * (longest - len(y))] for y in targets])
    previous = torch.cat([torch.full((len(targets), 1), BOS), full[:, :-1]], 1)
    sources, lengths = torch.tensor([source] * len(targets)), torch.full((len(targets),), len(source))
    with torch.no_grad():
        log_p = model(sources, lengths, previous).double().log_softmax(-1).gather(-1, full.unsqueeze(-1)).squeeze(-1)
        looks = model.align(sources, lengths, previous).double().mean((1, 2))
    found = []
    for n, y in enumerate(targets):
        more = 5 if penalty.length == "wu" else 0
        score = float(log_p[n, : len(y)].sum()) / ((more + len(y)) / (more + 1)) ** penalty.normalise
        covered = looks[n, : len(y), : len(source) - 1].sum(0).clamp(max=1.0)
        found.append(score + penalty.coverage * float(covered.log().sum()))
    return found


@pytest.mark.parametrize(
    ("penalty", "best"),
    [(Penalty(0.0), 1), (Penalty(1.0), 7), (Penalty(2.0, "wu"), 3), (Penalty(0.6, "wu", 0.4), 7)],
    ids=["sum", "mean", "wu", "coverage"],
)
@pytest.mark.parametrize("name", SIZES)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_wide_enough_beam_is_an_exhaustive_search(name: str, seed: int, penalty: Penalty, best: int) -> None:
    model = random_model(name, 9, 6, seed)
    source = [*random.Random(seed).choices(range(4, 9), k=3), EOS]
    targets = every_target(5)
    scores = worth(model, source, targets, penalty)
    wanted = sorted(scores, reverse=True)[:best]
    how = Beam(width=len(OPEN) ** 5 + len(OPEN) ** 4, best=best, penalty=penalty, unknown=True, longest=5)
    found = decode(model, [source], how)[0]
    assert [each.score for each in found] == pytest.approx(wanted, abs=1e-4)
    assert len({each.ids for each in found}) == best
    for each in found:
        assert each.score == pytest.approx(scores[targets.index(each.ids)], abs=1e-4)


def test_a_penalty_can_turn_the_order_and_greedy_misses_what_a_beam_finds() -> None:
    """The test above would pass on models that prefer one target whatever the penalty; these do not."""
    first: dict[str, set[tuple[int, ...]]] = {"short": set(), "long": set(), "covered": set(), "greedy": set()}
    for seed in range(5):
        model = random_model("bahdanau", 9, 6, seed, 0.7)
        for name, penalty, width in (
            ("short", Penalty(0.0), 27),
            ("long", Penalty(2.0), 27),
            ("covered", Penalty(2.0, coverage=3.0), 27),
            ("greedy", Penalty(0.0), 1),
        ):
            how = Beam(width, penalty=penalty, unknown=True, longest=5)
            first[name].add((seed, *decode(model, [[5, 7, 4, EOS]], how)[0][0].ids))
    assert len({*first["short"]} & {*first["long"]}) < 5
    assert len({*first["covered"]} & {*first["long"]}) < 5
    assert len({*first["short"]} & {*first["greedy"]}) < 5


ways = pytest.mark.parametrize(
    "how",
    [Beam(longest=9), Beam(1, longest=5), Beam(3, 3, Penalty(0.6, "wu", 0.3), longest=7), Sampling(2, longest=6)],
    ids=["beam", "greedy", "coverage", "sampling"],
)


@ways
@pytest.mark.parametrize("name", [*SIZES, "shipped"])
def test_a_sentence_in_a_batch_has_the_bits_that_it_has_alone(name: str, how: Beam | Sampling) -> None:
    """Ids, scores, log p and looks, for models large and small, with one thread and with two."""
    model = shipped.load("fr").model if name == "shipped" else random_model(name, 97, 89, 5)
    draw = random.Random(3)
    pieces = min(997, model.config.source_vocabulary)  # and not words that follow each other: states far from those met
    rows = [[*draw.choices(range(4, pieces), k=draw.choice([0, 2, 7])), EOS] for _ in range(23)]
    together = decode(model, rows, how, looking=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        again = decode(model, rows, how, looking=True)
    finally:
        torch.set_num_threads(before)
    assert [list(map(bits, each)) for each in again] == [list(map(bits, each)) for each in together]
    for n in (0, 11, 22):
        alone = decode(model, [rows[n]], how, looking=True, numbers=[n])[0]
        assert list(map(bits, alone)) == list(map(bits, together[n]))


def test_sentences_of_many_lengths_and_a_model_of_real_size_have_the_bits_that_they_have_alone() -> None:
    """Products of real widths go through other routines than those of small ones; sources fill 8, 16 and 24 places."""
    torch.manual_seed(5)
    config = Transformer(
        source_vocabulary=997, target_vocabulary=997, width=256, heads=4, layers=1, feed=512, norm="pre"
    )
    model = transformer.Model(config).eval()
    draw = random.Random(3)
    rows = [[*draw.choices(range(4, 997), k=draw.choice([0, 6, 7, 9, 15, 17, 22])), EOS] for _ in range(37)]
    how = Beam(5, longest=7)
    together = decode(model, rows, how, looking=True)
    assert [list(map(bits, each)) for each in decode(model, rows, how, looking=True, batch=5)] == [
        list(map(bits, each)) for each in together
    ]
    for n in (1, 5, 30):
        alone = decode(model, [rows[n]], how, looking=True, numbers=[n])[0]
        assert list(map(bits, alone)) == list(map(bits, together[n]))


def bits(each: Any) -> tuple[Any, ...]:
    """All of a hypothesis, to the last bit."""
    return each.ids, each.score.hex(), each.log_p.hex(), each.looks.numpy().tobytes()


def test_the_looks_are_those_that_the_model_tells_of() -> None:
    for name in SIZES:
        model = random_model(name, 31, 23, 2)
        source = [5, 9, 7, EOS]
        found = decode(model, [source, [4, EOS]], Beam(3), looking=True)[0][0]
        previous = torch.tensor([[BOS, *found.ids[:-1]]])
        with torch.no_grad():
            looks = model.align(torch.tensor([source]), torch.tensor([4]), previous).mean((1, 2))[0]
        assert found.looks is not None
        torch.testing.assert_close(found.looks, looks)
        assert found.heads == ((2, 5) if name == "transformer" else (1, 1))


@dataclass(frozen=True)
class Read:
    lengths: Tensor


class Blind(EncoderDecoder[Read, Tensor]):
    """Says the same whatever it is given, and never looks."""

    def __init__(self, said: Tensor) -> None:
        super().__init__()
        self.said = torch.nn.Parameter(said)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Read, Tensor]:
        return Read(lengths), torch.zeros(len(source), 1, 1)

    def step(self, state: Tensor, previous: Tensor, memory: Read) -> tuple[Tensor, Tensor]:
        return self.said.expand(*previous.shape, -1), state + 1

    def hidden(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        raise AssertionError("a search asks for steps alone")

    def vocabulary(self, hidden: Tensor) -> Tensor:
        raise AssertionError("a search asks for steps alone")

    def align(self, source: Tensor, lengths: Tensor, previous: Tensor) -> Tensor:
        raise AssertionError("a search asks for steps alone")


def test_a_model_that_never_looks_translates_and_refuses_what_needs_looks() -> None:
    model = Blind(torch.tensor([9.0, 9.0, 9.0, 0.5, 2.0, 1.0]))
    assert decode(model, [[4, EOS]], Beam(1, longest=3))[0][0].ids == (4, 4, 4)
    for how in (Beam(penalty=Penalty(coverage=0.1)), Sampling(penalty=Penalty(coverage=0.1))):
        with pytest.raises(RegardError, match="looks: this model reads its source once"):
            decode(model, [[4, EOS]], how)


def test_a_search_goes_on_while_something_could_still_win() -> None:
    """A mean over pieces rises along a target that becomes surer and surer; stopping at the first end would miss it."""

    class Surer(Blind):
        def step(self, state: Tensor, previous: Tensor, memory: Read) -> tuple[Tensor, Tensor]:
            logits, after = super().step(state, previous, memory)
            sure = (state[..., 0] > 0).unsqueeze(-1)  # from the second step on 4 is all but certain
            return torch.where(sure, torch.tensor([0.0, 0.0, 0.0, -8.0, 12.0, -20.0]), logits), after

    model = Surer(torch.tensor([0.0, 0.0, 0.0, 1.0, 0.9, -20.0]))
    assert decode(model, [[4, EOS]], Beam(2, longest=9))[0][0].ids == (4,) * 9
    assert decode(model, [[4, EOS]], Beam(2, longest=9, penalty=Penalty(0.0)))[0][0].ids == (EOS,)
    assert decode(model, [[4, EOS]], Beam(1, longest=9))[0][0].ids == (EOS,)  # greedy takes the first end


def test_numbers_that_are_none_are_named() -> None:
    with pytest.raises(RegardError, match="model: its log-probabilities are NaN"):
        decode(Blind(torch.full((6,), torch.nan)), [[4, EOS]], Beam())
    with pytest.raises(RegardError, match="model: its log-probabilities are NaN"):
        decode(Blind(torch.full((6,), torch.nan)), [[4, EOS]], Sampling())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Beam(0), "beam: found 0, wanted a whole number of at least 1"),
        (lambda: Beam(3, 4), "best: found 4, wanted a whole number from 1 to the beam's width 3"),
        (lambda: Beam(longest=0), "longest: found 0"),
        (lambda: Penalty(-1.0), "normalise: found -1.0"),
        (lambda: Penalty(coverage=float("nan")), "coverage: found nan"),
        (lambda: Penalty(length="none"), "length: found 'none', wanted power or wu"),  # type: ignore[arg-type]
        (lambda: Sampling(temperature=0.0), "temperature: found 0.0, wanted a number above 0; --beam 1"),
        (lambda: Sampling(top_p=1.5), "top_p: found 1.5"),
        (lambda: Sampling(top_k=-1), "top_k: found -1"),
        (lambda: Sampling(best=0), "best: found 0"),
    ],
)
def test_what_cannot_be(make: Any, said: str) -> None:
    with pytest.raises(RegardError, match=said):
        make()
