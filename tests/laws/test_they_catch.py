"""The laws catch what they are for: each well-known bug, put in on purpose, breaks its law."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import mask, normalize
from regard.engines import reference
from tests.laws import test_empty_row, test_hull, test_may_look, test_merge, test_truth
from tests.laws.truth import truth


@pytest.fixture
def _fresh() -> Iterator[None]:
    yield
    truth.cache_clear()


@pytest.mark.usefixtures("_fresh")
class TestTheLawsCatch:
    """Each well-known bug, put in on purpose, breaks the law that is there for it."""

    def test_query_heads_tiled_over_the_key_heads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def tiled(x: Tensor, heads: int) -> Tensor:
            return x.repeat(1, heads // x.shape[1], 1, 1)

        monkeypatch.setattr(reference, "_for_each_head", tiled)
        with pytest.raises(AssertionError, match="output"):
            test_truth.test_law_1_the_reference_reads_what_the_definition_says("dot", "softmax")

    def test_a_causal_mask_anchored_at_the_wrong_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mask.causal, "allows", lambda self, grid: grid.j <= grid.i)
        with pytest.raises(AssertionError, match="causal to the end"):
            test_truth.test_law_1_the_reference_reads_what_the_definition_says("dot", "softmax")
        with pytest.raises(AssertionError):
            test_may_look.test_law_7_true_is_may_look("causal to the end")

    def test_a_softmax_over_the_queries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(normalize.Softmax, "forward", lambda self, s: torch.softmax(s, -2).nan_to_num())
        with pytest.raises(AssertionError, match="row sums"):
            test_hull.test_law_2_weights_are_a_distribution_and_a_read_stays_inside_its_values("dot", "softmax")
        with pytest.raises(AssertionError, match="output"):
            test_truth.test_law_1_the_reference_reads_what_the_definition_says("dot", "softmax")

    def test_a_mask_multiplied_after_the_softmax(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def late(self: reference.Reference, c: Any) -> Tensor:
            s = c.score(c.q, c.k.repeat_interleave(2, dim=1), c.grid)
            w = torch.softmax(s, -1)
            return w if c.mask is None else w * c.mask.allows(c.grid)

        monkeypatch.setattr(reference.Reference, "weights", late)
        with pytest.raises(AssertionError):
            test_truth.test_law_1_scores_and_weights_are_those_of_the_definition("dot", "softmax")
        with pytest.raises(AssertionError, match="row sums"):
            test_hull.test_law_2_weights_are_a_distribution_and_a_read_stays_inside_its_values("dot", "softmax")

    def test_a_large_negative_number_in_place_of_minus_infinity(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def finite(self: reference.Reference, c: Any) -> Tensor:
            s: Tensor = c.score(c.q, c.k.repeat_interleave(2, dim=1), c.grid)
            return s if c.mask is None else s.masked_fill(~c.mask.allows(c.grid), -1e9)

        monkeypatch.setattr(reference.Reference, "scores", finite)
        with pytest.raises(AssertionError):
            test_empty_row.test_law_4_a_query_that_may_see_nothing_reads_nothing("dot", "softmax")

    def test_a_mask_that_is_inverted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mask.padding, "allows", lambda self, grid: grid.j >= self.lengths[grid.b])
        with pytest.raises(AssertionError):
            test_may_look.test_law_7_true_is_may_look("padding")

    def test_parts_averaged_without_their_sizes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from regard import reading

        monkeypatch.setattr(reading, "_ratio", lambda part, whole: torch.full_like(part, 1 / 3))
        with pytest.raises(AssertionError):
            test_merge.test_law_5_reading_in_parts_and_merging_equals_reading_the_whole("dot", "softmax")
