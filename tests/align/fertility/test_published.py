"""Models 3, 4 and 5 as they were published: what probability they lose, by summing over all there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.align.fertility.cases import normal
from tests.align.fertility.reference import Tables, alignments, joint

L, KINDS, WORDS = 2, 2, 3  # e_1, e_2; classes of f; words of f, the last two of class 2
CLASS_OF = (1, 2, 2)


def by_class(t: np.ndarray, kinds: tuple[int, ...]) -> Callable[[int, int], float]:
    """The probability of a word of the class that stands at j."""
    return lambda j, i: float(t[i, kinds[j - 1] - 1])


def mass(model: int, tables: Tables, t: np.ndarray, most: int) -> float:
    """Σ_{m, f, a} P(f, a | e) over all m, for fertilities of up to ``most``; ``t`` is t(f|e), NULL first.

    Words are summed out by class, which is all that the models know of them apart from t.
    """
    by_kind = np.stack([t[:, [c == k for c in CLASS_OF]].sum(1) for k in (1, 2)], 1)
    total = 0.0
    for m in range((2 if tables.p1 else 1) * L * most + 1):
        for kinds in itertools.product((1, 2), repeat=m):
            asked = replace(tables, words=by_class(by_kind, kinds), target=kinds)
            total += sum(joint(model, a, L, asked).value for a in alignments(L, m))
    return total


def random_tables(seed: int, most: int, p1: float) -> tuple[Tables, np.ndarray]:
    rng = np.random.default_rng(seed)
    longest = 2 * L * most
    n = normal(rng.random((L + 1, most + 1)))
    d = {m: normal(rng.random((L + 1, m))) for m in range(1, longest + 1)}
    head, body = normal(rng.random((3, KINDS, 2 * longest + 1))), normal(rng.random((KINDS, longest)))
    opening = {room: normal(rng.random((KINDS, longest + 1, room))) for room in range(1, longest + 1)}
    onward = {room: normal(rng.random((KINDS, room))) for room in range(1, longest + 1)}
    tables = Tables(
        words=lambda j, i: 0.0,
        fertility=lambda phi, i: float(n[i, phi]) if phi <= most else 0.0,
        p1=p1,
        places=lambda j, i, m, l: float(d[m][i, j - 1]),
        head=lambda step, a, b: float(head[a, b - 1, step + longest]),
        body=lambda step, b: float(body[b - 1, step - 1]),
        opening=lambda v, b, before, room: float(opening[room][b - 1, before, v - 1]) if v <= room else 0.0,
        onward=lambda step, b, room: float(onward[room][b - 1, step - 1]) if step <= room else 0.0,
        source=(1, 2),
    )
    return tables, normal(rng.random((L + 1, WORDS)))


@pytest.mark.parametrize("seed", [0, 1])
def test_models_3_and_4_lose_probability_and_model_5_loses_none(seed: int) -> None:
    for most, p1 in ((2, 0.0), (1, 0.1)):
        tables, t = random_tables(seed, most, p1)
        assert mass(3, tables, t, most) < 0.95
        assert mass(4, tables, t, most) < 0.9
        assert mass(5, tables, t, most) == pytest.approx(1.0, abs=1e-12)


def test_model_3_loses_nothing_where_every_word_has_one_word_in_its_place() -> None:
    tables, t = random_tables(3, 1, 0.0)
    one = replace(
        tables,
        fertility=lambda phi, i: float(phi == 1),
        places=lambda j, i, m, l: float(j == i),
    )
    assert mass(3, one, t, 1) == pytest.approx(1.0, abs=1e-12)


def test_model_3_counts_the_orders_of_a_cept_and_model_4_does_not() -> None:
    """Three words of one cept, all alike: 3! n(3) d³ in Model 3, n(3) d_1 d_>1² in Model 4."""
    tables = Tables(
        words=lambda j, i: 1.0,
        fertility=lambda phi, i: 0.5,
        places=lambda j, i, m, l: 0.1,
        head=lambda step, a, b: 0.1,
        body=lambda step, b: 0.1,
        source=(1,),
        target=(1, 1, 1),
    )
    assert joint(3, (1, 1, 1), 1, tables).value == pytest.approx(math.factorial(3) * 0.5 * 1e-3)
    assert joint(4, (1, 1, 1), 1, tables).value == pytest.approx(0.5 * 1e-3)


def test_null_has_at_most_half_of_the_words() -> None:
    tables, _ = random_tables(0, 2, 0.2)
    asked = replace(tables, words=lambda j, i: 0.5, target=(1, 1, 1))
    for model in (3, 4, 5):
        assert joint(model, (0, 0, 1), 2, asked).value == 0.0
        assert joint(model, (0, 1, 2), 2, asked).value > 0.0


def test_model_5_asks_how_many_vacancies_lie_before_the_centre_of_the_cept_before() -> None:
    """e_1 takes 1 and 4 (centre ⌈2.5⌉ = 3, so 2 and 3 are vacant up to it); e_2 takes 3, then 5."""
    asked = []
    tables = Tables(
        words=lambda j, i: 1.0,
        fertility=lambda phi, i: 1.0,
        opening=lambda *key: asked.append(("opening", *key)) or 1.0,  # type: ignore[func-returns-value]
        onward=lambda *key: asked.append(("onward", *key)) or 1.0,  # type: ignore[func-returns-value]
        source=(1, 1),
        target=(1, 2, 3, 4, 5),
    )
    joint(5, (1, 0, 2, 1, 2), 2, replace(tables, p1=0.5))
    assert asked == [
        ("opening", 1, 1, 0, 4),  # v = 1 of v_m = 5, one more to come: max 4
        ("onward", 3, 4, 4),  # from 1 to 4: three vacancies on; v_m − v_1 − φ + k = 4 − 0 − 2 + 2
        ("opening", 2, 3, 2, 2),  # vacant are 2, 3, 5: 3 is the second; two lie before the centre
        ("onward", 1, 5, 1),
    ]
