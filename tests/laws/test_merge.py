"""Law 5, merge: readings of parts make the reading of the whole."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

import regard
from regard import RegardError, mask
from regard.mask import Mask
from regard.reading import Reading
from tests.laws.every import engines_of, every_score
from tests.laws.masks import GROUPS, MASKS
from tests.laws.normalisers import NORMALISERS
from tests.laws.scores import UNPLACED
from tests.laws.shapes import S
from tests.laws.truth import close, inputs, normaliser_part, read, score_part

THIRDS = torch.tensor([0, 2, 1, 0, 0, 2, 1])  # which of three parts each key is in: no part is a slice


def same_reading(found: Reading, wanted: Reading, tolerance: float = 1e-9) -> None:
    close(found.output, wanted.output, "output", tolerance)
    close(found.lse, wanted.lse, "lse", tolerance)
    assert torch.equal(found.seen, wanted.seen)
    for name in ("entropy", "peak", "bound"):
        one, other = getattr(found, name), getattr(wanted, name)
        if one is not None and other is not None:
            close(one, other, name, tolerance)
    for name in wanted.mass:
        close(found.mass[name], wanted.mass[name], name, tolerance)


@every_score
@pytest.mark.parametrize("normalised", [name for name, case in NORMALISERS.items() if case.merges])
def test_law_5_reading_in_parts_and_merging_equals_reading_the_whole(scored: str, normalised: str) -> None:
    engines = engines_of(scored, normalised)
    for masked, engine in itertools.product(MASKS, engines):
        m = MASKS[masked].build()
        parts = []
        for third in range(3):
            inside: Mask = mask.dense(torch.eq(THIRDS, third))
            parts.append(
                read(
                    scored,
                    normalised,
                    "none",
                    engine,
                    mask=inside if m is None else m & inside,
                    telemetry=("entropy", "peak"),
                    groups=GROUPS,
                )
            )
        whole = read(scored, normalised, masked, engine, telemetry=("entropy", "peak"), groups=GROUPS)
        a, b, c = parts
        merged = Reading.merge(a, b, c)
        same_reading(merged, whole)
        if NORMALISERS[normalised].sink is None:
            assert merged.entropy is not None
        assert merged.peak is not None
        assert merged.peak_at is None
        assert merged.mass.keys() == whole.mass.keys()
        same_reading(Reading.merge(Reading.merge(a, b), c), Reading.merge(a, Reading.merge(b, c)))  # associative
        same_reading(Reading.merge(c, a, b), merged)  # commutative


@pytest.mark.parametrize("scored", UNPLACED)
@pytest.mark.parametrize("normalised", [name for name, case in NORMALISERS.items() if case.merges])
def test_law_5_the_reading_of_an_empty_memory_is_the_identity(scored: str, normalised: str) -> None:
    q, k, v = inputs(scored)
    parts: dict[str, Any] = {"score": score_part(scored), "normalize": normaliser_part(normalised)}
    whole = regard.read(q, k, v, **parts)
    nothing = regard.read(q, k[:, :, :0], v[:, :, :0], **parts)
    same_reading(Reading.merge(whole, nothing), whole, 1e-12)
    same_reading(Reading.merge(nothing, whole), whole, 1e-12)
    same_reading(Reading.merge(nothing, nothing), nothing, 1e-12)
    same_reading(Reading.merge(whole), whole, 1e-12)


@hypothesis.settings(deadline=None, derandomize=True, max_examples=30)
@hypothesis.given(cuts=st.lists(st.integers(0, S), max_size=4), scored=st.sampled_from(UNPLACED), sink=st.booleans())
def test_law_5_any_split_of_the_memory_will_do(cuts: list[int], scored: str, sink: bool) -> None:
    q, k, v = inputs(scored)
    parts: dict[str, Any] = {"score": score_part(scored), "normalize": normaliser_part("sink" if sink else "softmax")}
    edges = [0, *sorted(cuts), S]
    slices = [slice(a, b) for a, b in itertools.pairwise(edges)]
    readings = [regard.read(q, k[:, :, s], v[:, :, s], engine="reference", **parts) for s in slices]
    same_reading(Reading.merge(*readings), regard.read(q, k, v, engine="reference", **parts))


def test_law_5_gradients_merge_too() -> None:
    q, k, v = (x.clone().requires_grad_() for x in inputs("scaled dot"))
    a = regard.read(q, k[:, :, :3], v[:, :, :3], mask=mask.padding([0, 3]))
    b = regard.read(q, k[:, :, 3:], v[:, :, 3:], mask=mask.padding([0, 2]))
    merged = Reading.merge(a, b)
    whole = regard.read(q, k, v, mask=mask.padding([0, 5]))
    assert merged.entropy is not None
    assert whole.entropy is not None
    one = torch.autograd.grad(merged.output.square().sum() + merged.entropy.sum(), (q, k, v))
    other = torch.autograd.grad(whole.output.square().sum() + whole.entropy.sum(), (q, k, v))
    for x, y in zip(one, other, strict=True):
        close(x, y, "gradient", 1e-8)


@pytest.mark.parametrize("normalised", [name for name, case in NORMALISERS.items() if not case.merges])
def test_law_5_readings_that_cannot_be_merged_refuse_and_say_why(normalised: str) -> None:
    one = read("dot", normalised, "none")
    assert one.no_merge
    with pytest.raises(RegardError, match=r"cannot be merged: .*read the whole memory at once"):
        Reading.merge(one, one)
