"""Baselines of the forecaster: the last value, the last season, and ridge regression on the values before an origin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows
from ...data.sources.filling import Fill
from ...training import Data
from ...wording import counted
from .data import ForecastAssets
from .errors import Errors
from .frame import Frame
from .settings import ForecastSettings

SEASONS = 7  # to regress on: a week of hours
PENALTY = 0.1  # on the squared weights, of values scaled to a deviation of 1
WINDOWS = 500_000  # that all variables together are fitted to at most


def baselines(settings: ForecastSettings, assets: ForecastAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By MASE, from the same origins, with values as they were known at each."""
    frame, h = assets.frame, settings.horizon
    train: Any = data.train
    dev: Any = data.dev
    rows: Rows = dev.store
    trained = int(train.origins[-1]) + h  # rows
    lags = choose_lags(frame, trained, h)
    origins = np.arange(lags, trained - h + 1)
    most = max(2000, WINDOWS // len(frame.names))
    fitted = origins if len(origins) <= most else origins[np.linspace(0, len(origins) - 1, most).astype(int)]
    steps = torch.arange(h)

    def last(past: Tensor) -> Tensor:
        return past[-1:].expand(h, *past.shape[1:])

    def season(past: Tensor) -> Tensor:
        return past[len(past) - frame.season + steps % frame.season]

    def measure(past: int, forecast: Callable[[Tensor], Tensor]) -> float:
        return mase(settings, frame, rows, dev.origins, past, forecast)

    def ridge() -> float:
        model = Ridge(rows, fitted, lags, h)
        return measure(max(lags, frame.season), lambda past: model(past[len(past) - lags :]))

    found = {"last value": lambda: measure(frame.season, last)}
    if frame.season > 1:
        found["seasonal naive (the last season again)"] = lambda: measure(frame.season, season)
    some = "" if len(fitted) == len(origins) else f" (on {most:,} of {len(origins):,} windows)"
    found[f"ridge regression on {counted(lags, 'lag')} minus the last value{some}"] = ridge
    return found


def choose_lags(frame: Frame, rows: int, horizon: int) -> int:
    """Seven seasons, if twice as many windows are left to fit; at least the network's context."""
    week = SEASONS * frame.season if frame.season > 1 else 0
    return max(frame.context, week if rows - week - horizon + 1 >= 2 * week else 0)


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


class Ridge:
    """For each variable, its steps ahead from its own past, both minus the last value: scikit-learn's Ridge."""

    def __init__(self, rows: Rows, origins: np.ndarray, lags: int, horizon: int) -> None:
        from sklearn.linear_model import Ridge as Linear

        self.models: list[Linear | None] = []
        for v in range(rows.there.shape[1]):
            fill = Fill(*(part[:, v : v + 1] for part in rows.fill))
            windows = replace(rows, fill=fill, there=rows.there[:, v : v + 1]).window(origins, lags, horizon)
            real = windows.there[..., 0].all(0)  # whose steps ahead are all readings
            past, future = windows.past[..., 0].T[real].numpy(), windows.future[..., 0].T[real].numpy()
            last = past[:, -1:]
            self.models.append(Linear(PENALTY).fit(past[:, :-1] - last, future - last) if len(past) else None)

    def __call__(self, past: Tensor) -> Tensor:
        """(lags, B, V) → (h, B, V); a variable that nothing was learnt of stays at its last value."""
        ahead = []
        for v, model in enumerate(self.models):
            x = past[..., v].T.numpy()
            change = np.zeros(1, np.float32) if model is None else model.predict(x[:, :-1] - x[:, -1:]).T
            ahead.append(torch.from_numpy(np.ascontiguousarray(x[:, -1] + change)))
        return torch.stack(torch.broadcast_tensors(*ahead), -1)
