"""The entropy of looks: known values, what is counted, and what is pointed out."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import RegardError
from regard.translate.models import architecture
from regard.translate.models.encoder_decoder import EncoderDecoder
from regard.translate.training.curves import check_plot, draw
from regard.translate.training.entropy import Entropies, Sample, entropy, pointed_out, said
from regard.translate.training.settings import Settings


def test_known_values_by_layer_and_head() -> None:
    """Two sentences of 4 and 2 source pieces, 2 and 1 target pieces, padded to 5 and 3; two layers of three heads."""
    looks = torch.zeros(2, 2, 3, 3, 5)
    looks[0, 0, 0, :, 1] = 1.0  # one place: 0
    looks[1, 0, 0, :, 0] = 1.0
    looks[0, 0, 1, :, :4] = 0.25  # everywhere alike: 1
    looks[1, 0, 1, :, :2] = 0.5
    looks[0, 1, 2, :, 1:3] = 0.5  # two of four: ½, and of two: 1
    looks[1, 1, 2, :, :2] = 0.5
    looks[0, 1, 0, :, :4] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    looks[1, 1, 0, :, 1] = 1.0
    looks[:, :, :, 2] = 0.2  # a padded row of the first, whatever it holds, is not counted
    looks[1, :, :, 1] = 0.2
    summed, rows = entropy(looks, torch.tensor([4, 2]), torch.tensor([2, 1]))
    h = -sum(p * math.log(p) for p in (0.1, 0.2, 0.3, 0.4)) / math.log(4)
    assert rows == 3
    wanted = torch.tensor([[0.0, 3.0, 0.0], [2 * h, 0.0, 2 * 0.5 + 1.0]], dtype=torch.float64)
    torch.testing.assert_close(summed, wanted, atol=1e-7, rtol=0)


def test_rows_that_sum_to_less_or_have_weights_below_zero_stay_in_bounds() -> None:
    """A Gaussian window keeps some weight for nothing; talking heads mix weights below 0; an empty row has none."""
    looks = torch.tensor([[0.1, 0.1, 0.0], [0.5, -0.5, 0.0], [0.0, 0.0, 0.0]]).view(1, 1, 1, 3, 3)
    summed, rows = entropy(looks, torch.tensor([3]), torch.tensor([3]))
    assert rows == 3
    assert float(summed) == pytest.approx(2 * math.log(2) / math.log(3))


def test_a_sentence_of_one_piece_leaves_nothing_to_choose() -> None:
    looks = torch.tensor([1.0, 0.0]).view(1, 1, 1, 1, 2)
    assert entropy(looks, torch.tensor([1]), torch.tensor([1])) == (torch.zeros(1, 1, dtype=torch.float64), 0)


def model(settings: Settings) -> EncoderDecoder[Any, Any]:
    torch.manual_seed(2)
    made: EncoderDecoder[Any, Any] = architecture(settings.model).model(settings.config(23, 29))
    return made.eval()


ROWS = [[5, 6, 7, 8, 3], [9, 3], [4, 4, 3], [3], [*range(4, 20), 3]]


@torch.no_grad()
def test_a_model_that_looks_everywhere_alike_has_an_entropy_of_log_n() -> None:
    """v = 0: whatever the lengths beside it."""
    net = model(Settings(sizes={"embedding": 11, "hidden": 13, "alignment": 7, "readout": 5}))
    net.get_parameter("score.energy").zero_()
    found = Sample(ROWS, ROWS[::-1]).entropies(net)
    assert found == [[1.0]]


def test_a_sample_is_the_mean_over_pairs_one_at_a_time() -> None:
    sizes = {"width": 14, "heads": 7, "layers": 3, "feed": 11}
    net = model(Settings(model="transformer", sizes=sizes))
    together = torch.tensor(Sample(ROWS, ROWS[::-1]).entropies(net))
    assert together.shape == (3, 7)
    alone = torch.zeros(3, 7)
    count = 0
    for left, right in zip(ROWS, ROWS[::-1], strict=True):
        if len(left) > 1:
            alone += len(right) * torch.tensor(Sample([left], [right]).entropies(net))
            count += len(right)
    torch.testing.assert_close(together, alone / count, atol=2e-6, rtol=0)
    assert 0.0 < float(together.min()) < float(together.max()) < 1.0


def test_no_more_than_so_many_pairs_and_weights_at_once() -> None:
    many = Sample([[4, 3]] * 1000, [[4, 3]] * 1000)
    assert sum(len(batch.source) for batch in many.batches) == 64
    long = Sample([[4] * 700] * 3 + [[4] * 400] * 3, [[4] * 700] * 3 + [[4] * 400] * 3)
    assert [tuple(batch.source.shape) for batch in long.batches] == [(1, 400)] * 3


def history(*courses: list[float]) -> list[Entropies]:
    """One layer whose heads have these courses."""
    return [[list(heads)] for heads in zip(*courses, strict=True)]


def test_heads_at_an_end_are_pointed_out_once() -> None:
    fine, low, high = [0.5] * 6, [0.5, 0.01, 0.0, 0.02, 0.0, 0.0], [0.5, 0.99, 0.5, 0.99, 1.0, 0.98]
    told = [pointed_out(history(fine[:n], low[:n], high[:n])) for n in range(7)]
    assert [len(lines) for lines in told] == [0, 0, 0, 0, 1, 0, 1]
    assert told[4][0].startswith("layer 1 head 2: entropy at most 0.02 of log n for 3 epochs: one place")
    assert "as it should be where every word has one counterpart, as in copying" in told[4][0]
    assert told[6][0].startswith("layer 1 head 3: entropy at least 0.98 of log n for 3 epochs: everything")
    many = [[[1.0, 0.5, 1.0], [0.5, 0.0, 1.0]]] * 3
    assert [line.split(":")[0] for line in pointed_out(many)] == [
        "layer 2 head 2",
        "layer 1 heads 1, 3; layer 2 head 3",
    ]
    assert pointed_out([[], [], []]) == []  # a model that never looks


def test_in_a_few_words() -> None:
    assert said([[0.25]]) == "entropy 0.25"
    assert said([[0.0, 0.5], [0.5, 1.0]]) == "entropy 0.50 (0.00…1.00)"
    assert said([]) == ""


def test_the_picture_has_a_curve_for_each_head_and_is_the_same_each_time(tmp_path: Path) -> None:
    course = [[[0.9, 0.8], [0.7, 0.99]], [[0.5, 0.4], [0.3, 0.98]], [[0.2, 0.1], [0.2, 0.99]]]
    draw(tmp_path / "a.svg", course)
    draw(tmp_path / "new" / "b.svg", course)
    picture = (tmp_path / "a.svg").read_bytes()
    assert picture == (tmp_path / "new" / "b.svg").read_bytes()
    lines = ET.fromstring(picture).findall(".//*[@id]")
    assert len({node.get("id") for node in lines if str(node.get("id")).startswith("line2d")}) > 4
    assert b"everywhere alike: the mean" in picture


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"plot: found .*gif, wanted a name that ends in \.svg, \.png, \.pdf"):
        check_plot(tmp_path / "entropy.gif")
