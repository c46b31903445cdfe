"""Recall of word lists: what is drawn, and verdicts from numbers made by hand."""

import pytest
from helpers.lab import check_verdict, same

from carousel.lab.claim import Outcome
from carousel.lab.claims.working_memory import CELLS, DISTRACTORS, WORDS, draw


def test_a_list_has_different_words_then_distractors_then_the_signal():
    tokens, there = draw(20, 7, 3)
    assert tokens.shape == (7 + 3 + 1, 20)
    for column, row in zip(tokens.T.tolist(), there.tolist(), strict=True):
        words, rest = column[:7], column[7:]
        assert len(set(words)) == 7 and max(words) < WORDS
        assert rest == [WORDS] * 3 + [WORDS + 1]
        assert {k for k, one in enumerate(row) if one} == set(words)


def recall(at_once, long, later):
    """Every cell recalls so much of 3 words at once, of 10 at once, and of 3 after the most distractors."""
    near, far = (str(DISTRACTORS[k]) for k in (0, -1))
    rows = {near: {"3": same(at_once), "7": same(at_once), "10": same(long)}, far: {"3": same(later)}}
    return {"recall": dict.fromkeys(CELLS, rows)}


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("length", recall(0.9, 0.5, 0.9), Outcome.HOLDS),
        ("length", recall(0.9, 0.9, 0.9), Outcome.FAILS),
        ("persistence", recall(0.9, 0.9, 0.85), Outcome.HOLDS),
        ("persistence", recall(0.9, 0.9, 0.5), Outcome.FAILS),
        ("persistence", recall(0.3, 0.3, 0.3), Outcome.FAILS),  # nothing was there to be kept
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("working-memory", key, numbers, expected)
