"""Forecasts from many rows of some series (rolling origin)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from ...data.batches.windows import Rows, WindowBatch
from ...data.sources.series import Panel
from ...errors import DataError
from ...training.modes import evaluating
from .calibration import cross_stretch, nominal, scores, stretched
from .errors import Errors
from .frame import Frame
from .network import ForecasterNetwork

BLOCK = 32  # origins that are forecast from in one batch


@dataclass(frozen=True)
class Source:
    """Series as a network reads them; one that it was not trained on is scaled by its first rows."""

    network: ForecasterNetwork
    panel: Panel
    frame: Frame  # with the scales of these series
    rows: Rows

    @classmethod
    def of(cls, network: ForecasterNetwork, panel: Panel) -> Self:
        s = network.settings
        frame = network.frame.of_panel(panel, network.reach.compared)
        return cls(network, panel, frame, frame.rows(panel, s.missing, s.horizon, stepwise=not s.direct))

    @property
    def ends(self) -> np.ndarray:
        """The origin after the last row of each series."""
        return self.rows.ends

    def find_origins(self) -> np.ndarray:
        """The rows after the training's end that have enough before and after them to be forecast from."""
        reach, h = self.network.reach.compared, self.network.settings.horizon
        first = []
        for name, one in self.panel.series.items():
            after = int(np.searchsorted(one.ticks, self.frame.scales[name].last, side="right"))
            first.append(max(reach, after if after < one.end else 0))  # a series of other times: all of it
        origins = self.rows.origins(first, [one.end for one in self.panel.series.values()], h)
        if not len(origins):
            one = self.panel.first
            last = one.time(self.frame.scales[one.name].last)
            problem = f"it takes {reach} rows to read and {h} ahead after {last}, the last trained on"
            raise DataError(one.label, None, problem, "give a longer series")
        return origins

    def windows(self, origins: np.ndarray) -> WindowBatch:
        """The windows of some origins, to compare with."""
        return self.rows.window(origins, self.network.reach.compared, self.network.settings.horizon)

    @torch.no_grad()
    def roll(self, origins: np.ndarray, calibrated: bool = True) -> Tensor:
        """The quantiles of the steps ahead of rising `origins`, (h, origins, V, Q), scaled.

        Batches are blocks of BLOCK rows counted from the start of a series, whole even where few of them are needed.
        Matrix products round differently in batches of other sizes; with blocks a forecast is the same to the last bit
        however many others are computed with it and however long the series is.
        """
        network, parts = self.network, []
        series = self.rows.series_of(origins)
        place = origins - self.rows.starts[series]
        blocks, member = np.unique(np.stack((series, place // BLOCK)), axis=1, return_inverse=True)
        with evaluating(network):
            for k, (one, block) in enumerate(blocks.T):
                inside = place[member.ravel() == k]
                filled = np.clip(np.arange(block * BLOCK, (block + 1) * BLOCK), inside[0], inside[-1])
                windows = self.rows.window(self.rows.starts[one] + filled, network.reach.read, network.settings.horizon)
                quantiles = network.bounds(windows) if calibrated else network.learnt(windows)
                parts.append(quantiles[:, inside % BLOCK])
        return torch.cat(parts, 1)

    def plain(self, origins: np.ndarray, bounds: Tensor) -> np.ndarray:
        """Quantiles of forecasts, (h, origins, V, Q), in the series' own terms."""
        series = torch.from_numpy(self.rows.series_of(origins))
        return self.frame.plain(bounds.movedim(-1, 0), series).movedim(0, -1).numpy()

    def measure(self, cross_fitted: bool = False) -> Errors:
        """The errors of forecasts from every origin of a series.

        With `cross_fitted`, bounds are calibrated by the other half of the rows, not by what the run has chosen.
        """
        origins, s = self.find_origins(), self.network.settings
        batch, apart = self.windows(origins), cross_fitted and s.calibrate
        bounds = self.roll(origins, calibrated=not apart)
        if apart:
            off = scores(bounds, batch.future)
            bounds = stretched(bounds, cross_stretch(off, batch.there, batch, nominal(s.levels)))
        errors = self.network.errors(self.frame)
        errors.count(batch, bounds)
        if not errors.values:
            one = self.panel.first
            problem = f"every value after {one.time(self.frame.scales[one.name].last)}, the last trained on, is missing"
            raise DataError(one.label, None, problem, "give a series with values to compare with")
        return errors

    def count_chosen(self) -> int:
        """How many of the values that `measure` compares are of the dev set, which chose epoch, shares and bounds."""
        total, h = 0, self.network.settings.horizon
        origins = self.find_origins()
        for k, (name, one) in enumerate(self.panel.series.items()):
            if name in self.network.frame.scales:
                scale = self.frame.scales[name]
                held = int(np.searchsorted(one.ticks, scale.held, side="right"))
                own = origins[self.rows.series_of(origins) == k] - self.rows.starts[k] + np.arange(h)[:, None]
                chose = own[(own < held) & (one.ticks[own] > scale.last)]
                total += int((~np.isnan(one.values[chose])).sum())
        return total
