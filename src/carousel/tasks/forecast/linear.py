"""A linear autoregression, fitted in closed form: each variable's steps ahead from its own past.

Both sides are taken minus the last value, so that the level does not matter. The weights are one tensor (V, h, inputs):
of the `lags` values before the origin, in place of the last one, whose difference from itself is 0, the intercept;
then of what is known ahead, at the steps ahead and at as many before them. Several series share the weights.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows, WindowBatch

PENALTY = 0.1  # on the squared weights, of values scaled to a deviation of 1
WINDOWS = 500_000  # that all variables together are fitted to at most
CHUNK = 2048  # windows that are cut at once
SQUARES = 2**21  # sums of products that are kept at once


def choose_windows(origins: np.ndarray, variables: int) -> np.ndarray:
    """The origins to fit to: all, or so many of them, evenly spaced, that it takes seconds."""
    most = max(2000, WINDOWS // variables)
    return origins if len(origins) <= most else origins[np.linspace(0, len(origins) - 1, most).astype(int)]


def count_inputs(lags: int, horizon: int, covariates: int) -> int:
    """How many numbers the steps ahead are computed from."""
    return lags + (horizon + min(lags, horizon)) * covariates


def fit_linear(rows: Rows, origins: np.ndarray, lags: int, horizon: int) -> Tensor:
    """Ridge regression, (V, h, inputs) float32; windows with a missing value ahead are left out, for each variable.

    A variable without any window stays at its last value.
    """
    many = max(1, SQUARES // count_inputs(lags, horizon, rows.covariates.shape[1]) ** 2)
    groups = (slice(v, v + many) for v in range(0, rows.there.shape[1], many))
    return torch.cat([_fit(rows.part(group), origins, lags, horizon) for group in groups])


def _fit(rows: Rows, origins: np.ndarray, lags: int, horizon: int) -> Tensor:
    V, inputs = rows.there.shape[1], count_inputs(lags, horizon, rows.covariates.shape[1])
    squares = torch.zeros(V, inputs, inputs, dtype=torch.float64)
    products = torch.zeros(V, inputs, horizon, dtype=torch.float64)
    for first in range(0, len(origins), CHUNK):
        batch = rows.window(origins[first : first + CHUNK], lags, horizon)
        whole = batch.there.all(0).T.unsqueeze(-1)  # (V, B, 1)
        x = _inputs(batch, lags).permute(2, 1, 0).double() * whole  # (V, B, inputs)
        y = (batch.future - batch.past[-1]).permute(2, 1, 0).double()
        squares += x.mT @ x
        products += x.mT @ y
    penalty = torch.full((V, inputs), PENALTY, dtype=torch.float64)
    constant = lags - 1
    penalty[:, constant] = (squares[:, constant, constant] == 0).double()  # none, unless there is nothing to fit it to
    factor = torch.linalg.cholesky(squares + torch.diag_embed(penalty))
    return torch.cholesky_solve(products, factor).mT.float().contiguous()


def apply_linear(weights: Tensor, batch: WindowBatch, lags: int) -> Tensor:
    """Weights (V, h, inputs) and windows of at least `lags` steps → the steps ahead, (h, B, V)."""
    return batch.past[-1] + torch.einsum("vhi,ibv->hbv", weights, _inputs(batch, lags))


def _inputs(batch: WindowBatch, lags: int) -> Tensor:
    """(inputs, B, V): the past minus the last value, 1 in its place; then what is known ahead."""
    past, (_, B, C) = batch.past[len(batch.past) - lags :], batch.covariates.shape
    parts = [past[:-1] - past[-1], torch.ones_like(past[-1:])]
    if C:
        h = len(batch.future)
        known = batch.covariates[len(batch.past) - min(lags, h) :]  # (steps, B, C)
        parts.append(known.transpose(1, 2).reshape(-1, B, 1).expand(-1, B, past.shape[2]))
    return torch.cat(parts)
