"""N-gram language models with interpolated modified Kneser–Ney smoothing (Chen and Goodman, 1998), in numpy."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...data.text.tokenizers import END, START
from ...masks import row_positions

TOKENS = 5_000_000  # to count at most: about half a minute, half a gigabyte
NEVER = 2  # tokens of a vocabulary that are never predicted: [PAD] and [START]


def order_for(size: int) -> int:
    """The longest n-grams worth counting in a text with a vocabulary of `size`: a letter says less than a word."""
    return 5 if size > 1000 else 8


class Text(NamedTuple):
    """Sequences end to end, each begun by [START], which is read and not predicted."""

    tokens: np.ndarray  # (n,) int64
    place: np.ndarray  # (n,) int64: how many tokens of its sequence are before each; 0: [START]

    @classmethod
    def lines(cls, tokens: np.ndarray, lengths: np.ndarray) -> Text:
        """Lines end to end, each between [START] and [END].

        >>> Text.lines(np.array([7, 8, 9]), np.array([2, 1]))
        Text(tokens=array([1, 7, 8, 2, 1, 9, 2]), place=array([0, 1, 2, 3, 0, 1, 2]))
        """
        sizes = np.asarray(lengths, np.int64) + 2
        place = row_positions(sizes)
        marked = np.full(len(place), END, np.int64)
        marked[place == 0] = START
        marked[(place > 0) & (place < np.repeat(sizes, sizes) - 1)] = tokens
        return cls(marked, place)

    @classmethod
    def running(cls, tokens: np.ndarray) -> Text:
        """One stream."""
        return cls(np.concatenate([[START], tokens]).astype(np.int64), np.arange(len(tokens) + 1))


class Level(NamedTuple):
    """The n-grams of one order. A context is known by the number of its own n-gram among those of the order below."""

    keys: np.ndarray  # (n-grams,) int64, sorted: the context's number times the vocabulary's size, plus the last token
    counts: np.ndarray  # (n-grams,) int64: occurrences, or, below the highest order, different tokens before it
    totals: np.ndarray  # (contexts,): sums of the counts; 0 if nothing follows
    backoff: np.ndarray  # (contexts,): the probability that is left to the order below
    discounts: np.ndarray  # (4,): of counts 0, 1, 2 and more

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The number of each n-gram; -1 if it is not there."""
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)


class KneserNey:
    """p(token | up to order − 1 tokens before it).

    An n-gram's count is its occurrences if it has the highest order or begins a sequence; else it is the number of
    different tokens that were seen before it. Each count is discounted by what its size and order suggest, and the
    order below has the rest; below single tokens all of the vocabulary that can be predicted is equally probable.
    """

    def __init__(self, text: Text, size: int, order: int = 5) -> None:
        """`size` is that of the vocabulary."""
        self.size, self.order = size, order
        self.levels: list[Level] = []
        real = text.place > 0
        numbers = text.tokens  # of the n-gram of the present order that ends at each place; -1: there is none
        keys, counts = np.arange(size), np.bincount(text.tokens[real], minlength=size)
        contexts = 1
        for n in range(1, order + 1):
            longer = _ngrams(text, numbers, n + 1, size) if n < order else None
            if longer is not None and len(longer.keys):
                begun = np.bincount(numbers[(text.place == n - 1) & real], minlength=len(keys))
                counts = begun + np.bincount(numbers[longer.first], minlength=len(keys))  # each has one token before it
            self.levels.append(_level(keys, counts, contexts, size))
            if longer is None or not len(longer.keys):
                break
            contexts, numbers, keys, counts = len(keys), longer.numbers, longer.keys, longer.counts

    def log_probs(self, text: Text) -> np.ndarray:
        """Of every token but [START], (targets,)."""
        p = np.full(len(text.tokens), 1 / (self.size - NEVER))
        before = np.zeros(len(text.tokens), np.int64)  # the number of the context; single tokens have none
        for n, level in enumerate(self.levels, 1):
            at = np.flatnonzero((text.place >= max(1, n - 1)) & (before >= 0))
            context, token = before[at], text.tokens[at]
            known = level.totals[context] > 0
            at, context, token = at[known], context[known], token[known]
            number = level.find(context * self.size + token)
            count = np.where(number >= 0, level.counts[number], 0)
            rest = np.maximum(count - level.discounts[np.minimum(count, 3)], 0)
            p[at] = rest / level.totals[context] + level.backoff[context] * p[at]
            before = self._contexts(text, before, level, n)
        return np.log(p[text.place > 0])

    def _contexts(self, text: Text, before: np.ndarray, level: Level, n: int) -> np.ndarray:
        """The number of the n-gram that ends just before each token; -1 if it is not known or crosses a start."""
        ending = level.find(before * self.size + text.tokens)
        ending[(before < 0) | (text.place < n - 1)] = -1
        contexts = np.concatenate([[-1], ending[:-1]])
        contexts[text.place < n] = -1
        return contexts

    def perplexity(self, *texts: Text) -> float:
        """exp of the mean negative log-probability of a token."""
        return math.exp(-float(np.mean(np.concatenate([self.log_probs(text) for text in texts]))))


class _Found(NamedTuple):
    """The n-grams of a text."""

    keys: np.ndarray  # (n-grams,)
    first: np.ndarray  # (n-grams,): a place where each ends
    numbers: np.ndarray  # (n,): which one ends at each place; -1: none
    counts: np.ndarray  # (n-grams,)


def _ngrams(text: Text, shorter: np.ndarray, n: int, size: int) -> _Found:
    """The n-grams of a text, given which (n − 1)-gram ends at each place."""
    at = np.flatnonzero(text.place >= n - 1)
    keys, first, inverse, counts = np.unique(
        shorter[at - 1] * size + text.tokens[at], return_index=True, return_inverse=True, return_counts=True
    )
    numbers = np.full(len(text.tokens), -1)
    numbers[at] = inverse
    return _Found(keys, at[first], numbers, counts)


def _level(keys: np.ndarray, counts: np.ndarray, contexts: int, size: int) -> Level:
    context = keys // size
    discounts = _discounts(np.bincount(np.minimum(counts, 5), minlength=6))
    totals = np.bincount(context, counts, contexts)
    left = np.bincount(context, discounts[np.minimum(counts, 3)], contexts)
    return Level(keys, counts, totals, left / np.maximum(totals, 1), discounts)


def _discounts(times: np.ndarray) -> np.ndarray:
    """Chen and Goodman's discounts of counts 0, 1, 2 and from 3 up, given how many n-grams have each count, (6,).

    Where too few n-grams have one of them to estimate from, ½, 1 and 1½.
    """
    one, two, three, four = (int(number) for number in times[1:5])
    if not (one and two and three):
        return np.array([0, 0.5, 1, 1.5])
    share = one / (one + 2 * two)
    discounts = [1 - 2 * share * two / one, 2 - 3 * share * three / two, 3 - 4 * share * four / three]
    return np.array([0, *(min(max(d, 0.05), k) for k, d in enumerate(discounts, 1))])
