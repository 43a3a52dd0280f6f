"""The learning rate by name: the published formulas."""

from __future__ import annotations

import math

import pytest

from regard.errors import RegardError
from regard.translate.training.schedules import SCHEDULES, schedule
from regard.translate.training.settings import Settings


def test_the_transformers_rate_is_the_published_one() -> None:
    """Vaswani et al. 2017, equation 3: D^-½ · min(update^-½, update · warmup^-1½)."""
    width, warmup = 512, 4000
    settings = Settings(schedule="inverse-sqrt", warmup=warmup, rate=(width * warmup) ** -0.5)
    for update in (1, 2, 17, 3999, 4000, 4001, 31013, 100_000):
        published = width**-0.5 * min(update**-0.5, update * warmup**-1.5)
        assert settings.peak * settings.course(update, 0.3, 7) == pytest.approx(published, rel=1e-14)


@pytest.mark.parametrize("name", sorted(set(SCHEDULES) - {"inverse-sqrt"}))
def test_every_rate_climbs_in_a_straight_line_to_its_own(name: str) -> None:
    slow, (once, _) = schedule(name, 13, {})[0], schedule(name, 0, {})
    for update in (1, 5, 12, 13, 14, 101):
        assert slow(update, update / 50, 7) == pytest.approx(min(1.0, update / 13) * once(update, update / 50, 7))


def test_what_a_rate_does_over_a_run() -> None:
    cosine, linear, constant = (schedule(name, 0, {})[0] for name in ("cosine", "linear", "constant"))
    assert [cosine(1, epoch, 8) for epoch in (0, 4, 8)] == pytest.approx([1.0, 0.5, 0.0])
    assert cosine(1, 2, 8) == pytest.approx(0.5 + 0.5 * math.cos(math.pi / 4))
    assert [linear(1, epoch, 8) for epoch in (0, 2, 8)] == [1.0, 0.75, 0.0]
    assert {constant(update, update / 9, 8) for update in range(1, 70)} == {1.0}


def test_sutskevers_rate_halves_every_half_epoch_after_five() -> None:
    sutskever, _ = schedule("halving", 0, {})
    assert [sutskever(1, epoch, 8) for epoch in (0.0, 4.99, 5.0, 5.49, 5.5, 6.0, 7.49)] == [
        1,
        1,
        1 / 2,
        1 / 2,
        1 / 4,
        1 / 8,
        1 / 32,
    ]
    luong, _ = schedule("halving", 0, {"halve_after": 8, "halve_every": 1})
    assert [luong(1, epoch, 12) for epoch in (7.9, 8.0, 8.9, 9.0, 11.9)] == [1, 1 / 2, 1 / 2, 1 / 4, 1 / 16]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schedule": "cosin"}, "schedule: unknown name 'cosin'; did you mean 'cosine'"),
        ({"schedule": "inverse-sqrt", "warmup": 0}, "warmup: found 0, inverse-sqrt wants 1 update or more"),
        ({"schedule_numbers": {"halve_after": 3}}, "halve_after: cosine has no such number; it has none"),
        (
            {"schedule": "halving", "schedule_numbers": {"halve_every": 0}},
            r"halve_every: found 0, wanted .* \(0",
        ),
    ],
)
def test_schedules_that_cannot_be(given: dict[str, object], said: str) -> None:
    with pytest.raises(RegardError, match=said):
        Settings(**given)  # type: ignore[arg-type]
