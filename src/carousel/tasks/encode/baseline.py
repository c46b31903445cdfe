"""Baselines of the sentence encoder: the mean score or the most frequent class, and what the texts of a pair share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...data.sources.tables import PairTable
from ...metrics import pearson
from ...training import Data
from ..shared.baselines import CHARACTERS, Ngrams, accuracy, classify, majority, sample, sampled
from .data import EncodeAssets, open_data
from .settings import EncodeSettings


class Pair(NamedTuple):
    """Two texts, and the number of their class or their score."""

    first: str
    second: str
    label: float


def baselines(settings: EncodeSettings, assets: EncodeAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By Pearson's correlation of scores, or accuracy of classes."""
    s, sources = settings, open_data(settings)
    assert sources.dev is not None

    def read(table: PairTable) -> list[Pair]:
        number = assets.target.number
        return [Pair(s.read_text(r.first), s.read_text(r.second), number(table, r.line, r.label)) for r in table]

    train, dev = read(sources.train), read(sources.dev)
    return _scores(train, dev) if assets.target.is_score else _classes(train, dev)


def _scores(train: Sequence[Pair], dev: Sequence[Pair]) -> dict[str, Callable[[], float]]:
    gold = [pair.label for pair in dev]
    part = sample(train, lambda pair: len(pair.first) + len(pair.second), CHARACTERS)

    def mean() -> float:
        return pearson(gold, [float(np.mean([pair.label for pair in train]))] * len(gold))

    def overlap() -> float:
        return pearson(gold, [jaccard(pair) for pair in dev])

    def linear() -> float:
        from sklearn.linear_model import LinearRegression

        ngrams = Ngrams().fit([text for pair in part for text in (pair.first, pair.second)])
        model = LinearRegression().fit(shared(ngrams, part), [pair.label for pair in part])
        return pearson(gold, model.predict(shared(ngrams, dev)).tolist())

    name = sampled("overlap of words and characters + linear regression", part, train, "pairs")
    return {"mean score": mean, "overlap of words (Jaccard)": overlap, name: linear}


def _classes(train: Sequence[Pair], dev: Sequence[Pair]) -> dict[str, Callable[[], float]]:
    gold = [pair.label for pair in dev]
    part = sample(train, lambda pair: len(pair.first) + len(pair.second), CHARACTERS)

    def most_frequent() -> float:
        return accuracy([majority([pair.label for pair in train])] * len(gold), gold)

    def linear() -> float:
        from scipy.sparse import csr_matrix, hstack

        ngrams = Ngrams().fit([text for pair in part for text in (pair.first, pair.second)])

        def features(pairs: Sequence[Pair]) -> Any:
            both = [ngrams.transform(texts) for texts in ([p.first for p in pairs], [p.second for p in pairs])]
            return hstack([*both, csr_matrix(shared(ngrams, pairs))], "csr")

        return accuracy(classify(features(part), [pair.label for pair in part], features(dev)), gold)

    name = sampled("TF-IDF of both texts and their overlap + linear SVC", part, train, "pairs")
    return {"majority class": most_frequent, name: linear}


def words(text: str) -> set[str]:
    """The words of a text without punctuation, in lower case."""
    return set(re.findall(r"\w+", text.lower()))


def jaccard(pair: Pair) -> float:
    """The share of the words of either text that are in both, in lower case.

    >>> jaccard(Pair("A man sings.", "a man sleeps", 0))
    0.5
    """
    first, second = words(pair.first), words(pair.second)
    return len(first & second) / max(1, len(first | second))


def shared(ngrams: Ngrams, pairs: Sequence[Pair]) -> np.ndarray:
    """What the texts of each pair have in common, (pairs, 5): Jaccard's overlap, the cosine of their n-grams, the
    relative difference of their lengths, and the share of the words of each that the other has not.
    """
    first, second = ngrams.transform([pair.first for pair in pairs]), ngrams.transform([pair.second for pair in pairs])
    dot = np.asarray(first.multiply(second).sum(1)).ravel()
    norms = (np.sqrt(np.asarray(part.multiply(part).sum(1)).ravel()) for part in (first, second))
    cosine = dot / np.maximum(1e-9, next(norms) * next(norms))
    rows = []
    for pair, similarity in zip(pairs, cosine, strict=True):
        a, b = words(pair.first), words(pair.second)
        alone = [len(x - y) / max(1, len(x)) for x, y in ((a, b), (b, a))]
        rows.append([jaccard(pair), similarity, abs(len(a) - len(b)) / max(1, len(a) + len(b)), *alone])
    return np.array(rows)
