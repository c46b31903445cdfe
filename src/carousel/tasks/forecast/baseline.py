"""Baselines of the forecaster: the last value, the last season, and ridge regression on the values before an origin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows, WindowBatch
from ...training import Data
from ...wording import counted
from .data import ForecastAssets, linear_origins
from .errors import Errors
from .linear import apply_linear, choose_windows, fit_linear
from .settings import ForecastSettings

Forecast = Callable[[WindowBatch], Tensor]  # windows → the values of their steps ahead, (h, B, V), scaled


def baselines(settings: ForecastSettings, assets: ForecastAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By MASE, from the same origins, with values as they were known at each; the mean over all series."""
    frame, h, lags = assets.frame, settings.horizon, assets.frame.lags
    train: Any = data.train
    dev: Any = data.dev
    rows: Rows = dev.store
    every = linear_origins(rows, train.origins, lags, h)
    fitted = choose_windows(every, len(frame.names))
    steps = torch.arange(h)

    def last(batch: WindowBatch) -> Tensor:
        return batch.past[-1:].expand(h, *batch.past.shape[1:])

    def season(batch: WindowBatch) -> Tensor:
        return batch.past[len(batch.past) - frame.season + steps % frame.season]

    def measure(forecast: Forecast, origins: np.ndarray = dev.origins, errors: Errors | None = None) -> Errors:
        errors = errors or Errors(settings, frame, last)
        past = max(lags, frame.season)
        for first in range(0, len(origins), 512):
            batch = rows.window(origins[first : first + 512], past, h)
            errors.count(batch, forecast(batch).unsqueeze(-1).expand(*batch.future.shape, len(settings.levels)))
        return errors

    def ridge(chosen: np.ndarray = fitted, origins: np.ndarray = dev.origins, errors: Errors | None = None) -> Errors:
        weights = fit_linear(rows, chosen, lags, h)
        return measure(lambda batch: apply_linear(weights, batch, lags), origins, errors)

    def ridge_each() -> Errors:
        errors = Errors(settings, frame, last)
        for number in np.unique(rows.series_of(dev.origins)):
            own, ahead = (part[rows.series_of(part) == number] for part in (every, dev.origins))
            ridge(choose_windows(own, len(frame.names)), ahead, errors)
        return errors

    results: dict[str, Callable[[], Errors]] = {"last value": lambda: measure(last)}
    if frame.season > 1:
        results["seasonal naive (the last season again)"] = lambda: measure(season)
    some = "" if len(fitted) == len(every) else f" (on {len(fitted):,} of {len(every):,} windows)"
    name = f"ridge regression on {counted(lags, 'lag')} minus the last value"
    if frame.covariates:
        name += f" and {counted(frame.covariates, 'covariate')}"
    results[name + (" of all series" if len(frame.scales) > 1 else "") + some] = ridge
    if len(frame.scales) > 1:
        results[f"{name}, fitted to each series"] = ridge_each
    return {name: partial(_mase, errors) for name, errors in results.items()}


def _mase(errors: Callable[[], Errors]) -> float:
    return errors().result()["mase"]
