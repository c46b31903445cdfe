"""What baselines of several tasks share: the most frequent class, and linear models of word and character n-grams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

CHARACTERS = 5_000_000  # of training text that n-grams are taken from at most: about a minute
LINEAR = "TF-IDF of words and characters + linear SVC"


def majority(labels: Sequence[K]) -> K:
    """The most frequent label; of equally frequent ones the first in their order.

    >>> majority(["b", "a", "b", "a", "c"])
    'a'
    """
    count = Counter(labels)
    most = max(count.values())
    return min((label for label, times in count.items() if times == most), key=str)


def accuracy(predicted: Sequence[Any], gold: Sequence[Any]) -> float:
    """The share of predictions that are right; 0 if there are none."""
    return sum(a == b for a, b in zip(predicted, gold, strict=True)) / max(1, len(gold))


def sample(items: Sequence[T], size: Callable[[T], int], most: int) -> Sequence[T]:
    """`items`, or as many of them, at equal distances, as are together no larger than `most`.

    >>> sample(["ab", "cd", "ef", "gh"], len, 5), sample(["ab", "cd"], len, 5)
    (['ab', 'ef'], ['ab', 'cd'])
    """
    total = sum(map(size, items))
    if total <= most:
        return items
    chosen = np.linspace(0, len(items), max(1, len(items) * most // total), endpoint=False).astype(int)
    return [items[k] for k in chosen]


def sampled(name: str, items: Sequence[Any], every: Sequence[Any], unit: str) -> str:
    """`name`, with how much of the training data was used if not all of it."""
    return name if len(items) == len(every) else f"{name} (on {len(items):,} of {len(every):,} {unit})"


class Ngrams:
    """TF-IDF weights of word 1- and 2-grams and of character 2- to 5-grams within words, in lower case."""

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32)
        characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, dtype=np.float32)
        self.parts = [words, characters]

    def fit(self, texts: Sequence[str]) -> Ngrams:
        fitted = []
        for part in self.parts:
            try:
                fitted.append(part.fit(texts))
            except ValueError as error:  # no word of two letters in any text
                if "empty vocabulary" not in str(error):
                    raise
        self.parts = fitted
        return self

    def transform(self, texts: Sequence[str]) -> Any:
        """(texts, n-grams), sparse."""
        from scipy.sparse import csr_matrix, hstack

        return hstack([csr_matrix((len(texts), 0)), *(part.transform(texts) for part in self.parts)], "csr")


def classify(train: Any, labels: Sequence[K], dev: Any) -> list[K]:
    """Classes of `dev`, (n, features), by a linear SVC fitted to `train`, (m, features), and its labels."""
    from sklearn.svm import LinearSVC

    if len(set(labels)) == 1:
        return [labels[0]] * dev.shape[0]
    numbers = {label: k for k, label in enumerate(sorted(set(labels), key=str))}
    names = list(numbers)
    model = LinearSVC(random_state=0).fit(train, [numbers[label] for label in labels])
    return [names[k] for k in model.predict(dev)]


def text_baselines(train: Sequence[tuple[str, K]], dev: Sequence[tuple[str, K]]) -> dict[str, Callable[[], float]]:
    """Of labelled texts: the most frequent label, and a linear model of n-grams; the measure is accuracy."""
    gold = [label for _, label in dev]
    part = sample(train, lambda row: len(row[0]), CHARACTERS)

    def most_frequent() -> float:
        return accuracy([majority([label for _, label in train])] * len(gold), gold)

    def linear() -> float:
        texts, labels = [text for text, _ in part], [label for _, label in part]
        ngrams = Ngrams().fit(texts)
        return accuracy(classify(ngrams.transform(texts), labels, ngrams.transform([text for text, _ in dev])), gold)

    return {"majority class": most_frequent, sampled(LINEAR, part, train, "texts"): linear}


def by_group(train: Sequence[tuple[K, T]], dev: Sequence[tuple[K, T]]) -> Callable[[], float]:
    """Accuracy of the label that is most frequent in each group, (group, label); in an unseen group, of all."""
    groups: dict[K, list[T]] = {}
    for group, label in train:
        groups.setdefault(group, []).append(label)

    def measure() -> float:
        every = majority([label for _, label in train])
        best: Mapping[K, T] = {group: majority(labels) for group, labels in groups.items()}
        return accuracy([best.get(group, every) for group, _ in dev], [label for _, label in dev])

    return measure
