"""Optimisers by name, each with the numbers and the rate of the article or of PyTorch.

============  =======================================  =======================================================
name          its numbers                              of
============  =======================================  =======================================================
adam          beta1 0.9, beta2 0.999, eps 1e-8         Kingma & Ba 2015; the Transformer's: 0.9, 0.98, 1e-9
adamw         the same, and weight_decay 0.01          Loshchilov & Hutter 2019
adadelta      rho 0.95, eps 1e-6; rate 1               Zeiler 2012, and Bahdanau et al. 2014, appendix B
sgd           momentum 0, weight_decay 0; rate 0.7     Sutskever et al. 2014; Luong et al. 2015: rate 1
adagrad       eps 1e-10; rate 0.01                     Duchi et al. 2011
rmsprop       rho 0.99, eps 1e-8, momentum 0           Hinton's lecture 6e, 2012
nadam, radam  beta1 0.9, beta2 0.999, eps 1e-8         Dozat 2016; Liu et al. 2020
============  =======================================  =======================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.errors import unknown_name
from regard.translate.training.numbers import Number, completed

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

__all__ = ["OPTIMISERS", "Optimiser", "optimiser"]

_BETAS = {"beta1": Number(0.9, below=1.0), "beta2": Number(0.999, below=1.0)}
_ADAM = {**_BETAS, "eps": Number(1e-8, above=True)}


@dataclass(frozen=True)
class Optimiser:
    """One of ``torch.optim`` by its name there: the full learning rate where none is given, and its own numbers."""

    kind: str
    rate: float
    numbers: Mapping[str, Number]
    fused: bool = False  # PyTorch has it in one kernel, on the CPU too

    def make(self, parameters: Iterable[nn.Parameter], rate: float, numbers: Mapping[str, float]) -> Optimizer:
        """It, for these parameters, with all of its numbers."""
        given: dict[str, Any] = {name: value for name, value in numbers.items() if name not in _BETAS}
        if "beta1" in numbers:
            given["betas"] = numbers["beta1"], numbers["beta2"]
        if self.kind == "RMSprop":
            given["alpha"] = given.pop("rho")  # one name for one thing: Adadelta's
        if self.fused:
            given["fused"] = True
        import torch

        made: Optimizer = getattr(torch.optim, self.kind)(parameters, lr=rate, **given)
        return made


OPTIMISERS = {
    "adam": Optimiser("Adam", 1e-3, _ADAM, fused=True),
    "adamw": Optimiser("AdamW", 1e-3, {**_ADAM, "weight_decay": Number(0.01)}, fused=True),
    "adadelta": Optimiser("Adadelta", 1.0, {"rho": Number(0.95, below=1.0), "eps": Number(1e-6, above=True)}),
    "sgd": Optimiser("SGD", 0.7, {"momentum": Number(0.0, below=1.0), "weight_decay": Number(0.0)}, fused=True),
    "adagrad": Optimiser("Adagrad", 0.01, {"eps": Number(1e-10, above=True)}),
    "rmsprop": Optimiser(
        "RMSprop",
        1e-3,
        {"rho": Number(0.99, below=1.0), "eps": Number(1e-8, above=True), "momentum": Number(0.0, below=1.0)},
    ),
    "nadam": Optimiser("NAdam", 1e-3, _ADAM),
    "radam": Optimiser("RAdam", 1e-3, _ADAM),
}


def optimiser(name: str, given: Mapping[str, float]) -> tuple[Optimiser, dict[str, float]]:
    """The optimiser of that name, and all of its numbers.

    Raises:
        RegardError: there is none (lists those that are), or a number that it does not have.

    >>> optimiser("adam", {"beta2": 0.98, "eps": 1e-9})[1]
    {'beta1': 0.9, 'beta2': 0.98, 'eps': 1e-09}
    """
    if name not in OPTIMISERS:
        raise unknown_name("optimiser", name, OPTIMISERS)
    found = OPTIMISERS[name]
    return found, completed(name, found.numbers, given)
