"""Teacher forcing: the share of true tokens, and verdicts from numbers made by hand."""

import pytest
from helpers.lab import check_verdict

from carousel.lab.claim import Outcome
from carousel.lab.claims.teacher_forcing import WAYS


def test_how_many_true_tokens_are_read():
    shares = {way: [share(progress) for progress in (0, 0.5, 1)] for way, share in WAYS.items()}
    assert shares == {"teacher forcing": [1, 1, 1], "scheduled sampling": [1, 0.5, 0], "free running": [0, 0, 0]}


def forcing(teacher, free):
    """The share of sentences that are right, measured twice in training."""
    paths = {"teacher forcing": [teacher] * 5, "free running": [free] * 5, "scheduled sampling": [free] * 5}
    return {"paths": paths}


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("helps", forcing([0.5, 0.9], [0.1, 0.9]), Outcome.HOLDS_FOR),
        ("helps", forcing([0.1, 0.9], [0.5, 0.9]), Outcome.FAILS),
        ("helps", forcing([0.5, 0.9], [0.5, 0.9]), Outcome.UNDECIDED),
        ("own_words", forcing([0.1, 0.9], [0.1, 0.2]), Outcome.HOLDS),
        ("own_words", forcing([0.1, 0.3], [0.1, 0.2]), Outcome.FAILS),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("teacher-forcing", key, numbers, expected)
