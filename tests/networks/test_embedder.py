"""Tokens to vectors, against a loop over the tokens."""

import numpy as np
import pytest
import torch

from carousel import LSTM
from carousel.data import PAD, UNK
from carousel.data.text.vectors import Vectors
from carousel.networks.embedder import Embedder, WordEmbedder, input_rows, read_columns


def test_rows_of_the_table_and_zeros_for_padding():
    embedder = Embedder(6, 3)
    tokens = torch.tensor([[5, 0], [2, 5]])
    expected = torch.stack([torch.stack([embedder.weight[t] for t in row]) for row in tokens])
    assert torch.equal(embedder(tokens), expected)
    assert not embedder(torch.tensor([PAD])).any()


def test_a_dropped_token_is_dropped_wherever_it_stands():
    embedder = Embedder(50, 4, dropout=0.5)
    tokens = torch.arange(1, 50).repeat(3, 1)
    vectors = embedder(tokens)
    dropped = (vectors == 0).all(-1)
    assert torch.equal(dropped[0], dropped[1]) and torch.equal(dropped[0], dropped[2])
    assert 5 < dropped[0].sum() < 44
    torch.testing.assert_close(vectors[0][~dropped[0]], 2 * embedder.weight[1:][~dropped[0]])
    assert torch.equal(embedder.eval()(tokens)[0], embedder.weight[1:])


def test_one_hot_vectors_are_looked_up():
    """A layer that reads columns of W through the table computes what one that multiplies one-hot vectors does."""
    layer, embedder = LSTM(input_rows("lstm", 5), 5), Embedder(7, 20)
    read_columns(layer, embedder)
    plain = LSTM(7, 5)
    plain.load_state_dict({**layer.state_dict(), "weight_ih_l0": embedder.weight.detach().T})
    tokens = torch.tensor([[3], [6], [1]])
    hot = torch.nn.functional.one_hot(tokens, 7).float()
    torch.testing.assert_close(layer(embedder(tokens))[0], plain(hot)[0])
    assert not layer.weight_ih_l0.requires_grad and embedder.weight.requires_grad


def test_given_vectors_and_others_as_long():
    embedder = WordEmbedder(200, 8, frozen=True)
    draw = np.random.default_rng(0)
    known = np.arange(200) >= 100
    values = np.where(known[:, None], draw.normal(0, 3, (200, 8)), 0).astype(np.float32)
    embedder.set_vectors(Vectors(values, known))
    weight = embedder.embedder.weight
    assert torch.equal(weight[100:], torch.from_numpy(values[100:])) and not weight.requires_grad
    assert weight[UNK:100].std().item() == pytest.approx(3, rel=0.1)
    assert not weight[PAD].any()


def test_hidden_words_are_read_as_unknown():
    embedder = WordEmbedder(10, 4, word_dropout=0.5)
    words = torch.randint(4, 10, (100, 8))
    words[:, 0] = PAD
    vectors = embedder(words)
    unknown = (vectors == embedder.embedder.weight[UNK]).all(-1)
    assert 0.4 < unknown[:, 1:].float().mean() < 0.6
    assert not vectors[:, 0].any()  # padding is no word
    assert not (embedder.eval()(words) == embedder.embedder.weight[UNK]).all(-1).any()


def test_words_beyond_the_table_are_fetched():
    class Beyond:
        values = np.arange(12, dtype=np.float32).reshape(3, 4) + 100

    embedder = WordEmbedder(5, 4, beyond=Beyond())
    vectors = embedder(torch.tensor([[4, 5], [7, 2]]))
    weight = embedder.embedder.weight
    expected = torch.stack([weight[4], torch.tensor(Beyond.values[0]), torch.tensor(Beyond.values[2]), weight[2]])
    assert torch.equal(vectors.reshape(4, 4), expected)


def test_blank_texts_alone_are_a_step_of_padding():
    vectors = WordEmbedder(5, 4)(torch.zeros(0, 3, dtype=torch.int64))
    assert vectors.shape == (1, 3, 4) and not vectors.any()
