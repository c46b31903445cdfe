"""Overfitting: verdicts from numbers made by hand."""

import pytest
from helpers.lab import check_verdict, same

from carousel.lab.claim import Outcome
from carousel.lab.claims import overfitting


def fitted(one, most, many=(2.0, 2.0)):
    """Training and dev perplexity of one layer and of the most, on few lines, and of one layer on many."""
    pairs = {f"{layers} 50": most if layers > 1 else one for layers in overfitting.LAYERS}
    pairs |= {f"1 {lines}": many for lines in overfitting.LINES[1:]}
    return {"trained": {name: {"train": same(a), "dev": same(b)} for name, (a, b) in pairs.items()}}


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("layers", fitted((2.0, 5.0), (1.5, 9.0)), Outcome.HOLDS),
        ("layers", fitted((2.0, 5.0), (1.5, 5.0)), Outcome.FAILS),
        ("layers", fitted((2.0, 5.0), (2.5, 9.0)), Outcome.UNDECIDED),  # not fitted to its own lines
        ("enough", fitted((2.0, 5.0), (2.0, 5.0)), Outcome.HOLDS_FOR),
        ("enough", fitted((2.0, 5.0), (2.0, 5.0), (2.0, 4.0)), Outcome.FAILS),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("overfitting", key, numbers, expected)


def test_the_best_epoch_and_the_last_are_told_apart():
    row = overfitting.run(10, hidden=2, seeds=2).measured["trained"]["1 50"]
    assert all(best <= last for best, last in zip(row["best"], row["dev"], strict=True))
    assert row["path"][-1] == pytest.approx(sum(row["dev"]) / 2)
