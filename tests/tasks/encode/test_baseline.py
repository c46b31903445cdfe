"""Baselines of pairs of texts."""

import pytest
from helpers.baselines import by_name

import carousel
from carousel.metrics import pearson

pytestmark = pytest.mark.usefixtures("own_cache")


def test_overlap_of_scored_pairs():
    train = [("a b c", "a b c", "5.0"), ("a b", "c d", "1.0"), ("a b c", "a b d", "3.5"), ("x y", "x z", "2.5")]
    dev = [("a b", "a b", "4.5"), ("a b", "a d", "2.0"), ("a b", "c d", "1.5")]
    found = carousel.baseline("encode", train, dev=dev)
    values = by_name(found)
    assert found.metric == "pearson" and values["mean score"] == 0
    assert values["overlap of words (Jaccard)"] == pytest.approx(pearson([4.5, 2.0, 1.5], [1, 1 / 3, 0]))
    assert values["overlap of words and characters + linear regression"] > 0.5


def test_pairs_with_classes():
    """What decides is whether the texts are equal: neither text alone says anything of it."""
    words = ["red", "blue", "green", "black", "white"]
    rows = [(a, b, "same" if a == b else "other") for a in words for b in words]
    rows += [(a, a, "same") for a in words] * 2
    found = by_name(carousel.baseline("encode", rows, dev=rows[:25]))
    assert found["majority class"] == 20 / 25
    assert found["TF-IDF of both texts and their overlap + linear SVC"] == 1.0
