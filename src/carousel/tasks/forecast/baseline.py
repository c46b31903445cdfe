"""Baselines of the forecaster: the last value, the last season, and ridge regression on the values before an origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows
from ...training import Data
from ...wording import counted
from .data import ForecastAssets
from .errors import Errors
from .frame import Frame
from .linear import apply_linear, choose_windows, fit_linear
from .settings import ForecastSettings


def baselines(settings: ForecastSettings, assets: ForecastAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By MASE, from the same origins, with values as they were known at each."""
    frame, h = assets.frame, settings.horizon
    train: Any = data.train
    dev: Any = data.dev
    rows: Rows = dev.store
    trained = int(train.origins[-1]) + h  # rows
    lags, every = frame.lags, trained - h + 1 - frame.lags
    fitted = choose_windows(trained, lags, h, len(frame.names))
    steps = torch.arange(h)

    def last(past: Tensor) -> Tensor:
        return past[-1:].expand(h, *past.shape[1:])

    def season(past: Tensor) -> Tensor:
        return past[len(past) - frame.season + steps % frame.season]

    def measure(past: int, forecast: Callable[[Tensor], Tensor]) -> float:
        return mase(settings, frame, rows, dev.origins, past, forecast)

    def ridge() -> float:
        weights = fit_linear(rows, fitted, lags, h)
        return measure(max(lags, frame.season), lambda past: apply_linear(weights, past))

    found = {"last value": lambda: measure(frame.season, last)}
    if frame.season > 1:
        found["seasonal naive (the last season again)"] = lambda: measure(frame.season, season)
    some = "" if len(fitted) == every else f" (on {len(fitted):,} of {every:,} windows)"
    found[f"ridge regression on {counted(lags, 'lag')} minus the last value{some}"] = ridge
    return found


def mase(
    settings: ForecastSettings,
    frame: Frame,
    rows: Rows,
    origins: np.ndarray,
    past: int,
    forecast: Callable[[Tensor], Tensor],
) -> float:
    """Of `forecast`: `past` values before each origin, (past, B, V), scaled → those of the steps ahead, (h, B, V)."""
    errors = Errors(settings, frame, lambda batch: forecast(batch.past).unsqueeze(-1).expand(*batch.future.shape, 3))
    for first in range(0, len(origins), 512):
        errors.add(rows.window(origins[first : first + 512], past, settings.horizon))
    return errors.result()["mase"]
