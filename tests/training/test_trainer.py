"""A run against a loop over batches in torch's own parts."""

import pytest
from helpers.bare_training import SGD, same_run, sgd


@pytest.mark.learning
@pytest.mark.parametrize(
    "given",
    [
        {"clip": 0.05},
        {"clip": 0.01, "clip_by": "value"},
        {"clip": 0},
        {"accumulate": 3, "batch_size": 3},
        {"accumulate": 4, "clip": 0.1},  # the last step of an epoch has fewer batches
        {"label_smoothing": 0.2},
        {"tied": False, "layers": 2},
        {"hidden": 5},
        {"layout": "running", "batch_size": 4},
        {"layout": "sentences", "batch_size": 4, "batch_tokens": None},
    ],
)
def test_steps(tmp_path, given):
    same_run(tmp_path, sgd, **SGD, **given)
