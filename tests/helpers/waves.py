"""Sequences that rise or fall."""

import numpy as np

SMALL = {"hidden": 8, "epochs": 8, "lr": 0.02, "batch_size": 8, "quiet": True, "average": 0, "threads": 1}


def waves(count, seed=0):
    """Rising and falling sequences of different lengths and offsets, which neither mean nor length tells apart."""
    draw = np.random.default_rng(seed)
    sequences = []
    for k in range(count):
        n, sign = int(draw.integers(5, 15)), 1 if k % 2 else -1
        sequences.append((sign * np.linspace(-1, 1, n) + draw.normal(0, 0.1, n), "up" if k % 2 else "down"))
    return sequences


def waves_file(run):
    return next((run / "data").glob("dev*"))
