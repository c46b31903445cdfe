"""Scales and parts of number sequences, by hand."""

import numpy as np
import torch

from carousel.tasks.sequences.batches import Scale, SequenceBatch


def test_scales_by_hand():
    scale = Scale.learn([np.array([[1.0, 5], [3, np.nan]]), np.array([[5.0, 5]])])
    assert scale.mean.tolist() == [3, 5] and scale.missing and scale.inputs == 4
    np.testing.assert_allclose(scale.deviation, [np.std([1, 3, 5]), 1])
    np.testing.assert_allclose(scale(np.array([[np.nan, 6]])), [[0, 1, 1, 0]])


def test_spans():
    batch = SequenceBatch(torch.arange(8.0).reshape(4, 2, 1), torch.tensor([4, 3]), torch.tensor([7, 9]))
    part = batch.spans(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), torch.tensor([2, 1, 2]))
    assert part.x[..., 0].T.tolist() == [[4, 6], [1, 0], [3, 5]] and part.rows.tolist() == [7, 9, 9]
