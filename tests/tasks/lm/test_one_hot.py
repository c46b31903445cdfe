"""One-hot vectors as the input of a language model: against a layer that multiplies them."""

import pytest
import torch
import torch.nn.functional as F

import carousel
from carousel.data import Vocabulary
from carousel.errors import SettingsError
from carousel.layers import named
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.settings import LanguageSettings


def network(**given):
    torch.manual_seed(0)
    settings = LanguageSettings.read(
        {"train": "t", "hidden": 4, "embedding": "one-hot", "tied": False, "dropout": 0.0, **given}
    )
    vocabulary = Vocabulary.train(["abcdef"])
    return LanguageNetwork(settings, LanguageAssets(vocabulary)).double(), len(vocabulary)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "layernorm", "coupled", "peephole"])
def test_it_is_the_network_that_reads_one_hot_vectors(cell):
    model, size = network(cell=cell)
    layer = named(cell)(size, 4).double()
    own = dict(model.layers.state_dict())
    own["weight_ih_l0"] = model.embedder.weight.T
    layer.load_state_dict(own)
    tokens = torch.randint(1, size, (7, 3))
    found, expected = model.layers(model.embedder(tokens))[0], layer(F.one_hot(tokens, size).double())[0]
    torch.testing.assert_close(found, expected)
    factor = torch.randn_like(found)
    (found * factor).sum().backward()
    (expected * factor).sum().backward()
    assert model.layers.weight_ih_l0.grad is None  # the identity is not trained
    torch.testing.assert_close(model.embedder.weight.grad, layer.weight_ih_l0.grad.T)
    torch.testing.assert_close(model.layers.weight_hh_l0.grad, layer.weight_hh_l0.grad)


def test_there_is_nothing_to_share_with_the_output():
    with pytest.raises(SettingsError, match="tied: one-hot vectors are no matrix"):
        network(tied=True)
    with pytest.raises(SettingsError, match="embedding"):
        network(embedding="onehot")


def test_train_load_and_generate(tmp_path):
    small = {"tokens": "character", "hidden": 6, "epochs": 1, "quiet": True, "report": False}
    model = carousel.train("lm", ["abab"] * 8, out=tmp_path / "run", embedding="one-hot", tied=False, **small)
    again = carousel.load(tmp_path / "run")
    assert torch.equal(again.network.layers.weight_ih_l0, torch.eye(24))
    assert again.generate(max_length=5, seed=1).tokens == model.generate(max_length=5, seed=1).tokens
    text = tmp_path / "text.txt"
    text.write_text("abab\n", "utf-8")
    assert again.evaluate(text)["perplexity"] == pytest.approx(model.evaluate(text)["perplexity"])


def test_a_text_as_one_hot_vectors():
    vocabulary = Vocabulary.train(["i we go school"], "word")
    vectors = vocabulary.one_hot("i go school")
    assert vectors.shape == (3, len(vocabulary)) and vectors.sum(1).tolist() == [1, 1, 1]
    assert [vocabulary.token(int(k)) for k in vectors.argmax(1)] == ["i", "go", "school"]
    assert vocabulary.one_hot("").shape == (0, len(vocabulary))
