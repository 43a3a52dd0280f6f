"""Probes from outside: what is true of any model, whatever runs inside. Each is a function of the subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from regard.doctor.finding import Observation
from regard.doctor.probes.cache import cache
from regard.doctor.probes.company import company
from regard.doctor.probes.determinism import determinism
from regard.doctor.probes.documents import documents
from regard.doctor.probes.finite import finite
from regard.doctor.probes.future import future
from regard.doctor.probes.gradient import gradient
from regard.doctor.probes.inside import inside
from regard.doctor.probes.options import options
from regard.doctor.probes.order import order
from regard.doctor.probes.padding import padding
from regard.doctor.probes.precision import precision
from regard.doctor.probes.window import window
from regard.doctor.subject import Subject

Probe = Callable[[Subject], Iterator[Observation]]

#: In the order they run: whether the model can be judged at all comes first.
PROBES: tuple[Probe, ...] = (
    finite,
    determinism,
    future,
    window,
    padding,
    company,
    cache,
    documents,
    order,
    options,
    precision,
    gradient,
    inside,
)
