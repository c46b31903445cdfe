"""Hidden size and learning rate: verdicts from numbers made by hand."""

import pytest
from helpers.lab import check_verdict, same

from carousel.lab.claim import Outcome
from carousel.lab.claims import hyperparameters


def sizes(small, base):
    rows = {str(size): same(base) for size in hyperparameters.SIZES} | {"2": same(small)}
    return {"sizes": rows, "updates": 9}


def rates(slow, good):
    rows = {"0.001": slow, "0.01": good, "0.1": good}
    return {"rates": {rate: {"beginning": same(value), "dev": same(value)} for rate, value in rows.items()}}


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("hidden", sizes(30.0, 10.0), Outcome.HOLDS_FOR),
        ("hidden", sizes(10.5, 10.0), Outcome.FAILS),
        ("rate", rates(3.0, 2.0), Outcome.HOLDS_FOR),
        ("rate", rates(2.0, 2.0), Outcome.FAILS),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("hyperparameters", key, numbers, expected)


def test_every_size_and_every_rate_is_measured():
    numbers = hyperparameters.run(20, seeds=2).measured
    assert {size: len(row) for size, row in numbers["sizes"].items()} == dict.fromkeys(("2", "8", "32", "64"), 2)
    base = numbers["rates"]["0.01"]
    assert base["dev"] == numbers["sizes"]["32"]  # one training, in both tables
    assert base["path"][19] == pytest.approx(sum(base["beginning"]) / 2)
