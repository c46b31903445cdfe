"""A linear model of n-grams, the strong simple classifier of short texts.

It is three linear models, whose probabilities are averaged: logistic regression on TF-IDF weights, the same on these
times each n-gram's log-count ratio, by how much it is more frequent in one class than in the others, and multinomial
naive Bayes of words and word pairs (Wang and Manning, 2012). With word vectors, both regressions also read the mean
vector of a text's words, weighted by their inverse document frequencies.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from torch import Tensor

from ..data.stores import fingerprint
from ..data.text.vectors import WordVectors
from ..errors import DataError
from ..files import write_bytes

WORDS = (1, 2)  # lengths of the n-grams of words
CHARACTERS = (2, 3, 4, 5)  # and of characters, inside words and at their edges
MOST = 1 << 20  # n-grams of each kind that are kept, the most frequent ones
STRENGTH = 10.0  # C of the regularization: the loss of all texts counts this much beside half the squared weights
SMOOTHING = 0.3  # added to every count of naive Bayes
TEMPERATURES = tuple(2 ** (k / 4) for k in range(-4, 21))  # of naive Bayes, 0.5 to 32


class Rows(NamedTuple):
    """A sparse matrix, row by row."""

    starts: np.ndarray  # (rows + 1,) int64
    columns: np.ndarray  # (n,) int64
    values: np.ndarray  # (n,) float32

    def tensor(self, width: int, dtype: torch.dtype) -> Tensor:
        parts = (torch.from_numpy(self.starts), torch.from_numpy(self.columns), torch.from_numpy(self.values).to(dtype))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR")
            return torch.sparse_csr_tensor(*parts, (len(self.starts) - 1, width), check_invariants=False)


class NGramClassifier:
    """Texts to log-probabilities of classes, by the weights of their words, word pairs and character n-grams.

    >>> texts = ["a fine film", "a good film", "a dull film", "so dull"]
    >>> model = NGramClassifier.fit(texts, torch.tensor([1, 1, 0, 0]), classes=2)
    >>> model(["good", "dull"]).argmax(1).tolist()
    [1, 0]
    """

    def __init__(
        self, names: Sequence[str], scales: np.ndarray, weight: Tensor, bias: Tensor, vectors: WordVectors | None = None
    ) -> None:
        self.names = names  # of the features: n-grams of words, which begin with a tab, and of characters
        self.scales = scales  # (2, features) float32: inverse document frequency; the same times log-count ratio
        self.weight = weight  # (3, features + numbers of a word vector, classes): two regressions, naive Bayes
        self.bias = bias  # (3, classes)
        self.vectors = vectors  # of words, if it has them
        self._index = {name: i for i, name in enumerate(names)}
        self._is_word = np.array([name.startswith("\t") for name in names], bool)  # (features,)

    @classmethod
    def fit(
        cls, texts: Sequence[str], labels: Tensor, classes: int, class_weights: Tensor | None = None,
        vectors: WordVectors | None = None,
    ) -> Self:  # fmt: skip
        """Labels (texts,) are learned with the weights of their classes, (classes,), if there are any."""
        counts = [_grams(text) for text in texts]
        spread: Counter[str] = Counter()
        for row in counts:
            spread.update(row.keys())
        names = [name for name, _ in spread.most_common(2 * MOST)]
        frequency = np.array([spread[name] for name in names], np.float64)
        idf = (np.log((1 + len(counts)) / (1 + frequency)) + 1).astype(np.float32)
        width = len(names) + (0 if vectors is None else vectors.size)
        model = cls(names, np.stack([idf, idf]), torch.zeros(3, width, classes), torch.zeros(3, classes), vectors)
        tf, means = model._frequencies(counts), model._means(texts)
        model.scales[1] *= _log_count_ratios(tf, len(names), labels, classes)
        weights = torch.ones(len(labels)) if class_weights is None else class_weights[labels]
        for k, x in enumerate(model._weighted(tf)):
            model.weight[k], model.bias[k] = _regress(x, len(names), means, labels, classes, weights.double())
        is_word = torch.from_numpy(model._is_word)
        bayes = _naive_bayes(model._present(tf).tensor(len(names), torch.float64), is_word, labels, classes, weights)
        model.weight[2, : len(names)], model.bias[2] = bayes
        return model

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """The log-probability of each class of each text, (texts, classes)."""
        tf, means = self._frequencies([_grams(text) for text in texts]), self._means(texts)
        known = len(self.names)
        scores = [
            x.tensor(known, torch.float32) @ w[:known] + means @ w[known:] + b
            for x, w, b in zip((*self._weighted(tf), self._present(tf)), self.weight, self.bias, strict=True)
        ]
        return torch.stack(scores).log_softmax(2).logsumexp(0) - math.log(len(scores))

    @property
    def fingerprint(self) -> str:
        """A hash of its weights."""
        return fingerprint.of_array(self.weight.numpy().reshape(-1))

    def strongest(self, k: int) -> list[list[tuple[str, float]]]:
        """For each class, the `k` n-grams that speak most for it, with their weights times their scales, by the mean of
        the regressions."""
        weight = self.weight[: len(self.scales), : len(self.names)]
        pull = ((weight - weight.mean(2, keepdim=True)) * torch.from_numpy(self.scales)[..., None]).mean(0)
        top = pull.topk(min(k, len(pull)), 0)
        return [
            [(self.names[i].strip(), value) for i, value in zip(rows.tolist(), values.tolist(), strict=True)]
            for rows, values in zip(top.indices.T, top.values.T, strict=True)
        ]

    def _frequencies(self, counts: Sequence[Counter[str]]) -> Rows:
        """1 + ln tf of the known n-grams of each text."""
        index = self._index
        rows = [sorted((i, n) for name, n in row.items() if (i := index.get(name)) is not None) for row in counts]
        starts = np.cumsum([0, *map(len, rows)])
        columns = np.array([i for row in rows for i, _ in row], np.int64)
        tf = np.array([n for row in rows for _, n in row], np.float32)
        return Rows(starts, columns, 1 + np.log(tf))

    def _weighted(self, tf: Rows) -> Iterator[Rows]:
        """Times each of the scales, the n-grams of words and those of characters each of length 1."""
        row = np.repeat(np.arange(len(tf.starts) - 1), np.diff(tf.starts))
        kind = 2 * row + self._is_word[tf.columns]
        for scale in self.scales:
            values = tf.values * scale[tf.columns]
            norms = np.sqrt(np.bincount(kind, values.astype(np.float64) ** 2, minlength=2 * len(tf.starts)))
            yield tf._replace(values=(values / np.maximum(norms[kind], 1e-12)).astype(np.float32))

    def _present(self, tf: Rows) -> Rows:
        """1 for each n-gram of words that a text has, 0 for those of characters."""
        return tf._replace(values=self._is_word[tf.columns].astype(np.float32))

    def _means(self, texts: Sequence[str]) -> Tensor:
        """(texts, numbers of a word vector): the sum of the vectors of each text's words times their inverse document
        frequencies, of length 1; words that training did not have count as the rarest."""
        if self.vectors is None:
            return torch.zeros(len(texts), 0)
        words = [text.lower().split() for text in texts]
        distinct = list(dict.fromkeys(word for row in words for word in row))
        at = self.vectors.rows(distinct)
        place = {word: row for word, row in zip(distinct, at.tolist(), strict=True) if row >= 0}
        idf, rarest = self.scales[0], float(self.scales[0].max(initial=1))
        means = np.zeros((len(texts), self.vectors.size), np.float32)
        for mean, row in zip(means, words, strict=True):
            known = [word for word in row if word in place]
            if known:
                rarity = [idf[i] if (i := self._index.get("\t" + word)) is not None else rarest for word in known]
                mean[:] = np.array(rarity, np.float32) @ self.vectors.values[[place[word] for word in known]]
        length = np.sqrt((means**2).sum(1, keepdims=True))
        return torch.from_numpy(means / np.maximum(length, 1e-12))

    def save(self, path: Path) -> None:
        """Write it to a safetensors file, which appears whole or not at all."""
        names = np.frombuffer("\n".join(self.names).encode(), np.uint8)
        parts = {"scales": self.scales, "weight": self.weight.numpy(), "bias": self.bias.numpy(), "names": names}
        write_bytes(path, save(parts))

    @classmethod
    def load(cls, path: Path, vectors: WordVectors | None = None) -> Self:
        """The model in a file made by `save`; `vectors` are those it was fitted with."""
        try:
            parts = load_file(path)
            names = parts["names"].tobytes().decode().split("\n")
            weight, bias = (torch.from_numpy(parts[name]) for name in ("weight", "bias"))
            width = len(names) + (0 if vectors is None else vectors.size)
            if (2, len(names)) != parts["scales"].shape or (3, width) != weight.shape[:2] or bias.dim() != 2:
                raise ValueError(f"{len(names)} n-grams, weights {tuple(weight.shape)}")
        except (SafetensorError, ValueError, KeyError) as error:
            remedy = "copy it again from an intact copy of the run, or train again"
            raise DataError(path, None, f"damaged ({error})", remedy) from error
        return cls(names, parts["scales"], weight, bias, vectors)


def _grams(text: str) -> Counter[str]:
    """How often each n-gram occurs in a text, in lower case.

    >>> sorted(_grams("So so"))[:6]
    ['\\tso', '\\tso so', ' s', ' so', ' so ', 'o ']
    """
    words = text.lower().split()
    counts: Counter[str] = Counter()
    for n in WORDS:
        counts.update("\t" + " ".join(words[i : i + n]) for i in range(len(words) - n + 1))
    for word, times in Counter(words).items():
        padded = f" {word} "
        for n in CHARACTERS:
            for i in range(max(1, len(padded) - n + 1)):
                counts[padded[i : i + n]] += times
            if len(padded) <= n:
                break  # the whole word, once
    return counts


def _log_count_ratios(tf: Rows, width: int, labels: Tensor, classes: int) -> np.ndarray:
    """(features,): |ln of the share of an n-gram among those of a class, beside its share in the other classes|, of the
    class where that is largest. Each text counts an n-gram once, and every count is one larger."""
    present = tf._replace(values=np.ones_like(tf.values)).tensor(width, torch.float32)
    own = present.to_sparse_coo().t().to_sparse_csr() @ torch.nn.functional.one_hot(labels, classes).float()
    ratios = np.zeros(width)
    for inside, outside in zip(
        own.T.double().numpy(), (own.sum(1, keepdim=True) - own).T.double().numpy(), strict=True
    ):
        inside, outside = ((1 + count) / (width + count.sum()) for count in (inside, outside))
        ratios = np.maximum(ratios, np.abs(np.log(inside / outside)))
    return ratios.astype(np.float32)


def _regress(
    x: Rows, width: int, means: Tensor, labels: Tensor, classes: int, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Multinomial logistic regression with an L2 penalty on sparse features, so many (`width`), and the dense `means`
    (texts, n): weight (width + n, classes) and bias (classes,), float32."""
    rows, dense = x.tensor(width, torch.float64), means.double()
    columns = rows.to_sparse_coo().t().to_sparse_csr()  # for the gradient
    truth = torch.nn.functional.one_hot(labels, classes).double()
    weight = torch.zeros(width + dense.shape[1], classes, dtype=torch.float64)
    bias = torch.zeros(classes, dtype=torch.float64)
    solver = torch.optim.LBFGS([weight, bias], max_iter=100, tolerance_grad=1e-5, line_search_fn="strong_wolfe")
    shares = (weights / weights.sum())[:, None]
    penalty = 1 / (STRENGTH * len(labels))  # of half the squared weights, beside the mean loss of a text

    def closure() -> Tensor:
        scores = (rows @ weight[:width] + dense @ weight[width:] + bias).log_softmax(1)
        error = (scores.exp() - truth) * shares
        weight.grad = torch.cat((columns @ error, dense.T @ error)) + penalty * weight
        bias.grad = error.sum(0)
        return 0.5 * penalty * (weight**2).sum() - (shares * truth * scores).sum()

    with torch.no_grad():
        solver.step(closure)
    return weight.float(), bias.float()


def _naive_bayes(
    present: Tensor, is_word: Tensor, labels: Tensor, classes: int, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Multinomial naive Bayes of the n-grams of words that are `present`, (texts, features) sparse: weight (features,
    classes), 0 for those of characters, and bias (classes,), float32.

    N-grams are far from independent, so that its probabilities are too extreme: scores are divided by the temperature
    with the smallest loss of the training texts, each by the counts of all the others.
    """
    truth = torch.nn.functional.one_hot(labels, classes).double()
    count = present.to_sparse_coo().t().to_sparse_csr() @ truth  # (features, classes)
    total, kinds = count.sum(0), SMOOTHING * int(is_word.sum())
    weight = ((count + SMOOTHING).log() - (total + kinds).log()) * is_word[:, None]
    bias = ((weights.double()[:, None] * truth).sum(0) + SMOOTHING).log()
    without = present @ (((count - 1).clamp(min=0) + SMOOTHING).log() * is_word[:, None])  # one text less
    length = present @ torch.ones(len(is_word), 1, dtype=torch.float64)
    without += bias - length * (total - length + kinds).clamp(min=kinds).log()
    scores = torch.where(truth.bool(), without, present @ weight + bias)
    losses = [
        float(weights.double() @ torch.nn.functional.cross_entropy(scores / t, labels, reduction="none"))
        for t in TEMPERATURES
    ]
    best = TEMPERATURES[losses.index(min(losses))]
    weight, bias = weight - weight.mean(1, keepdim=True), bias - bias.mean()
    return (weight / best).float(), (bias / best).float()
