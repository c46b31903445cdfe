"""random-k: measures of diversity against sacrebleu and counts by hand, and verdicts from numbers made by hand."""

import math

import pytest
import torch
from helpers.lab import check_verdict, same
from sacrebleu.metrics import BLEU

from carousel.lab.claim import Outcome
from carousel.lab.claims import random_k
from carousel.lab.text import END, PAD, START


def test_diversity_by_hand():
    assert random_k.distinct(["abab", "ab"], 2) == 2 / 4  # ab, ba, ab; ab
    assert random_k.distinct(["a"], 2) == 0
    known = set(random_k.stretches(["abcdefghij"]))
    assert known == {"abcdefgh", "bcdefghi", "cdefghij"}
    assert random_k.copied(["xabcdefgh"], known) == 1 / 2


def test_self_bleu_is_sacrebleus():
    texts = ["3 june 1998", "3 july 1998", "june the 3rd, 1998"]
    spaced = [" ".join(text) for text in texts]
    scorer = BLEU(tokenize="none", force=True)
    expected = [
        scorer.corpus_score([one], [[other] for j, other in enumerate(spaced) if j != k]).score / 100
        for k, one in enumerate(spaced)
    ]
    assert random_k.self_bleu(texts) == pytest.approx(sum(expected) / 3)
    assert random_k.self_bleu(["abcdef"] * 3) == pytest.approx(1)


def test_the_words_of_the_reports_poems():
    assert random_k.count_report() == {"argmax": 5, "argmax_different": 4, "random-k": 0, "random-k_different": 7}


class Fixed(torch.nn.Module):
    """The same scores at every step."""

    def __init__(self, scores):
        super().__init__()
        self.scores = torch.tensor(scores)

    def forward(self, tokens):
        return self.scores.expand(*tokens.shape, -1)


def test_one_of_the_k_best_and_neither_padding_nor_a_start():
    scores = [9.0, 9.0, -9.0, 3.0, 2.0, 1.0]
    assert (PAD, START, END) == (0, 1, 2)
    torch.manual_seed(0)
    tokens, perplexity = random_k.write(Fixed(scores), torch.tensor([5, 4]), 1)
    assert tokens[0].tolist() == [5, 4] and set(tokens[1:].flatten().tolist()) == {3}
    assert perplexity == pytest.approx(math.exp(-torch.tensor(scores).log_softmax(0)[3].item()), rel=1e-5)
    tokens, _ = random_k.write(Fixed(scores), torch.full((40,), 5), 2)
    assert set(tokens[1:].flatten().tolist()) == {3, 4}


def written(argmax, k):
    keys = ("distinct", "self_bleu", "copied", "perplexity")
    rows = (("1", argmax), ("5", k))
    measured = {name: {key: same(v) for key, v in zip(keys, each, strict=True)} for name, each in rows}
    return {"measured": measured, "k": 5}


@pytest.mark.parametrize(
    ("key", "numbers", "expected"),
    [
        ("diverse", written((0.2, 0.8, 0.1, 3), (0.8, 0.3, 0.0, 9)), Outcome.HOLDS),
        ("diverse", written((0.2, 0.3, 0.1, 3), (0.8, 0.3, 0.0, 9)), Outcome.FAILS),  # as alike as before
        ("overfitting", written((0.2, 0.8, 0.2, 3), (0.8, 0.3, 0.0, 9)), Outcome.HOLDS_FOR),
        ("overfitting", written((0.2, 0.8, 0.0, 3), (0.8, 0.3, 0.0, 9)), Outcome.FAILS),
    ],
)
def test_a_verdict_follows_from_the_numbers(key, numbers, expected):
    check_verdict("random-k", key, numbers, expected)
