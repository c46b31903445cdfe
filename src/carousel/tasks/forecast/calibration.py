"""Bounds that cover what their levels say: conformal calibration on values that nothing was trained on.

The score of a value is its distance from the median, in units of the distance of the bound on its side. A pair of
bounds with the levels p and 1 - p is stretched, away from the median, by the quantile of the scores at 1 - 2p, with the
correction for a finite sample: level (1 - 2p)(n + 1) / n for n origins. Forecasts from neighbouring origins overlap and
err together, so that a few origins still say little; each step ahead has a stretch of its own only if the dev set is
many horizons long.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import WindowBatch

BY_STEP = 30  # horizons end to end, from which on each step ahead has a stretch of its own
NARROWEST = 1e-9  # of a bound's distance from the median


def nominal(levels: list[float]) -> list[float]:
    """The coverage of each pair of bounds, the outermost first.

    >>> [round(share, 6) for share in nominal([0.1, 0.25, 0.5, 0.75, 0.9])]
    [0.8, 0.5]
    """
    return [1 - 2 * level for level in levels[: len(levels) // 2]]


def stretched(bounds: Tensor, stretch: Tensor) -> Tensor:
    """Quantiles (h, B, V, Q), stretched by (h, V, P) or (h, B, V, P), the outermost pair first; they never cross."""
    stretch = stretch if stretch.dim() == bounds.dim() else stretch.unsqueeze(1)
    pairs = bounds.shape[-1] // 2
    median = bounds[..., pairs : pairs + 1]
    below = (median - bounds[..., :pairs]) * stretch  # outermost first
    above = (bounds[..., pairs + 1 :] - median) * stretch.flip(-1)  # innermost first
    below = below.flip(-1).cummax(-1).values.flip(-1)
    return torch.cat((median - below, median, median + above.cummax(-1).values), -1)


def scores(bounds: Tensor, truth: Tensor) -> Tensor:
    """Quantiles (h, B, V, Q) and actual values (h, B, V) → the score of each for each pair of bounds, (h, B, V, P)."""
    pairs = bounds.shape[-1] // 2
    median = bounds[..., pairs]
    low, high = bounds[..., :pairs], bounds[..., pairs + 1 :].flip(-1)
    off = (truth - median).unsqueeze(-1)
    width = torch.where(off > 0, high - median.unsqueeze(-1), median.unsqueeze(-1) - low)
    return off.abs() / width.clamp(min=NARROWEST)


def choose_stretch(scores: Tensor, use: Tensor, horizons: float, shares: list[float]) -> Tensor:
    """Scores (h, B, V, P), which of them to use, (h, B, V), and the coverage of each pair → the stretch, (h, V, P).

    `horizons` is how many lie end to end in the rows that are used. Where nothing is used, bounds stay as they are.
    """
    h, _, V, P = scores.shape
    table = np.where(use.unsqueeze(-1).numpy(), scores.double().numpy(), np.nan)
    result = np.ones((h, V, P))
    n = max(1, int(use.any(2).any(0).sum()))  # origins
    for v in range(V):
        groups = [slice(k, k + 1) for k in range(h)] if horizons >= BY_STEP else [slice(0, h)]
        for steps in groups:
            for p, share in enumerate(shares):
                values = table[steps, :, v, p]
                values = values[~np.isnan(values)]
                if len(values):
                    result[steps, v, p] = np.quantile(values, min(1.0, share * (n + 1) / n))
    return torch.from_numpy(result).to(scores.dtype)


def cross_stretch(scores: Tensor, there: Tensor, batch: WindowBatch, shares: list[float]) -> Tensor:
    """The stretch of each value from the other half of its series' rows, (h, B, V, P): no row chooses its bounds."""
    rows = batch.origins + torch.arange(len(scores)).unsqueeze(1)  # (h, B)
    later = torch.zeros_like(rows, dtype=torch.bool)
    for one in batch.series.unique():
        own = batch.series == one
        later[:, own] = rows[:, own] > (rows[:, own].min() + rows[:, own].max()) // 2
    later = later.unsqueeze(-1)
    horizons = max(1.0, count_horizons(batch) / 2)
    early, late = (choose_stretch(scores, there & half, horizons, shares) for half in (~later, later))
    return torch.where(later.unsqueeze(-1), early.unsqueeze(1), late.unsqueeze(1))


def count_horizons(batch: WindowBatch) -> float:
    """How many horizons lie end to end in the rows ahead of the origins, over all series."""
    h = len(batch.future)
    spans = (batch.origins[batch.series == one] for one in batch.series.unique())
    return max(1.0, sum((int(span.max() - span.min()) + h) / h for span in spans))
