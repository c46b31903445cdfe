"""The auxiliary language model: its loss by hand, and that no direction is asked for what it has read."""

import pytest
import torch
import torch.nn.functional as F

from carousel.data.text.tokenizers import UNK
from carousel.networks import auxiliary_lm
from carousel.networks.auxiliary_lm import AuxiliaryLM

WORDS = torch.tensor([[5, 6, 9], [7, 8, 0], [4, 0, 0], [30, 0, 0]])  # sentences of 4, 2 and 1 words
HIDDEN = 6


@pytest.mark.parametrize("directions", [1, 2])
def test_loss_by_hand(directions, monkeypatch):
    monkeypatch.setattr(auxiliary_lm, "MOST_WORDS", 9)  # 9 and 30 are [UNK]
    model = AuxiliaryLM(50, HIDDEN, directions)
    y = torch.randn(*WORDS.shape, directions * HIDDEN)
    expected = 0.0
    for t, b in (WORDS != 0).nonzero().tolist():
        for k, neighbour in enumerate((t + 1, t - 1)[:directions]):
            if 0 <= neighbour < len(WORDS) and WORDS[neighbour, b]:
                state = y[t, b, k * HIDDEN : (k + 1) * HIDDEN]
                scores = model.output(torch.tanh(model.projections[k](state)))
                word = int(WORDS[neighbour, b])
                expected += F.cross_entropy(scores, torch.tensor(word if word < 9 else UNK)).item()
    assert float(model(y, WORDS, WORDS != 0).detach()) == pytest.approx(expected, rel=1e-5)


def test_gradient_reaches_only_words_with_a_neighbour_ahead():
    y = torch.randn(*WORDS.shape, 2 * HIDDEN, requires_grad=True)
    AuxiliaryLM(50, HIDDEN, 2)(y, WORDS, WORDS != 0).backward()
    reached = y.grad.unflatten(2, (2, HIDDEN)).abs().sum(3) > 0  # (T, B, 2)
    lengths = (WORDS != 0).sum(0)
    for t, b in torch.cartesian_prod(torch.arange(len(WORDS)), torch.arange(3)).tolist():
        assert reached[t, b].tolist() == [t + 1 < lengths[b], 0 < t < lengths[b]]


def test_sentences_of_one_word_cost_nothing():
    words = torch.tensor([[5, 6]])
    assert float(AuxiliaryLM(50, HIDDEN, 2)(torch.randn(1, 2, 2 * HIDDEN), words, words > 0).detach()) == 0
