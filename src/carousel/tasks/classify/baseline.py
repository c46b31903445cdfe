"""Baselines of the classifier: the most frequent class, and linear models of word and character n-grams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ...data.sources.tables import Table
from ...training import Data
from ..shared.baselines import CHARACTERS, LINEAR, Ngrams, sample, text_baselines
from .data import ClassifyAssets, open_data, training_tables
from .settings import ClassifySettings
from .targets import Target

Rows = Sequence[tuple[str, str]]  # texts and their labels, as they stand in the table


def baselines(settings: ClassifySettings, assets: ClassifyAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By accuracy, micro-F1 or R²."""
    sources = open_data(settings)

    def read(tables: Iterable[Table]) -> list[tuple[str, str]]:
        return [(settings.read_text(row.text), row.label) for table in tables for row in table]

    assert sources.dev is not None
    train, dev = read(training_tables(settings, sources.train)), read([sources.dev])
    if assets.target.kind == "class":
        return text_baselines(train, dev)
    train = list(sample(train, lambda row: len(row[0]), CHARACTERS))
    if assets.target.kind == "number":
        return {"mean": lambda: _mean(train, dev), "TF-IDF of words and characters + ridge": lambda: _ridge(train, dev)}
    return {f"{LINEAR} for each label": lambda: _labels(assets.target, train, dev)}


def _mean(train: Rows, dev: Rows) -> float:
    """R² of the mean of the training data."""
    return _r2([float(np.mean([float(label) for _, label in train]))] * len(dev), dev)


def _ridge(train: Rows, dev: Rows) -> float:
    from sklearn.linear_model import Ridge

    ngrams = Ngrams().fit([text for text, _ in train])
    model = Ridge().fit(ngrams.transform([text for text, _ in train]), [float(label) for _, label in train])
    return _r2(model.predict(ngrams.transform([text for text, _ in dev])), dev)


def _r2(predicted: Sequence[float], dev: Rows) -> float:
    gold = np.array([float(label) for _, label in dev])
    return 1 - float(np.mean((gold - np.asarray(predicted)) ** 2)) / max(float(np.var(gold)), 1e-12)


def _labels(target: Target, train: Rows, dev: Rows) -> float:
    """Micro-F1 of a linear SVC for each label."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    def hot(rows: Rows) -> np.ndarray:
        return np.array([[label in target.split(cell) for label in target.labels] for _, cell in rows], int)

    ngrams = Ngrams().fit([text for text, _ in train])
    model = OneVsRestClassifier(LinearSVC()).fit(ngrams.transform([text for text, _ in train]), hot(train))
    predicted, gold = model.predict(ngrams.transform([text for text, _ in dev])), hot(dev)
    return 2 * float((predicted * gold).sum()) / max(1.0, float(predicted.sum() + gold.sum()))
