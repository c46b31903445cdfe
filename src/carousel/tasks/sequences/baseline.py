"""Baselines of the classifier of number sequences: the most frequent class (or the mean), the nearest neighbour, and a
linear model of summary statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ...training import Data
from .data import SequenceAssets
from .settings import SequenceSettings

POINTS = 32  # that a sequence is brought to, at equal distances, to be compared with others
MOST = 20_000  # sequences that are compared with


def baselines(settings: SequenceSettings, assets: SequenceAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By accuracy, or R²."""
    train, dev = (batches.store for batches in (data.train, data.dev))  # type: ignore[union-attr]
    step = -(-len(train) // MOST)
    known, labels = train.sequences[::step], train.labels[::step]
    if assets.target.kind == "number":
        return {
            "mean": lambda: _r2(np.full(len(dev), labels.mean()), dev.labels),
            "summary statistics + ridge": lambda: _r2(_ridge(known, labels, dev.sequences), dev.labels),
        }
    common = Counter(labels.tolist()).most_common(1)[0][0]
    return {
        "majority class": lambda: float((dev.labels == common).mean()),
        f"nearest neighbour of {POINTS} points": lambda: _neighbour(known, labels, dev.sequences, dev.labels),
        "summary statistics + logistic regression": lambda: _linear(known, labels, dev.sequences, dev.labels),
    }


def at_points(sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Each sequence (T, I) at `POINTS` times at equal distances, by linear interpolation: (N, POINTS · I)."""
    rows = []
    for x in sequences:
        times = np.linspace(0, len(x) - 1, POINTS)
        rows.append(np.concatenate([np.interp(times, np.arange(len(x)), column) for column in x.T]))
    return np.array(rows)


def summary(sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Of each sequence and variable: mean, standard deviation, quartiles and extremes, ends, mean absolute change."""
    rows = []
    for x in sequences:
        change = np.abs(np.diff(x, axis=0)).mean(0) if len(x) > 1 else np.zeros(x.shape[1])
        parts = [x.mean(0), x.std(0), *np.quantile(x, [0, 0.25, 0.5, 0.75, 1], axis=0), x[0], x[-1], change]
        rows.append(np.concatenate([*parts, [np.log(len(x))]]))
    return np.array(rows)


def _neighbour(known: Sequence[np.ndarray], labels: np.ndarray, new: Sequence[np.ndarray], gold: np.ndarray) -> float:
    a, b = at_points(known), at_points(new)
    nearest = [int((((a - row) ** 2).sum(1)).argmin()) for row in b]
    return float((labels[nearest] == gold).mean())


def _linear(known: Sequence[np.ndarray], labels: np.ndarray, new: Sequence[np.ndarray], gold: np.ndarray) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(summary(known), labels)
    return float((model.predict(summary(new)) == gold).mean())


def _ridge(known: Sequence[np.ndarray], labels: np.ndarray, new: Sequence[np.ndarray]) -> np.ndarray:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), Ridge()).fit(summary(known), labels[:, 0]).predict(summary(new))


def _r2(predicted: np.ndarray, gold: np.ndarray) -> float:
    return 1 - float(((gold[:, 0] - predicted) ** 2).mean()) / max(float(gold.var()), 1e-12)
