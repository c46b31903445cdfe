"""How far confidence can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def expected_calibration_error(confidences: Sequence[float], right: Sequence[bool], bins: int = 15) -> float:
    """The mean distance between confidence and accuracy over `bins` equal intervals of confidence, each weighted by
    how many predictions it has (Naeini et al., 2015); 0 if there are none.

    >>> round(expected_calibration_error([0.9, 0.9, 0.9, 0.9], [True, True, True, False]), 3)
    0.15
    """
    sure, correct = np.asarray(confidences, np.float64), np.asarray(right, np.float64)
    if not len(sure):
        return 0.0
    place = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, sure - correct, bins)
    return float(np.abs(gaps).sum() / len(sure))
