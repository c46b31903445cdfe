"""The forecaster's network: past values → layers → the quantiles of each step ahead."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ...data.batches.windows import WindowBatch
from ...training import Loss, Network
from .calibration import choose_stretch, count_horizons, cross_stretch, nominal, scores, stretched
from .data import ForecastAssets
from .errors import Errors, quantile_loss
from .frame import Frame
from .linear import apply_linear, count_inputs
from .settings import ForecastSettings

PATHS = 200  # sampled for the interval of an autoregressive forecast


class ForecasterNetwork(Network):
    """Past values (L + lag, B, V) to quantiles of each step ahead, (h, B, V, Q).

    A forecast is a change from that of a linear autoregression or, without it, from the value a season before (or the
    last one). Either way a level never seen in training is no trouble, and an untrained network forecasts just that.

    The autoregression is fitted before training, in closed form, to squared errors (`fitted`); a copy is then trained
    with the network, to absolute ones (`linear`). `shares` (2, V) says how far to go from the first to the second, and
    how much of the network's change to add; they are chosen for each variable on the dev set. `stretch` (h, V, P), by
    which each pair of bounds is drawn away from the median, is chosen there too (`calibration.py`).

    What is known ahead (C numbers for each step) is read by the layers for the steps of the past, and by `ahead`, with
    the layers' last output, for each step to forecast.
    """

    unit = "values"

    def __init__(self, settings: ForecastSettings, assets: ForecastAssets) -> None:
        super().__init__()
        self.settings = s = settings
        self.frame = frame = assets.frame
        self.reach = frame.reach(s)
        self.lag = self.reach.lag
        V, C, h, Q = len(frame.names), frame.covariates, s.horizon, len(s.levels)
        steps = h if s.direct else 1
        features = 3 * V + C + (2 if frame.season > 1 else 0)
        self.layers = s.recurrent(features, num_layers=s.layers, dropout=s.dropout, forget_bias=s.forget_bias)
        self.drop = nn.Dropout(s.dropout)
        self.output = nn.Linear(s.hidden, steps * V * Q)
        self.ahead = None
        if C and s.direct:
            self.ahead = nn.Sequential(nn.Linear(s.hidden + C, s.hidden), nn.Tanh(), nn.Linear(s.hidden, V * Q))
        for last in (self.output, self.ahead[-1] if self.ahead is not None else None):
            if isinstance(last, nn.Linear):
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)
        linear = torch.zeros(V, h, count_inputs(frame.lags, h, C)) if s.linear and s.direct else None
        self.linear = nn.Parameter(linear) if linear is not None else None
        self.fitted: Tensor | None
        self.shares: Tensor | None
        self.stretch: Tensor
        self.register_buffer("fitted", torch.zeros(linear.shape) if linear is not None else None)
        self.register_buffer("shares", torch.ones(2, V) if linear is not None else None)
        self.register_buffer("stretch", torch.ones(h, V, Q // 2))
        if self.linear is not None and self.fitted is not None and assets.linear is not None:
            self.linear.data.copy_(assets.linear)
            self.fitted.copy_(assets.linear)

    def features(self, batch: WindowBatch, centre: Tensor) -> Tensor:
        """The past (L + lag, B, V) of windows → (L, B, features): levels, changes, what is missing, the place in the
        season, and what is known ahead: of the step itself or, for autoregression, of the next."""
        past, lag = batch.past, self.lag
        level = past if self.settings.around == "none" else past - centre
        parts = [level[lag:], past[lag:] - past[:-lag], (~batch.known[lag:]).to(past.dtype)]
        if self.frame.season > 1:
            angle = batch.phase[lag : len(past)].to(past.dtype) * (2 * math.pi / self.frame.season)
            parts.append(torch.stack((angle.sin(), angle.cos()), 2))
        next_step = 0 if self.settings.direct else 1
        parts.append(batch.covariates[lag + next_step : len(past) + next_step])
        return torch.cat(parts, 2)

    def read(self, batch: WindowBatch) -> Tensor:
        """What the layers read of a batch, (L, B, features)."""
        batch = batch.last(self.frame.context + self.lag)
        return self.features(batch, batch.past[-1 if self.settings.direct else 0])

    def spread(self, raw: Tensor, middle: Tensor, share: Tensor | float = 1.0) -> Tensor:
        """raw (..., V, Q), the value that forecasts are a change from and the share of that change → quantiles, which
        never cross."""
        pairs = raw.shape[-1] // 2
        median = (middle + share * raw[..., pairs]).unsqueeze(-1)
        gaps = F.softplus(raw)
        below = gaps[..., :pairs].flip(-1).cumsum(-1).flip(-1)
        return torch.cat((median - below, median, median + gaps[..., pairs + 1 :].cumsum(-1)), -1)

    def bounds(self, batch: WindowBatch) -> Tensor:
        """Calibrated quantiles of every step ahead, scaled: (h, B, V, Q)."""
        return stretched(self.learnt(batch), self.stretch)

    def learnt(self, batch: WindowBatch) -> Tensor:
        """The quantiles before calibration."""
        if not self.settings.direct:
            return self.unrolled(batch.last(self.reach.read))
        raw, middle = self.parts(batch)
        if self.shares is None or self.fitted is None:
            return self.spread(raw, middle)
        return self.mixed(raw, middle, apply_linear(self.fitted, batch, self.frame.lags), self.shares)

    def parts(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        """What the layers say of every step ahead, (h, B, V, Q), and what forecasts are a change from, (h, B, V)."""
        (_, B, V), h = batch.past.shape, self.settings.horizon
        y, _ = self.layers(self.read(batch))
        state = self.drop(y[-1])
        raw = self.output(state).view(B, h, V, -1).transpose(0, 1)
        if self.ahead is not None:
            known = torch.cat((state.expand(h, *state.shape), batch.covariates[len(batch.past) :]), 2)
            raw = raw + self.ahead(known).view(h, B, V, -1)
        return raw, self.reference(batch)

    def mixed(self, raw: Tensor, middle: Tensor, fitted: Tensor, shares: Tensor) -> Tensor:
        """The quantiles with `shares`, (2, V) or (2,), of the trained autoregression and of the network."""
        return self.spread(raw, torch.lerp(fitted, middle, shares[0]), shares[1])

    def reference(self, batch: WindowBatch) -> Tensor:
        """What forecasts are a change from, (h, B, V)."""
        past, h = batch.past, self.settings.horizon
        if self.linear is not None:
            return apply_linear(self.linear, batch, self.frame.lags)
        if self.settings.around == "none":
            return past.new_zeros(h, *past.shape[1:])
        steps = torch.arange(h, device=past.device) % self.lag
        return past[len(past) - self.lag + steps]

    def one_ahead(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        """For autoregression: the quantiles of the value after each step, (L + h - 1, B, V, Q), and those values."""
        values = torch.cat((batch.past, batch.future))
        known = torch.cat((batch.known, batch.there))
        y, _ = self.layers(self.features(replace(batch, past=values[:-1], known=known[:-1]), values[0]))
        raw = self.output(self.drop(y)).view(*y.shape[:2], values.shape[2], -1)
        truth = values[self.lag + 1 :]
        before = values[1 : len(values) - self.lag] if self.settings.around != "none" else torch.zeros_like(truth)
        return self.spread(raw, before), truth

    @torch.no_grad()
    def unrolled(self, batch: WindowBatch) -> Tensor:
        """Step by step, each path reading its own samples: the quantiles of PATHS of them, (h, B, V, Q).

        A sample's quantile is drawn as a normal value z; between the quantiles of the network it lies on a line over z.
        All windows share the random numbers, so that a forecast does not depend on what else is in the batch.
        """
        h, lag, (L, B, V) = self.settings.horizon, self.lag, batch.past.shape
        draw = torch.Generator().manual_seed(self.settings.seed)
        y, state = self.layers(self.features(batch, batch.past[0]))
        y = y[-1:].repeat_interleave(PATHS, 1)
        state = tree_map(lambda part: part.repeat_interleave(PATHS, 1), state)
        centre = batch.past[0].repeat_interleave(PATHS, 0)
        phase, ahead = (part[L - lag :].repeat_interleave(PATHS, 1) for part in (batch.phase, batch.covariates))
        values = batch.past.new_zeros(lag + h, B * PATHS, V)
        values[:lag] = batch.past[-lag:].repeat_interleave(PATHS, 1)
        known = torch.ones(lag + 1, B * PATHS, V, dtype=torch.bool)
        for k in range(h):
            before = torch.zeros_like(values[k]) if self.settings.around == "none" else values[k]
            quantiles = self.spread(self.output(y[-1]).view(B * PATHS, V, -1), before)
            weights = between_levels(torch.randn(PATHS, V, generator=draw), self.settings.levels)
            values[lag + k] = (quantiles * weights.repeat(B, 1, 1)).sum(-1)
            if k + 1 < h:
                past = values[k : lag + k + 1]
                step = replace(batch, past=past, known=known, phase=phase[k:], covariates=ahead[k:])
                y, state = self.layers(self.features(step, centre), state)
        levels = torch.tensor(self.settings.levels)
        return torch.quantile(values[lag:].view(h, B, PATHS, V), levels, dim=2).movedim(0, -1)

    def loss(self, batch: WindowBatch) -> Loss:
        """The mean quantile loss of a value, and the mean absolute error of the linear autoregression: each part is
        trained by its own, so that neither leaves its work to the other."""
        if self.settings.direct:
            raw, middle = self.parts(batch)
            bounds, truth, there = self.spread(raw, middle.detach()), batch.future, batch.there
        else:
            bounds, truth = self.one_ahead(batch)
            there = torch.cat((batch.known, batch.there))[self.lag + 1 :]
        losses = quantile_loss(bounds, truth, self.settings.levels)
        if self.linear is not None:
            losses = losses + (middle - truth).abs()
        count = max(1, int(there.sum()))
        return Loss((losses * there).sum() / count, count)

    def metric(self) -> Errors:
        return DevErrors(self)

    def errors(self, frame: Frame | None = None) -> Errors:
        """Those of forecasts as they are, to measure them once the network is trained."""
        return Errors(self.settings, frame or self.frame, self.bounds)


def between_levels(z: Tensor, levels: list[float]) -> Tensor:
    """Normal values → the weights of the quantiles around each, (..., Q), which sum to 1: linear between the levels'
    own normal values, and beyond the outermost as between the last two.

    >>> between_levels(torch.tensor([0.0]), [0.1, 0.5, 0.9]).tolist()
    [[0.0, 1.0, 0.0]]
    """
    at = torch.tensor([NormalDist().inv_cdf(level) for level in levels], dtype=z.dtype)
    right = torch.searchsorted(at, z.contiguous()).clamp(1, len(levels) - 1)
    share = (z - at[right - 1]) / (at[right] - at[right - 1])
    weights = z.new_zeros(*z.shape, len(levels))
    weights.scatter_(-1, right.unsqueeze(-1) - 1, 1 - share.unsqueeze(-1))
    return weights.scatter_(-1, right.unsqueeze(-1), share.unsqueeze(-1))


class Kept(NamedTuple):
    """Windows of the dev set, as far as errors need them, and what the network says of them."""

    batch: WindowBatch
    raw: Tensor  # (h, B, V, Q): what the layers say or, without an autoregression, the quantiles
    middle: Tensor  # (h, B, V): the trained autoregression
    fitted: Tensor  # (h, B, V): the fitted one

    def take(self, chosen: Tensor) -> Kept:
        batch, *others = self
        return Kept(batch.take(chosen), *(part[:, chosen] for part in others))


class DevErrors(Errors):
    """The errors on the dev set, which chooses what the network then has: shares and stretch.

    Shares are, for each variable, those with the smallest absolute error; with shares of 0 the median is that of the
    fitted autoregression. The stretch calibrates the bounds. Their coverage is measured with the stretch that the other
    half of the rows chooses. Of a dev set with more than MOST values, every second, fourth, … origin counts.
    """

    SHARES = tuple((k / 2, n / 10) for k in range(3) for n in range(11))
    MOST = 4_000_000  # values, of all windows, steps ahead and variables
    sums = ("kept",)

    def __init__(self, network: ForecasterNetwork) -> None:
        super().__init__(network.settings, network.frame, network.bounds)
        self.network = network
        self.kept: list[Kept] = []
        self.every = 1

    @torch.no_grad()
    def add(self, batch: WindowBatch) -> None:
        network = self.network
        windows = batch.last(network.frame.season)  # errors need no more of the past
        if network.fitted is None:
            quantiles = network.learnt(batch)
            self.kept.append(Kept(windows, quantiles, quantiles[..., 0], quantiles[..., 0]))
        else:
            fitted = apply_linear(network.fitted, batch, network.frame.lags)
            self.kept.append(Kept(windows, *network.parts(batch), fitted))
        self._thin()

    def _thin(self) -> None:
        def total() -> int:
            return sum(one.middle.numel() for one in self.kept)

        self.kept[-1] = self.kept[-1].take(self.kept[-1].batch.origins % self.every == 0)
        while total() > self.MOST:
            self.every *= 2
            self.kept = [one.take(one.batch.origins % self.every == 0) for one in self.kept]

    @torch.no_grad()
    def result(self) -> dict[str, float]:
        if self.kept:
            parts = zip(*((one.raw, one.middle, one.fitted) for one in self.kept), strict=True)
            raw, middle, fitted = (torch.cat(part, 1) for part in parts)
            self.reset()
            self._choose(WindowBatch.join([one.batch for one in self.kept]), raw, middle, fitted)
        return super().result()

    def _choose(self, batch: WindowBatch, raw: Tensor, middle: Tensor, fitted: Tensor) -> None:
        network, bounds = self.network, raw
        if network.shares is not None:
            truth, pairs = self.frame.plain(batch.future, batch.series), len(self.levels) // 2
            errors = []
            for trained, change in self.SHARES:
                median = torch.lerp(fitted, middle, trained) + change * raw[..., pairs]
                off = (self.frame.plain(median, batch.series) - truth).abs() / self.frame.units[batch.series]
                errors.append(torch.where(batch.there, off, 0.0).sum((0, 1)))
            best = torch.stack(errors).argmin(0)  # (V,)
            network.shares.copy_(torch.tensor(self.SHARES)[best].T)
            bounds = network.mixed(raw, middle, fitted, network.shares)
        if network.settings.calibrate:
            shares = nominal(self.levels)
            off = scores(bounds, batch.future)
            network.stretch.copy_(choose_stretch(off, batch.there, count_horizons(batch), shares))
            bounds = stretched(bounds, cross_stretch(off, batch.there, batch, shares))
        self.count(batch, bounds)
