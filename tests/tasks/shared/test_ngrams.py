"""Kneser–Ney n-grams against their definition."""

import itertools
import math
import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from carousel.tasks.shared.ngrams import KneserNey, Text


@pytest.fixture(scope="module")
def corpus():
    """Sentences over a vocabulary of 9, of which [UNK] and one more never occur, and the model of order 4."""
    draw = random.Random(0)
    sentences = [[draw.choice([4, 5, 5, 6, 6, 6, 7]) for _ in range(draw.randint(1, 9))] for _ in range(60)]
    return [[1, *one, 2] for one in sentences], KneserNey(as_text(sentences), 9, 4)


def as_text(lines):
    return Text.lines(np.concatenate(lines), np.array([len(line) for line in lines]))


def test_kneser_ney_is_its_definition(corpus):
    """Counts, discounts and interpolation by dictionaries, as in Chen and Goodman (1998)."""
    sentences, model = corpus
    order = 4
    occurrences = {
        n: Counter(tuple(s[i - n + 1 : i + 1]) for s in sentences for i in range(max(1, n - 1), len(s)))
        for n in range(1, order + 1)
    }
    counts = {order: occurrences[order]}
    for n in range(1, order):
        before = defaultdict(set)
        for gram in occurrences[n + 1]:
            before[gram[1:]].add(gram[0])
        counts[n] = {g: c if g[0] == 1 else len(before[g]) for g, c in occurrences[n].items()}

    def discount(n, count):
        times = Counter(counts[n].values())
        if not (times[1] and times[2] and times[3]):
            return (0, 0.5, 1, 1.5)[min(count, 3)]
        y = times[1] / (times[1] + 2 * times[2])
        k = min(count, 3)
        return min(max(k - (k + 1) * y * times[k + 1] / times[k], 0.05), k) if k else 0

    def probability(token, context):
        lower = probability(token, context[1:]) if context else 1 / 7
        n = len(context) + 1
        follow = {gram[-1]: count for gram, count in counts[n].items() if gram[:-1] == context}
        if not follow:
            return lower
        total, count = sum(follow.values()), follow.get(token, 0)
        left = sum(discount(n, c) for c in follow.values()) / total
        return max(count - discount(n, count), 0) / total + left * lower

    new = [[1, 6, 6, 8, 5, 5, 5, 2], [1, 3, 7, 2], *sentences[:6]]
    wanted = [math.log(probability(s[i], tuple(s[max(0, i - 3) : i]))) for s in new for i in range(1, len(s))]
    read = as_text([one[1:-1] for one in new])
    assert model.log_probs(read) == pytest.approx(wanted, abs=1e-12)
    assert model.perplexity(read) == pytest.approx(math.exp(-np.mean(wanted)))


def test_probabilities_sum_to_one_in_every_context(corpus):
    _, model = corpus
    for length in range(4):
        for context in itertools.product((3, 4, 5, 6, 7), repeat=length):
            for start in ((1,), (1, 4)):  # at the start of a sequence, and after something else
                rows = np.array([[*start, *context, token] for token in range(2, 9)])
                text = Text(rows.ravel(), np.tile(np.arange(rows.shape[1]), 7))
                last = model.log_probs(text).reshape(7, -1)[:, -1]
                assert np.exp(last).sum() == pytest.approx(1, abs=1e-12)


def test_discounts_by_hand():
    """Of a, b, a, b, a, c: bigrams ab 2, ba 2, ac 1, and [START] a. Too few for estimates: ½, 1, 1½."""
    text = Text.running(np.array([4, 5, 4, 5, 4, 6]))
    model = KneserNey(text, 7, 2)
    # tokens before a: [START], b; before b: a; before c: a → 2, 1, 1 of 4; backoff (1 + ½ + ½) / 4 to 1/5 each
    one = {4: (2 - 1) / 4 + 0.5 / 5, 5: (1 - 0.5) / 4 + 0.5 / 5, 6: (1 - 0.5) / 4 + 0.5 / 5}
    # after a: b twice, c once of 3; backoff (1 + ½) / 3
    after = {5: (2 - 1) / 3 + 0.5 * one[5], 6: (1 - 0.5) / 3 + 0.5 * one[6], 4: 0.5 * one[4]}
    found = [math.exp(model.log_probs(Text(np.array([1, 4, token]), np.array([0, 1, 2])))[1]) for token in (4, 5, 6)]
    assert found == pytest.approx([after[4], after[5], after[6]])
