"""How a batch tells padding: by a mask of several shapes, by lengths, or by the pad's id; each can be read and said."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.doctor.inputs import Inputs
from regard.doctor.sequences import streams
from regard.doctor.stream import CouldNotRun, Stream
from regard.errors import RegardError

REAL = torch.tensor([[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]]).bool()
SOURCE = torch.tensor([[5, 3, 4, 0, 0, 0, 0], [2, 3, 9, 8, 1, 7, 6]])
TARGET = torch.arange(1, 11).reshape(2, 5)
FORMS = {
    "a mask": ("mask", REAL.long()),
    "a mask of scores' shape": ("mask", REAL[:, None, None]),
    "a mask that hides": ("src_key_padding_mask", ~REAL),
    "lengths": ("lengths", torch.tensor([3, 7])),
    "ids": ("src", SOURCE),
}
everyone = pytest.mark.parametrize(("name", "given"), list(FORMS.values()), ids=list(FORMS))


def told(name: str, given: Tensor) -> tuple[Inputs, Stream]:
    inputs = Inputs({"src": SOURCE, "tgt": TARGET, name: given})
    return inputs, streams(inputs, "src", name, ("src", "tgt", name), pad=0)[0]


@everyone
def test_what_is_told_is_read_and_can_be_told_again(name: str, given: Tensor) -> None:
    inputs, stream = told(name, given)
    assert torch.equal(inputs.real(stream), REAL)
    fewer = REAL & (torch.arange(7) < 4)
    other = inputs.with_real(stream, fewer)
    assert torch.equal(other.real(stream), fewer)
    assert other.values[name].shape == given.shape
    assert other.values[name].dtype == given.dtype
    assert torch.equal(inputs.values[name], given)


@everyone
def test_columns_rows_and_padding_keep_what_is_told(name: str, given: Tensor) -> None:
    inputs, stream = told(name, given)
    assert torch.equal(inputs.columns(stream, torch.arange(2, 7)).real(stream), REAL[:, 2:])
    assert torch.equal(inputs.rows([1, 0, 1]).real(stream), REAL[[1, 0, 1]])
    wider = inputs.padded(stream, 0, 4, torch.zeros(2, 4, dtype=torch.long))
    assert torch.equal(wider.real(stream), torch.cat([REAL, torch.zeros(2, 4, dtype=torch.bool)], 1))
    assert torch.equal(wider.values["tgt"], TARGET)


def test_lengths_cannot_tell_padding_on_the_left_and_ids_no_token_where_a_pad_stands() -> None:
    inputs, stream = told(*FORMS["lengths"])
    with pytest.raises(CouldNotRun, match="lengths are lengths, which tell padding on the right alone"):
        inputs.with_real(stream, REAL.flip(1))
    inputs, stream = told(*FORMS["ids"])
    with pytest.raises(CouldNotRun, match="src has its pad id 0 where a token is wanted"):
        inputs.with_real(stream, torch.ones_like(REAL))


def test_lengths_are_found_by_their_name_and_refused_where_they_cannot_be_any() -> None:
    values = {"source": SOURCE, "lengths": torch.tensor([3, 7]), "previous": TARGET}
    source, target = streams(Inputs(values), "input_ids", "attention_mask", tuple(values))
    assert (source.tokens, source.mask, source.told, source.aligned) == ("source", "lengths", "lengths", False)
    assert (target.tokens, target.mask, target.aligned) == ("previous", None, True)
    values["lengths"] = torch.tensor([3, 8])  # more than there are columns
    assert streams(Inputs(values), "input_ids", "attention_mask", tuple(values))[0].mask is None


def test_a_source_and_a_target_of_any_names_are_a_pair_when_the_target_is_named() -> None:
    values = {"words": SOURCE, "said": TARGET}
    source, target = streams(Inputs(values), "input_ids", "attention_mask", tuple(values), target="said")
    assert (source.tokens, source.beside, target.tokens, target.beside) == ("words", "said", "said", "words")
    with pytest.raises(RegardError, match=r"target: found 'said' and no other tokens in the batch; give the source"):
        streams(Inputs({"said": TARGET}), "input_ids", "attention_mask", ("said",), target="said")
    with pytest.raises(RegardError, match="target"):
        streams(Inputs(values), "input_ids", "attention_mask", tuple(values), target="sai")


def test_vectors_have_no_pad_id() -> None:
    inputs = Inputs({"x": torch.zeros(2, 7, 3)})
    with pytest.raises(RegardError, match=r"mask: found 'x', the tokens themselves, and they are no ids"):
        streams(inputs, "x", "x", ("x",))
