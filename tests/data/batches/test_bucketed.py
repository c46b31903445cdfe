"""Sequences of similar length share batches, within a budget, in an order that seed and epoch fix."""

import numpy as np
import pytest
import torch
from helpers.stores import store_of
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import LineBatches
from carousel.data.batches.bucketed import Bucketed
from carousel.errors import ArgumentError

ROWS = st.lists(st.lists(st.integers(3, 99), min_size=1, max_size=12), min_size=1, max_size=40)
BUDGET = st.integers(1, 60)
SIZES = st.one_of(
    st.fixed_dictionaries({"tokens": BUDGET}),
    st.fixed_dictionaries({"sequences": st.integers(1, 9)}),
    st.fixed_dictionaries({"tokens": BUDGET, "sequences": st.integers(1, 9)}),
)


@given(ROWS, SIZES, st.integers(0, 3))
def test_budgets_hold(rows, sizes, epoch):
    batches = LineBatches(store_of(rows), **sizes)
    batches.set_epoch(epoch)
    for batch in batches:
        steps, count = batch.inputs.shape
        assert count <= sizes.get("sequences", count)
        assert steps * count <= sizes.get("tokens", steps * count) or count == 1


def test_order_depends_on_seed_and_epoch_alone():
    store = store_of([[3 + i % 5] * (1 + i % 4) for i in range(200)])

    def epochs(seed, count=3):
        batches = LineBatches(store, tokens=20, seed=seed)
        return [[batch.rows.tolist() for batch in batches] for _ in range(count)]

    assert epochs(0) == epochs(0)
    assert epochs(0) != epochs(1)
    first, second, third = epochs(0)
    assert first != second != third
    later = LineBatches(store, tokens=20, seed=0)
    later.set_epoch(2)
    assert [batch.rows.tolist() for batch in later] == third
    torch.manual_seed(3)
    np.random.seed(3)
    assert epochs(0)[0] == first


def test_shapes_are_the_same_in_every_epoch():
    random = np.random.default_rng(0)
    batches = LineBatches(store_of([[5] * n for n in random.integers(1, 30, 300)]), tokens=100)
    shapes = [sorted(tuple(batch.inputs.shape) for batch in batches) for _ in range(3)]
    assert shapes[0] == shapes[1] == shapes[2]


def test_evaluation_order_is_fixed_longest_first():
    rows = [[5] * n for n in (2, 7, 2, 3, 7)]
    batches = LineBatches(store_of(rows), sequences=2, shuffle=False)
    for _ in range(2):
        assert [batch.rows.tolist() for batch in batches] == [[1, 4], [3, 0], [2]]


def test_little_is_padding():
    """Against batches in the order of the file, which is what a plain loop makes."""
    lengths = np.random.default_rng(0).geometric(0.05, 5000)
    batches = LineBatches(store_of([[5] * n for n in lengths]), tokens=1000)
    plain = sum(32 * (lengths[i : i + 32].max() + 1) for i in range(0, 5000, 32))
    assert batches.padding < 0.02 < 0.5 < 1 - batches.tokens / plain


def test_lines_that_meet_differ_between_epochs():
    batches = LineBatches(store_of([[5, 6]] * 100), sequences=10)
    meetings = [{frozenset(batch.rows.tolist()) for batch in batches} for _ in range(2)]
    assert not meetings[0] & meetings[1]


class Ids(Bucketed):
    """Batches that are the numbers of their sequences, which have these lengths."""

    def __init__(self, lengths, **options):
        self.lengths = np.array(lengths)
        super().__init__(store_of([]), **options)

    def _sequence_lengths(self):
        return self.lengths

    def _of(self, chosen):
        return chosen.tolist()


def test_a_sequence_over_the_budget_is_a_batch_by_itself():
    batches = Ids([2, 9, 2, 0, 3], tokens=6, shuffle=False)
    assert list(batches) == [[1], [4, 0], [2, 3]]
    assert batches.tokens == 16 and batches.padding == pytest.approx(1 - 16 / (9 + 2 * 3 + 2 * 2))


def test_processes_share_each_batch():
    parts = [list(Ids([4, 3, 3, 2, 1], sequences=2, shuffle=False).share(rank, 2)) for rank in (0, 1)]
    assert parts == [[([0], True), ([2], True), ([4], True)], [([1], True), ([3], True), ([4], False)]]


def test_a_batch_needs_a_size():
    with pytest.raises(ArgumentError, match="give tokens or sequences, or both"):
        Ids([1])
