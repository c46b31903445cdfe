"""How several labels, and numbers, are measured; of classes see `carousel.metrics.Confusion`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...data.stores.examples import ExampleBatch
from ...metrics import pearson
from ...training import SummedMetric


class LabelScores(SummedMetric):
    """F1 of labels of which a text may have several: micro (all decisions together) and macro (the mean of the labels),
    and the share of texts whose labels are all right.

    With `tune`, each label first gets the threshold of its probability with the best F1, which the network then has.
    """

    best = "micro_f1"
    sums = ("seen",)
    THRESHOLDS = (
        torch.arange(1, 20, device="cpu") / 20
    )  # also where this is first imported under another default device

    def __init__(self, network: Any, tune: bool) -> None:
        self.network, self.tune = network, tune
        self.seen: list[tuple[Tensor, Tensor]] = []  # scores and targets, both (B, labels)

    @torch.no_grad()
    def add(self, batch: ExampleBatch) -> None:
        assert batch.targets is not None
        self.seen.append((self.network.scores(batch), batch.targets))

    def result(self) -> dict[str, float]:
        if not self.seen:
            return {"micro_f1": 0.0, "macro_f1": 0.0, "exact": 0.0, "loss": 0.0}
        scores, gold = (torch.cat(parts) for parts in zip(*self.seen, strict=True))
        if self.tune:
            self.network.thresholds.copy_(self._best_thresholds(scores.sigmoid(), gold))
        chosen = (scores.sigmoid() >= self.network.thresholds).float()
        right, said, true = (chosen * gold).sum(0), chosen.sum(0), gold.sum(0)
        f1 = 2 * right / (said + true).clamp(min=1)
        return {
            "micro_f1": float(2 * right.sum() / (said.sum() + true.sum()).clamp(min=1)),
            "macro_f1": float(f1.mean()),
            "exact": float((chosen == gold).all(1).float().mean()),
            "loss": float(F.binary_cross_entropy_with_logits(scores, gold)),
        }

    def _best_thresholds(self, p: Tensor, gold: Tensor) -> Tensor:
        """(labels,): of thresholds with the same F1 the one nearest to a half."""
        chosen = (p[None] >= self.THRESHOLDS[:, None, None]).float()  # (thresholds, texts, labels)
        f1 = 2 * (chosen * gold).sum(1) / (chosen.sum(1) + gold.sum(0)).clamp(min=1)
        return self.THRESHOLDS[(f1 - 1e-6 * (self.THRESHOLDS[:, None] - 0.5).abs()).argmax(0)]

    def labels(self) -> dict[str, dict[str, float]]:
        """Of each label: precision, recall, F1, how often it came, and its threshold."""
        scores, gold = (torch.cat(parts) for parts in zip(*self.seen, strict=True))
        chosen = (scores.sigmoid() >= self.network.thresholds).float()
        table = {}
        for k, label in enumerate(self.network.labels):
            right, said, true = (float(x) for x in ((chosen * gold)[:, k].sum(), chosen[:, k].sum(), gold[:, k].sum()))
            table[label] = {
                "precision": right / max(1.0, said), "recall": right / max(1.0, true),
                "f1": 2 * right / max(1.0, said + true), "count": int(true),
                "threshold": float(self.network.thresholds[k]),
            }  # fmt: skip
        return table


class NumberErrors(SummedMetric):
    """Errors of predicted numbers, in their own units: R² (1 minus the squared error beside that of the mean), the
    correlation of Pearson, and the mean squared and absolute errors."""

    best = "r2"
    sums = ("predicted", "gold")

    def __init__(self, network: Any) -> None:
        self.network = network
        self.predicted: list[float] = []
        self.gold: list[float] = []

    @torch.no_grad()
    def add(self, batch: ExampleBatch) -> None:
        assert batch.targets is not None
        target = self.network.target
        for values, kept in ((self.network.scores(batch), self.predicted), (batch.targets, self.gold)):
            kept += (values[:, 0].double() * target.deviation + target.mean).tolist()

    def result(self) -> dict[str, float]:
        if not self.gold:
            return {"r2": 0.0, "pearson": 0.0, "mse": 0.0, "mae": 0.0}
        gold, predicted = np.array(self.gold), np.array(self.predicted)
        squared = float(np.mean((gold - predicted) ** 2))
        spread = float(np.var(gold))
        return {
            "r2": 1 - squared / spread if spread > 0 else 0.0,
            "pearson": pearson(self.gold, self.predicted),
            "mse": squared,
            "mae": float(np.mean(np.abs(gold - predicted))),
        }
