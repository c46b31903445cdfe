"""Lengths, masks and rows given end to end, against plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.masks import flat_positions, length_mask, pad_rows, row_positions

some_lengths = st.lists(st.integers(0, 5), max_size=6)


@given(some_lengths, st.integers(0, 6))
def test_the_mask_of_lengths(lengths, steps):
    expected = [[t < n for n in lengths] for t in range(steps)]
    flipped = [[t < n for t in range(steps)] for n in lengths]
    for given_lengths in (torch.tensor(lengths, dtype=torch.int64), np.array(lengths, np.int64)):
        mask, batch_first = length_mask(given_lengths, steps), length_mask(given_lengths, steps, batch_first=True)
        assert type(mask) is type(given_lengths) and "bool" in str(mask.dtype)
        assert mask.shape == (steps, len(lengths)) and mask.tolist() == expected
        assert batch_first.shape == (len(lengths), steps) and batch_first.tolist() == flipped


@given(some_lengths, st.integers(0, 6))
def test_positions_in_a_padded_batch(lengths, steps):
    expected = [t * len(lengths) + b for b, n in enumerate(lengths) for t in range(min(n, steps))]
    positions = flat_positions(torch.tensor(lengths, dtype=torch.int64), steps)
    assert positions.dtype == torch.int64 and positions.tolist() == expected


@given(some_lengths)
def test_positions_in_rows_end_to_end(lengths):
    expected = [t for n in lengths for t in range(n)]
    assert row_positions(np.array(lengths, np.int64)).tolist() == expected


@given(some_lengths, st.integers(-9, 9))
def test_rows_are_padded(lengths, filling):
    values = np.arange(100, 100 + sum(lengths), dtype=np.uint16)
    rest, longest = values.tolist(), max(lengths, default=0)
    expected = []
    for n in lengths:
        expected.append(rest[:n] + [filling] * (longest - n))
        rest = rest[n:]
    padded = pad_rows(values, np.array(lengths, np.int64), filling)
    assert padded.dtype == np.int64 and padded.flags.c_contiguous and padded.shape == (longest, len(lengths))
    assert padded.T.tolist() == expected


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_mask_can_be_compiled_with_steps_that_vary(batch_first):
    compiled = torch.compile(lambda n, t: length_mask(n, t, batch_first=batch_first), backend="eager", fullgraph=True)
    for lengths, steps in (([3, 1], 4), ([2, 2, 0], 2)):
        expected = [[t < n for t in range(steps)] for n in lengths]
        mask = compiled(torch.tensor(lengths), steps)
        assert (mask if batch_first else mask.T).tolist() == expected
