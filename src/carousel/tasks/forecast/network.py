"""The forecaster's network: past values → layers → the median and the bounds of each step ahead."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ...data.batches.windows import WindowBatch
from ...networks.encoder import encoder
from ...training import Loss, Network
from .data import ForecastAssets
from .errors import Errors, quantile_loss
from .linear import apply_linear
from .settings import ForecastSettings

PATHS = 200  # sampled for the interval of an autoregressive forecast


class ForecasterNetwork(Network):
    """Past values (L + lag, B, V) to low, median and high of each step ahead, (h, B, V, 3).

    A forecast is a change from that of a linear autoregression or, without it, from the value a season before (or the
    last one). Either way a level never seen in training is no trouble, and an untrained network forecasts just that.

    The autoregression is fitted before training, in closed form, to squared errors (`fitted`); a copy is then trained
    with the network, to absolute ones (`linear`). `shares` (2, V) says how far to go from the first to the second, and
    how much of the network's change to add; they are chosen for each variable on the dev set.
    """

    unit = "values"

    def __init__(self, settings: ForecastSettings, assets: ForecastAssets) -> None:
        super().__init__()
        self.settings = s = settings
        self.frame = frame = assets.frame
        self.reach = frame.reach(s)
        self.lag = self.reach.lag
        V = len(frame.names)
        ahead = s.horizon if s.direct else 1
        features = 3 * V + (2 if frame.season > 1 else 0)
        self.layers = encoder(
            s.cell, features, s.hidden, num_layers=s.layers, dropout=s.dropout, forget_bias=s.forget_bias
        )
        self.drop = nn.Dropout(s.dropout)
        self.output = nn.Linear(s.hidden, ahead * V * 3)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        linear = s.linear and s.direct
        self.linear = nn.Parameter(torch.zeros(V, ahead, frame.lags)) if linear else None
        self.fitted: Tensor | None
        self.shares: Tensor | None
        self.register_buffer("fitted", torch.zeros(V, ahead, frame.lags) if linear else None)
        self.register_buffer("shares", torch.ones(2, V) if linear else None)
        if self.linear is not None and self.fitted is not None and assets.linear is not None:
            self.linear.data.copy_(assets.linear)
            self.fitted.copy_(assets.linear)

    def features(self, past: Tensor, known: Tensor, phase: Tensor, centre: Tensor) -> Tensor:
        """past (L + lag, B, V) → (L, B, features): levels, changes, what is missing, the place in the season."""
        level = past if self.settings.around == "none" else past - centre
        parts = [level[self.lag :], past[self.lag :] - past[: -self.lag], (~known[self.lag :]).to(past.dtype)]
        if self.frame.season > 1:
            angle = phase[self.lag : len(past)].to(past.dtype) * (2 * math.pi / self.frame.season)
            parts.append(torch.stack((angle.sin(), angle.cos()), 2))
        return torch.cat(parts, 2)

    def read(self, batch: WindowBatch) -> Tensor:
        """What the layers read of a batch, (L, B, features)."""
        batch = batch.last(self.frame.context + self.lag)
        centre = batch.past[-1 if self.settings.direct else 0]
        return self.features(batch.past, batch.known, batch.phase, centre)

    def spread(self, raw: Tensor, middle: Tensor, share: Tensor | float = 1.0) -> Tensor:
        """raw (..., V, 3), the value that forecasts are a change from and the share of that change → low, median, high,
        which never cross."""
        median = middle + share * raw[..., 1]
        return torch.stack((median - F.softplus(raw[..., 0]), median, median + F.softplus(raw[..., 2])), -1)

    def bounds(self, batch: WindowBatch) -> Tensor:
        """Low, median and high of every step ahead, scaled: (h, B, V, 3)."""
        if not self.settings.direct:
            return self.unrolled(batch.last(self.reach.read))
        raw, middle = self.parts(batch)
        if self.shares is None or self.fitted is None:
            return self.spread(raw, middle)
        return self.mixed(raw, middle, apply_linear(self.fitted, batch.past), self.shares)

    def parts(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        """What the layers say of every step ahead, (h, B, V, 3), and what forecasts are a change from, (h, B, V)."""
        V, h = batch.past.shape[2], self.settings.horizon
        y, _ = self.layers(self.read(batch))
        raw = self.output(self.drop(y[-1])).view(len(y[-1]), h, V, 3).transpose(0, 1)
        return raw, self.reference(batch.past, h)

    def mixed(self, raw: Tensor, middle: Tensor, fitted: Tensor, shares: Tensor) -> Tensor:
        """The bounds with `shares`, (2, V) or (2,), of the trained autoregression and of the network."""
        return self.spread(raw, torch.lerp(fitted, middle, shares[0]), shares[1])

    def reference(self, past: Tensor, ahead: int) -> Tensor:
        """What forecasts are a change from, (h, B, V)."""
        if self.linear is not None:
            return apply_linear(self.linear, past)
        if self.settings.around == "none":
            return past.new_zeros(ahead, *past.shape[1:])
        steps = torch.arange(ahead, device=past.device) % self.lag
        return past[len(past) - self.lag + steps]

    def one_ahead(self, batch: WindowBatch) -> tuple[Tensor, Tensor]:
        """For autoregression: the bounds of the value after each step, (L + h - 1, B, V, 3), and those values."""
        values = torch.cat((batch.past, batch.future))
        known = torch.cat((batch.known, batch.there))
        y, _ = self.layers(self.features(values[:-1], known[:-1], batch.phase, values[0]))
        raw = self.output(self.drop(y)).view(*y.shape[:2], -1, 3)
        truth = values[self.lag + 1 :]
        before = values[1 : len(values) - self.lag] if self.settings.around != "none" else torch.zeros_like(truth)
        return self.spread(raw, before), truth

    @torch.no_grad()
    def unrolled(self, batch: WindowBatch) -> Tensor:
        """Step by step, each path reading its own samples: the quantiles of PATHS of them, (h, B, V, 3).

        Samples are normal on either side of the median, each side as wide as its bound says. All windows share the
        random numbers, so that a forecast does not depend on what else is in the batch.
        """
        h, lag, (_, B, V) = self.settings.horizon, self.lag, batch.past.shape
        draw = torch.Generator().manual_seed(self.settings.seed)
        sure = NormalDist().inv_cdf((1 + self.settings.interval) / 2)
        y, state = self.layers(self.features(batch.past, batch.known, batch.phase, batch.past[0]))
        y = y[-1:].repeat_interleave(PATHS, 1)
        state = tree_map(lambda part: part.repeat_interleave(PATHS, 1), state)
        centre = batch.past[0].repeat_interleave(PATHS, 0)
        phase = batch.phase[len(batch.past) - lag :].repeat_interleave(PATHS, 1)
        values = batch.past.new_zeros(lag + h, B * PATHS, V)
        values[:lag] = batch.past[-lag:].repeat_interleave(PATHS, 1)
        known = torch.ones(lag + 1, B * PATHS, V, dtype=torch.bool)
        for k in range(h):
            before = torch.zeros_like(values[k]) if self.settings.around == "none" else values[k]
            low, median, high = self.spread(self.output(y[-1]).view(B * PATHS, V, 3), before).unbind(-1)
            noise = (torch.randn(PATHS, V, generator=draw) / sure).repeat(B, 1)
            values[lag + k] = median + torch.where(noise > 0, noise * (high - median), noise * (median - low))
            if k + 1 < h:
                here = slice(k, lag + k + 1)
                y, state = self.layers(self.features(values[here], known, phase[here], centre), state)
        edge = (1 - self.settings.interval) / 2
        quantiles = torch.quantile(values[lag:].view(h, B, PATHS, V), torch.tensor([edge, 0.5, 1 - edge]), dim=2)
        return quantiles.movedim(0, -1)

    def loss(self, batch: WindowBatch) -> Loss:
        """The mean quantile loss of a value, and the mean absolute error of the linear autoregression: each part is
        trained by its own, so that neither leaves its work to the other."""
        if self.settings.direct:
            raw, middle = self.parts(batch)
            bounds, truth, there = self.spread(raw, middle.detach()), batch.future, batch.there
        else:
            bounds, truth = self.one_ahead(batch)
            there = torch.cat((batch.known, batch.there))[self.lag + 1 :]
        losses = quantile_loss(bounds, truth, self.settings.interval)
        if self.linear is not None:
            losses = losses + (middle - truth).abs()
        count = max(1, int(there.sum()))
        return Loss((losses * there).sum() / count, count)

    def metric(self) -> Errors:
        return self.errors() if self.shares is None else ShareErrors(self)

    def errors(self) -> Errors:
        """Those of forecasts as they are, to measure them once the network is trained."""
        return Errors(self.settings, self.frame, self.bounds)


class ShareErrors(Errors):
    """The errors on the dev set with the best shares for each variable, which the network then has: those with the
    smallest mean absolute error there. With shares of 0 the median is that of the fitted autoregression."""

    SHARES = tuple((k / 2, n / 10) for k in range(3) for n in range(11))

    def __init__(self, network: ForecasterNetwork) -> None:
        super().__init__(network.settings, network.frame, network.bounds)
        self.network = network
        self.each = [network.errors() for _ in self.SHARES]

    @torch.no_grad()
    def add(self, batch: WindowBatch) -> None:
        assert self.network.fitted is not None
        raw, middle = self.network.parts(batch)
        fitted = apply_linear(self.network.fitted, batch.past)
        for shares, errors in zip(self.SHARES, self.each, strict=True):
            errors.count(batch, self.network.mixed(raw, middle, fitted, raw.new_tensor(shares)))

    def merge(self, other: Self) -> None:
        for own, errors in zip(self.each, other.each, strict=True):
            own.merge(errors)

    def result(self) -> dict[str, float]:
        if self.each[0].origins:
            best = torch.stack([errors.absolute.sum(0) for errors in self.each]).argmin(0)  # (V,)
            assert self.network.shares is not None
            self.network.shares.copy_(torch.tensor(self.SHARES)[best].T)
            self.choose(self.each, best)
        return super().result()
