"""Sequences in memory, as arrays that NumPy reads again."""

import numpy as np

from carousel.tasks.sequences.task import Sequences


def test_sequences_of_any_length(tmp_path):
    path = Sequences.write_data([(np.arange(3.0), "up"), (np.arange(2.0)[::-1], "down")], tmp_path / "train", {})
    assert path.suffix == ".npz"
    with np.load(path) as arrays:
        assert sorted(arrays["y"].tolist()) == ["down", "up"]
