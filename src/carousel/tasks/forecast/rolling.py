"""Forecasts from many rows of a series (rolling origin), with calibrated bounds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows, WindowBatch
from ...data.sources.series import Series
from ...errors import DataError
from ...training.modes import evaluating
from .errors import Errors
from .network import ForecasterNetwork

BLOCK = 32  # origins that are forecast from in one batch


def find_origins(network: ForecasterNetwork, series: Series) -> np.ndarray:
    """The rows after the training's end that have enough before and after them to be forecast from."""
    reach, h = network.reach.compared, network.settings.horizon
    after = int(np.searchsorted(series.ticks, network.frame.last, side="right"))
    first = after if after < len(series) else 0  # a series of other times: all of it
    origins = np.arange(max(reach, first), len(series) - h + 1)
    if not len(origins):
        problem = (
            f"it takes {reach} rows to read and {h} ahead after {series.time(network.frame.last)}, the last trained on"
        )
        raise DataError(series.path, None, problem, "give a longer series")
    return origins


@torch.no_grad()
def roll(network: ForecasterNetwork, series: Series, origins: np.ndarray) -> tuple[WindowBatch, Tensor]:
    """The windows of rising `origins`, and the bounds of their steps ahead, (h, origins, V, 3), scaled.

    The width of the bounds is calibrated on the `calibration` origins before each whose steps ahead are all known by
    then: both sides are stretched by one factor, so that `interval` of those values would lie between them.
    """
    h, many = network.settings.horizon, network.settings.calibration
    rows = network.frame.rows(series, network.settings.missing, stepwise=not network.settings.direct)
    first = min(int(origins[0]), max(network.reach.compared, int(origins[0]) - many - h + 1))
    every = np.arange(first, int(origins[-1]) + 1) if many else origins
    with evaluating(network):
        bounds = _bounds(network, rows, every)
    actual = rows.window(every, 0, h)
    truth, there = actual.future, actual.there
    low, median, high = bounds.unbind(-1)
    off = (truth - median) / torch.where(truth > median, high - median, median - low).clamp(min=1e-9)
    stretched = bounds[:, np.searchsorted(every, origins)]
    for k, origin in enumerate(origins.tolist()):
        last = int(np.searchsorted(every, origin - h, side="right"))
        ratios, read = off[:, max(0, last - many) : last].abs(), there[:, max(0, last - many) : last]
        for v in range(ratios.shape[2] if many else 0):
            errors = ratios[..., v][read[..., v]]
            if len(errors) >= 20:
                stretch = torch.quantile(errors, network.settings.interval)
                middle = stretched[:, k, v, 1:2]
                stretched[:, k, v] = middle + stretch * (stretched[:, k, v] - middle)
    return rows.window(origins, network.reach.compared, h), stretched


def _bounds(network: ForecasterNetwork, rows: Rows, origins: np.ndarray) -> Tensor:
    """The bounds of the steps ahead of rising `origins` as learnt, (h, origins, V, 3).

    Batches are blocks of BLOCK rows counted from the start of the series, whole even where few of them are needed.
    Matrix products round differently in batches of other sizes; with blocks a forecast is the same to the last bit
    however many others are computed with it and however long the series is.
    """
    parts = []
    for block in np.unique(origins // BLOCK):
        inside = origins[origins // BLOCK == block]
        filled = np.clip(np.arange(block * BLOCK, (block + 1) * BLOCK), inside[0], inside[-1])
        windows = rows.window(filled, network.reach.read, network.settings.horizon)
        parts.append(network.bounds(windows)[:, inside % BLOCK])
    return torch.cat(parts, 1)


def measure(network: ForecasterNetwork, series: Series) -> Errors:
    """The errors of forecasts from every origin of a series."""
    errors = network.errors()
    errors.count(*roll(network, series, find_origins(network, series)))
    if not errors.values:
        problem = f"every value after {series.time(network.frame.last)}, the last trained on, is missing"
        raise DataError(series.path, None, problem, "give a series with values to compare with")
    return errors
