"""No translator reads its source's padding, and the doctor sees it when one is made to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.doctor.finding import Finding
from regard.doctor.probes.padding import padding
from regard.doctor.subject import Subject
from regard.translate.models import ARCHITECTURES
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.models.recurrent import encoders, readers
from regard.translate.models.transformer import layers
from regard.translate.models.transformer import model as transformer
from regard.translate.text.batches import pad

GATED: dict[str, Any] = {"embedding": 12, "hidden": 13, "readout": 7}
STACKED: dict[str, Any] = {"embedding": 12, "hidden": 13, "layers": 2}
ATTENTION: dict[str, Any] = {"width": 12, "heads": 2, "layers": 2, "feed": 17}
#: Every architecture, and what of its sizes changes how its source is read.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "cho": ("cho", GATED),
    "sutskever": ("sutskever", {**STACKED, "reverse": True}),
    "bahdanau": ("bahdanau", {**GATED, "alignment": 5}),
    "luong": ("luong", {**STACKED, "feeding": False}),
    "luong-local-p": ("luong", {**STACKED, "look": "local-p", "reach": 6, "feeding": False}),
    "transformer": ("transformer", ATTENTION),
    "transformer-linear": ("transformer", {**ATTENTION, "encoder": "linear"}),
    "transformer-window": ("transformer", {**ATTENTION, "encoder": "window", "reach": 2, "norm": "pre"}),
}


def made(name: str) -> EncoderDecoder[Any, Any]:
    torch.manual_seed(3)
    kind, sizes = MODELS[name]
    known = ARCHITECTURES[kind]
    return known.model(known.config(source_vocabulary=31, target_vocabulary=37, **sizes)).eval()


def batch() -> dict[str, Tensor]:
    """Sources of 13, 7 and 11 pieces; what was said of them, 5 pieces."""
    draw = torch.Generator().manual_seed(5)
    source, lengths = pad([torch.randint(4, 31, (n,), generator=draw).tolist() for n in (13, 7, 11)])
    return {"source": source, "lengths": lengths, "previous": torch.randint(4, 37, (3, 5), generator=draw)}


def test_every_architecture_is_here() -> None:
    assert {kind for kind, _ in MODELS.values()} == set(ARCHITECTURES)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_the_doctor_has_nothing_to_say_of_a_translator(name: str) -> None:
    report = regard.check(made(name), batch(), pad_id=0)
    assert report.clean, report
    told = [one.case for one in report.passed if one.probe.startswith("padding")]
    assert "content of padding on the right of source is not read" in told
    assert "padding on the right of source leaves real outputs" in told


def found(name: str) -> list[tuple[str, str]]:
    subject = Subject.of(
        made(name),
        batch(),
        causal=None,
        prefix=0,
        forward=None,
        tokens="input_ids",
        mask="attention_mask",
        pad_id=0,
        cache=None,
        sets=False,
    )
    with torch.no_grad():
        return [(one.code, one.module) for one in padding(subject) if isinstance(one, Finding)]


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(ARCHITECTURES)))
def test_its_padding_probe_has_none_of_a_variant(name: str) -> None:
    assert found(name) == []


def everything(of: Callable[..., Any]) -> Callable[..., Any]:
    """The method ``of``, which is told that no source has any padding."""

    def told(self: Any, x: Tensor, lengths: Tensor, *rest: Any) -> Any:
        return of(self, x, torch.full_like(lengths, x.shape[1]), *rest)

    return told


#: Where a mask can be left out: what is replaced, by what, in which models, and what the doctor says then.
FORGOTTEN: dict[str, tuple[Any, str, Any, dict[str, tuple[str, str]]]] = {
    "the look of the decoder's layers": (
        transformer.Memory,
        "mask",
        property(lambda self: None),
        {"transformer": ("PAD004", "decoder.0.after_cross")},
    ),
    "the encoder's layers": (
        layers.EncoderLayer,
        "_look",
        everything(layers.EncoderLayer._look),
        {
            "transformer": ("PAD001", "encoder.0.after_own"),
            "transformer-linear": ("PAD001", "encoder.0.after_own"),
            "transformer-window": ("PAD001", "encoder.0.after_own"),
        },
    ),
    "the reader": (
        readers,
        "padding",
        lambda lengths: regard.mask.padding(torch.full_like(lengths, 1 << 20)),
        # Behind a packed stack stand zeros, whatever the padding holds: how many there are is what is felt.
        {"bahdanau": ("PAD001", ""), "luong": ("PAD002", ""), "luong-local-p": ("PAD002", "")},
    ),
    "reading both ways": (
        encoders.BothWays,
        "states",
        everything(encoders.BothWays.states),
        {"bahdanau": ("PAD001", "")},
    ),
    "reading one way": (encoders.OneWay, "last", everything(encoders.OneWay.last), {"cho": ("PAD001", "")}),
    "packing": (
        encoders.Stack,
        "read",
        everything(encoders.Stack.read),
        {"sutskever": ("PAD001", ""), "luong": ("PAD001", "")},
    ),
}


@pytest.mark.parametrize(("place", "name"), [(place, name) for place, (*_, said) in FORGOTTEN.items() for name in said])
def test_a_mask_that_is_left_out_is_found(place: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, attribute, instead, said = FORGOTTEN[place]
    monkeypatch.setattr(holder, attribute, instead)
    assert said[name] in found(name)
