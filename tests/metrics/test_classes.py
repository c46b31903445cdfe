"""Precision, recall and F1 against counting by hand and by loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.metrics import Confusion


def test_worked_by_hand():
    """Ten animals: of 5 cats 3 are seen as cats, 2 as dogs; of 4 dogs 4; the one cow is taken for a cat."""
    gold = [0, 0, 0, 0, 0, 1, 1, 1, 1, 2]
    said = [0, 0, 0, 1, 1, 1, 1, 1, 1, 0]
    found = Confusion(["cat", "dog", "cow"])
    found.add(torch.tensor(gold), torch.tensor(said))
    assert found.accuracy == 0.7
    assert found.table() == {
        "cat": {"cat": 3, "dog": 2, "cow": 0},
        "dog": {"cat": 0, "dog": 4, "cow": 0},
        "cow": {"cat": 1, "dog": 0, "cow": 0},
    }
    classes = found.classes()
    assert classes["cat"] == pytest.approx({"precision": 3 / 4, "recall": 3 / 5, "f1": 2 / 3, "count": 5})
    assert classes["dog"] == pytest.approx({"precision": 4 / 6, "recall": 1, "f1": 4 / 5, "count": 4})
    assert classes["cow"] == {"precision": 0, "recall": 0, "f1": 0, "count": 1}
    assert found.macro_f1 == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40), st.integers(1, 40))
def test_as_counted_one_by_one(pairs, cut):
    found = Confusion("abcd")
    for part in (pairs[:cut], pairs[cut:]):  # in two parts, one perhaps empty
        found.add(*(torch.tensor([pair[k] for pair in part], dtype=torch.int64) for k in (0, 1)))
    assert found.accuracy == sum(g == p for g, p in pairs) / len(pairs)
    scores = []
    for k, label in enumerate("abcd"):
        right = sum(g == p == k for g, p in pairs)
        said, there = sum(p == k for _, p in pairs), sum(g == k for g, _ in pairs)
        precision, recall = right / said if said else 0, right / there if there else 0
        f1 = 2 * precision * recall / (precision + recall) if right else 0
        expected = {"precision": precision, "recall": recall, "f1": f1, "count": there}
        assert found.classes()[label] == pytest.approx(expected)
        if said or there:
            scores.append(f1)
    assert found.macro_f1 == pytest.approx(sum(scores) / len(scores))


def test_nothing_counted():
    found = Confusion(["a", "b"])
    assert (found.accuracy, found.macro_f1) == (0, 0)
