"""Sizes: what cannot be is one line that names it, and a command line has an option for each."""

from __future__ import annotations

import pytest

from regard.errors import RegardError
from regard.translate.models import ARCHITECTURES
from regard.translate.models.recurrent.config import Bahdanau
from regard.translate.models.sizes import Size, sizes_of
from regard.translate.models.transformer.config import Transformer


@pytest.mark.parametrize(
    ("size", "value", "wanted"),
    [
        ("width", 0, "a whole number of at least 1"),
        ("width", True, "a whole number of at least 1"),
        ("width", 2.5, "a whole number of at least 1"),
        ("norm", "both", "post or pre"),
        ("source_vocabulary", -1, "a whole number of at least 1"),
        ("dropout", 1.0, r"a number in \[0, 1\)"),
    ],
)
def test_a_size_that_cannot_be(size: str, value: object, wanted: str) -> None:
    given = {"source_vocabulary": 8, "target_vocabulary": 8, size: value}
    with pytest.raises(RegardError, match=rf"{size}: found {value!r}, wanted {wanted}"):
        Transformer(**given)  # type: ignore[arg-type]  # what a careless caller gives


def test_the_smallest_that_can_be() -> None:
    smallest = Bahdanau(source_vocabulary=1, target_vocabulary=1, embedding=1, hidden=1, alignment=1, readout=1)
    assert smallest.parameters > 0


def test_one_option_is_one_kind_in_every_architecture() -> None:
    kinds: dict[str, type[Size]] = {}
    for each in ARCHITECTURES.values():
        for size in sizes_of(each.config):
            assert kinds.setdefault(size.name, type(size.default)) is type(size.default), size.name
            assert size.says
