"""Variants of a batch change the tensors that run along a stream, and no other."""

from __future__ import annotations

import pytest
import torch

from regard.doctor.inputs import Inputs
from regard.doctor.sequences import streams


@pytest.mark.parametrize(
    ("source", "source_mask", "target", "target_mask"),
    [
        ("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"),
        ("src", "src_key_padding_mask", "tgt", "tgt_key_padding_mask"),
    ],
)
def test_a_source_and_a_target_of_one_length_are_told_apart(
    source: str, source_mask: str, target: str, target_mask: str
) -> None:
    names = (source, source_mask, target, target_mask)
    batch = Inputs({name: torch.arange(14).reshape(2, 7) % 2 for name in names})
    first, second = streams(batch, source, source_mask, names)
    cut = batch.columns(second, torch.arange(5))
    assert [tuple(cut.values[name].shape) for name in names] == [(2, 7), (2, 7), (2, 5), (2, 5)]
    wider = batch.padded(first, 1, 2, torch.zeros(2, 3, dtype=torch.long))
    assert [tuple(wider.values[name].shape) for name in names] == [(2, 10), (2, 10), (2, 7), (2, 7)]


def test_in_one_sequence_all_that_is_as_long_goes_along() -> None:
    batch = Inputs(
        {"x": torch.zeros(2, 7, 3), "kinds": torch.zeros(2, 7), "labels": torch.zeros(2), "pair": torch.eye(7)}
    )
    (stream,) = streams(batch, "x", None, ("x",))
    cut = batch.columns(stream, torch.tensor([6, 0]))
    assert {name: tuple(x.shape) for name, x in cut.values.items()} == {
        "x": (2, 2, 3), "kinds": (2, 2), "labels": (2,), "pair": (7, 7),
    }  # fmt: skip
