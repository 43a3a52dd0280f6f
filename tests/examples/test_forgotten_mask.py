"""The story of the forgotten source mask: what happens does happen, and it does not to the model that has one."""

from __future__ import annotations

import pytest

from examples.forgotten_mask.language import END, sentences
from examples.forgotten_mask.trial import examined, trial


def test_no_sentence_says_a_word_twice() -> None:
    for source, target in sentences(100, seed=5):
        assert source[-1] == target[-1] == END
        assert len(source) == len(target) == len(set(source)) == len(set(target))


@pytest.mark.parametrize(
    ("model", "arm", "wanted"),
    [
        ("gru", "masked", []),
        ("gru", "half mended", ["PAD002 at attention"]),
        ("gru", "forgotten", ["PAD001 at encoder", "API001 at the model"]),
        ("transformer", "masked", []),
        ("transformer", "half mended", ["PAD004 at decoder.layers.0.multihead_attn"]),
    ],
)
def test_the_doctor_names_what_forgets_and_has_nothing_to_say_of_what_does_not(
    model: str, arm: str, wanted: list[str]
) -> None:
    _, found = examined(model, arm)
    assert set(found) == set(wanted)


@pytest.mark.slow
def test_without_the_mask_it_learns_as_well_and_alone_it_repeats_itself() -> None:
    masked, forgotten = (trial("gru", arm, seed=0, updates=300) for arm in ("masked", "forgotten"))
    assert masked.differ == 0  # the arm that must not fail
    assert abs(masked.loss - forgotten.loss) < 0.2  # the loss tells nothing
    assert forgotten.right_in_batch > 0.7 * masked.right_in_batch  # nor does a test in batches like those of training
    assert forgotten.right_alone < 0.6 * forgotten.right_in_batch
    assert forgotten.again_alone > 3 * masked.again_alone
