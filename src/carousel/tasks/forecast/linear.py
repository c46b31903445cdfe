"""A linear autoregression, fitted in closed form: each variable's steps ahead from its own past.

Both sides are taken minus the last value, so that the level does not matter. The weights are one tensor (V, h, lags):
of the values before the last one, and in the place of the last one, whose difference from itself is 0, the intercept.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows

PENALTY = 0.1  # on the squared weights, of values scaled to a deviation of 1
WINDOWS = 500_000  # that all variables together are fitted to at most
CHUNK = 2048  # windows that are cut at once
SQUARES = 2**21  # sums of products that are kept at once


def choose_windows(rows: int, lags: int, horizon: int, variables: int) -> np.ndarray:
    """The origins to fit to: all of the training rows, or so many of them, evenly spaced, that it takes seconds."""
    origins = np.arange(lags, rows - horizon + 1)
    most = max(2000, WINDOWS // variables)
    return origins if len(origins) <= most else origins[np.linspace(0, len(origins) - 1, most).astype(int)]


def fit_linear(rows: Rows, origins: np.ndarray, lags: int, horizon: int) -> Tensor:
    """Ridge regression, (V, h, lags) float32; windows with a missing value ahead are left out, each variable by itself.

    A variable without any window stays at its last value.
    """
    many = max(1, SQUARES // lags**2)
    groups = (slice(v, v + many) for v in range(0, rows.there.shape[1], many))
    return torch.cat([_fit(rows.part(group), origins, lags, horizon) for group in groups])


def _fit(rows: Rows, origins: np.ndarray, lags: int, horizon: int) -> Tensor:
    V = rows.there.shape[1]
    squares = torch.zeros(V, lags, lags, dtype=torch.float64)
    products = torch.zeros(V, lags, horizon, dtype=torch.float64)
    for first in range(0, len(origins), CHUNK):
        batch = rows.window(origins[first : first + CHUNK], lags, horizon)
        whole = batch.there.all(0).T.unsqueeze(-1)  # (V, B, 1)
        x = _inputs(batch.past).permute(2, 1, 0).double() * whole  # (V, B, lags)
        y = (batch.future - batch.past[-1]).permute(2, 1, 0).double()
        squares += x.mT @ x
        products += x.mT @ y
    penalty = torch.full((V, lags), PENALTY, dtype=torch.float64)
    penalty[:, -1] = (squares[:, -1, -1] == 0).double()  # the intercept has none, unless there is nothing to fit it to
    factor = torch.linalg.cholesky(squares + torch.diag_embed(penalty))
    return torch.cholesky_solve(products, factor).mT.float().contiguous()


def apply_linear(weights: Tensor, past: Tensor) -> Tensor:
    """Weights (V, h, lags) and past (at least lags, B, V) → the steps ahead, (h, B, V)."""
    past = past[len(past) - weights.shape[2] :]
    return past[-1] + torch.einsum("vhl,lbv->hbv", weights, _inputs(past))


def _inputs(past: Tensor) -> Tensor:
    """(lags, B, V), minus the last value; 1 in its place."""
    return torch.cat((past[:-1] - past[-1], torch.ones_like(past[-1:])))
