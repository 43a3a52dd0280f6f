"""Law 8, no silent choice: an engine asked for by name runs or raises."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from regard import RegardError
from regard.engines import ENGINES
from tests.laws.every import every_normaliser, every_score
from tests.laws.normalisers import PLAIN
from tests.laws.scores import FUSED
from tests.laws.truth import inputs, normaliser_part, score_part


@every_score
@every_normaliser
def test_law_8_an_engine_asked_for_by_name_runs_or_raises(scored: str, normalised: str) -> None:
    q, k, v = inputs(scored)
    parts: dict[str, Any] = {"score": score_part(scored), "normalize": normaliser_part(normalised)}
    plan = regard.explain(q, k, v, **parts)
    assert regard.read(q, k, v, telemetry=False, **parts).engine == plan.engine
    assert (plan.engine == "sdpa") == (scored in FUSED and normalised in PLAIN), "on what is small sdpa is the fastest"
    for engine in ENGINES:
        if engine.name in plan.refused:
            assert plan.refused[engine.name] in str(plan)
            for verb in (regard.attend, regard.read, regard.explain):
                with pytest.raises(RegardError) as raised:
                    verb(q, k, v, engine=engine.name, **parts)
                assert plan.refused[engine.name] in str(raised.value)
                assert 'engine="auto"' in str(raised.value)
        else:
            named = regard.explain(q, k, v, engine=engine.name, **parts)
            assert (named.engine, named.why) == (engine.name, "asked for by name")
            assert regard.read(q, k, v, engine=engine.name, telemetry=False, **parts).engine == engine.name
