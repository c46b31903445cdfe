"""Words from their characters: padding, distinct words, and torch's own convolution as independent reference."""

import pytest
import torch
import torch.nn.functional as F

from carousel.networks.characters import CharacterCNN, CharacterFeatures, CharacterRNN, distinct

WORDS = torch.tensor([[5, 6, 5, 8], [7, 0, 7, 9], [4, 0, 4, 0]])  # (C, W)
LENGTHS = torch.tensor([3, 1, 3, 2])


@pytest.mark.parametrize("reader", [CharacterRNN(10, 6, 5), CharacterCNN(10, 6, 5), CharacterCNN(10, 6, 5, width=4)])
def test_padding_has_no_effect(reader):
    found = reader(WORDS, LENGTHS)
    assert found.shape == (4, reader.size)
    for k, length in enumerate(LENGTHS):
        torch.testing.assert_close(reader(WORDS[:length, k : k + 1], LENGTHS[k : k + 1])[0], found[k])


def test_filters_are_a_convolution():
    reader = CharacterCNN(10, 6, 5, width=3)
    vectors = reader.embedder(WORDS[:, :1])  # (C, 1, 6)
    weight = reader.filters.weight.view(5, 3, 6).transpose(1, 2)
    expected = F.conv1d(vectors.permute(1, 2, 0), weight, reader.filters.bias, padding=1).relu().amax(2)
    torch.testing.assert_close(reader(WORDS[:, :1], LENGTHS[:1]), expected)


def test_distinct_words():
    words, lengths, which = distinct(WORDS, LENGTHS)
    assert len(lengths) == 3
    assert torch.equal(words[:, which], WORDS) and torch.equal(lengths[which], LENGTHS)


def test_words_that_meet_are_still_told_apart(monkeypatch):
    monkeypatch.setattr(torch, "randint", lambda *args, **options: torch.zeros(args[2], dtype=torch.int64))
    anagrams = torch.tensor([[5, 6], [6, 5]])  # with all factors 1, their sums are equal
    words, lengths, which = distinct(anagrams, torch.tensor([2, 2]))
    assert torch.equal(words[:, which], anagrams) and lengths.tolist() == [2, 2]


def test_each_distinct_word_is_read_once():
    reader, seen = CharacterRNN(10, 6, 5), []
    reader.register_forward_hook(lambda module, args, out: seen.append(args[0].shape[1]))
    mask = torch.tensor([[True, True], [True, False], [True, False]])
    found = CharacterFeatures(reader)(WORDS, LENGTHS, mask)
    assert seen == [3]
    torch.testing.assert_close(found[mask], reader(WORDS, LENGTHS))
    assert not found[~mask].any()
    found.sum().backward()
    assert torch.isfinite(reader.embedder.weight.grad).all()
