"""The network of the classifier: its loss, weights of classes, words that are hidden."""

import math

import pytest
import torch
from helpers.classifiers import batch_of, new_model

from carousel.data import UNK
from carousel.errors import DataError, SettingsError


def test_the_loss_by_hand(settings):
    model, _ = new_model(settings(class_weights="bad=3,good=0.5", label_smoothing=0.1))
    assert model.labels == ["bad", "good"]
    batch = batch_of(model, ["warm film", "dull"], [1, 0])
    model.network.eval()
    scores = model.network.scores(batch).tolist()

    def cross_entropy(row, label):
        total = math.log(sum(math.exp(score) for score in row))
        shares = [0.05, 0.05]
        shares[label] += 0.9
        return sum(share * (total - score) for share, score in zip(shares, row, strict=True))

    expected = (0.5 * cross_entropy(scores[0], 1) + 3 * cross_entropy(scores[1], 0)) / 2
    loss = model.network.loss(batch)
    assert loss.mean.item() == pytest.approx(expected, rel=1e-5)
    assert loss.weight == 2


def test_class_weights(settings, tmp_path):
    uneven = tmp_path / "uneven.tsv"
    uneven.write_text("a\tx\nb\tx\nc\tx\nd\ty\n")
    model, _ = new_model(settings(train=uneven, dev=None, class_weights="balanced"))
    assert model.network.weights.tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1)])
    assert "weights" not in model.network.state_dict()
    for wrong in ("even", "x=1", "x=1,y=two", "x=1,y=2,z=3", "x=1,y=-1"):
        with pytest.raises(SettingsError, match=r"class_weights: write none, balanced or x=1,y=1; got"):
            new_model(settings(train=uneven, dev=None, class_weights=wrong))


def test_words_are_hidden_in_training_alone(settings):
    model, _ = new_model(settings(word_dropout=0.5, dropout=0))
    words = torch.arange(4, 20).unsqueeze(1).repeat(1, 50)
    words[10:] = 0
    unknown = model.network.embedder.embedder.weight[UNK]
    model.network.train()
    hidden = (model.network.embedder(words) == unknown).all(2)
    assert 0.3 < hidden[:10].float().mean() < 0.7
    assert not hidden[10:].any()
    assert not (model.network.eval().embedder(words) == unknown).all(2).any()


def test_given_vectors(settings, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("warm 1 2 3\nfilm 4 5 6\nwhatever 7 8 9\n")
    model, data = new_model(settings(vectors=path, embedding=3, freeze_vectors=True))
    weight = model.network.embedder.embedder.weight
    assert weight[model.vocabulary.id("warm")].tolist() == [1, 2, 3]
    assert weight[0].tolist() == [0, 0, 0]
    assert not weight.requires_grad
    assert f": 2 of {len(model.vocabulary)} tokens have one; " in data.info["word vectors"]
    with pytest.raises(DataError, match="its vectors have 3 numbers, but embedding is 8; give embedding=3"):
        new_model(settings(vectors=path))
