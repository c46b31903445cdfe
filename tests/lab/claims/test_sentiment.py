"""An LSTM that adds up sentiment: against torch's LSTM and a loop over words."""

import itertools

import pytest
import torch
from helpers.lab import in_torch

from carousel import lab
from carousel.lab.claims import sentiment


def score(words):
    """Negation acts on the next word only."""
    total, before = 0, ""
    for word in words:
        value = {"good": 1, "bad": -1}.get(word, 0)
        total += -2 * value if before == "not" else value
        before = word
    return total


def test_the_corrected_units_in_torch_are_right_on_every_sentence():
    layer = in_torch(sentiment.corrected())
    for length in range(1, 6):
        every = list(itertools.product(sentiment.WORDS, repeat=length))
        ids = torch.tensor([[sentiment.WORDS.index(word) for word in words] for words in every]).T
        _, (_, c) = layer(torch.nn.functional.one_hot(ids, 4).float())
        found = c[0, :, 1] + 2 * c[0, :, 2]
        assert found.tolist() == pytest.approx([score(words) for words in every], abs=1e-5)


def test_the_counts_are_those_of_a_loop():
    found = lab.sentiment(4)
    layer = in_torch(sentiment.published())
    for length, count in enumerate(found.published, 1):
        right = 0
        for words in itertools.product(sentiment.WORDS, repeat=length):
            ids = torch.tensor([[sentiment.WORDS.index(word)] for word in words])
            _, (_, c) = layer(torch.nn.functional.one_hot(ids, 4).float())
            right += abs(2 * float(c[0, 0, 0].detach()) - score(words)) < 0.01
        assert right == count
    assert found.total == found.corrected == (4, 16, 64, 256)


def test_the_table_is_the_published_one():
    found = {words: said for words, _, said, _ in lab.sentiment(1).phrases}
    expected = {"good": 1, "bad": -1, "not good": -2, "not bad": -2, "not uh": -2, "not not": -2, "not uh good": -1}
    for words, said in expected.items():  # run in PyTorch by others before
        assert found[words] == pytest.approx(said, abs=1e-4), words
    with pytest.raises(ValueError, match="longest must be between 1 and 10, got 11"):
        lab.sentiment(11)


def test_sentiment_as_printed():
    verdicts = lab.sentiment(4).verdicts()
    assert [verdicts[key].short for key in ("score", "sign")] == ["does not hold as printed"] * 2
    assert "“not bad” −2 for +2" in verdicts["score"].reason
    assert verdicts["sign"].reason.startswith("g_t[0] is +1 for good and −1 for good after not")
    # as printed it is true, for it is always so: the index is wrong
    assert verdicts["index"].short == "holds"
    assert "so it is without not" in verdicts["index"].reason and "from 0.5 to 1" in verdicts["index"].reason
    other = {words: {**gates, "i": [1.0, 0.5]} for words, gates in lab.sentiment(1).gates.items()}
    claim = next(claim for claim in lab.finding_class("sentiment").claims if claim.key == "index")
    assert claim.verdict({"gates": other}).short == "does not hold as printed"
