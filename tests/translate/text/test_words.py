"""Pieces become words: every piece in exactly one, rows still sum to 1."""

from __future__ import annotations

import pytest
import torch

from regard.translate.text.words import group, merge, spell


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁The", "▁cat", "▁s", "at", ".", "</s>"], ["The", "cat", "sat", ".", "</s>"]),
        (["▁", "Le", "▁chat", "</s>"], ["Le", "chat", "</s>"]),
        (["▁j", "'", "ai", "▁l", "’", "air", "▁", "!", "</s>"], ["j'", "ai", "l’", "air", "!", "</s>"]),
        (["▁aujourd", "'", "hui"], ["aujourd'", "hui"]),
        (["我们", "失去", "了", "。", "</s>"], ["我们", "失去", "了", "。", "</s>"]),
        (["▁«", "▁oui", "▁»", ",", "▁dit"], ["«", "oui", "»", ",", "dit"]),
        (["▁well", "-", "known"], ["well", "-", "known"]),
    ],
)
def test_a_word_is_what_a_person_reads(pieces: list[str], words: list[str]) -> None:
    grouped = group(pieces)
    assert spell(pieces, grouped) == words
    assert [n for word in grouped for n in word] == list(range(len(pieces)))


def test_a_row_of_words_sums_to_what_its_pieces_summed_to() -> None:
    weights = torch.rand(5, 7, dtype=torch.float64)
    weights /= weights.sum(-1, keepdim=True)
    merged = merge(weights, [[0], [1, 2], [3, 4]], [[0, 1], [2], [3, 4, 5], [6]])
    assert merged.shape == (3, 4)
    torch.testing.assert_close(merged.sum(-1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(merged[1, 2], weights[1:3, 3:6].sum(-1).mean())
