"""One-hot vectors and embeddings: sentences and cosines by hand, and verdicts from numbers made by hand."""

import pytest
import torch
from helpers.lab import check_verdict, same

from carousel.lab.claim import Outcome
from carousel.lab.claims.embedding import GROUPS, WORDS, cosines, draw


def test_a_word_is_followed_by_one_of_the_next_group():
    groups = draw(20) // WORDS
    assert torch.equal(groups[1:], (groups[:-1] + 1) % GROUPS)


def test_cosines_within_and_across_groups():
    directions = torch.eye(GROUPS).repeat_interleave(WORDS, 0) * torch.rand(GROUPS * WORDS, 1).add(0.1)
    within, across = cosines(directions)
    assert within == pytest.approx(1) and across == pytest.approx(0, abs=1e-6)


def embedded(one_hot, learned, within, across):
    return {"perplexity": {"one-hot": same(one_hot), "learned": same(learned)}, "updates": 9, "lines": 9, "best": 12.0,
            "parameters": {"one-hot": 9, "learned": 4},
            "cosine": {"within": same(within), "across": same(across)}}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("better", embedded(20.0, 15.0, 0.9, 0.0), Outcome.HOLDS),
        ("better", embedded(16.8, 17.2, 0.3, 0.0), Outcome.HOLDS_FOR),
        ("better", embedded(16.8, 17.2, 0.1, 0.0), Outcome.FAILS),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("embedding", key, numbers, expected)
