"""The sentence encoder's network: features of a pair and loss by hand."""

import math

import pytest
import torch
from helpers.untrained import new_model

from carousel.tasks.encode.task import Encode


def test_the_pair_is_put_together_as_in_the_paper(settings):
    model, data = new_model(Encode, settings())
    network = model.network.eval()
    batch = next(iter(data.dev))
    u, v = network.encode(batch.first), network.encode(batch.second)
    features = torch.stack([torch.cat((a, b, abs(a - b), a * b)) for a, b in zip(u, v, strict=True)])
    torch.testing.assert_close(network.scores(batch), network.head(features))


def test_the_loss_of_a_score_by_hand(settings):
    model, data = new_model(Encode, settings())
    network = model.network.eval()
    batch = next(iter(data.train))
    total = 0.0
    for row, label in zip(network.scores(batch).tolist(), batch.labels.tolist(), strict=True):
        chances = [math.exp(x) / sum(map(math.exp, row)) for x in row]
        levels = list(range(1, 6))
        low = min(int(label), 4)
        share = label - low
        total -= (1 - share) * math.log(chances[low - 1]) + share * math.log(chances[low])
        total += (sum(p * r for p, r in zip(chances, levels, strict=True)) - label) ** 2
    loss = network.loss(batch)
    assert loss.mean.item() == pytest.approx(total / loss.weight, rel=1e-4)


def test_given_vectors(settings, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("dog 1 2 3\ncat 4 5 6\nwhatever 7 8 9\n")
    model, data = new_model(Encode, settings(vectors=path, embedding=3, freeze_vectors=True))
    weight = model.network.embedder.embedder.weight
    assert weight[model.vocabulary.id("cat")].tolist() == [4, 5, 6]
    assert not weight.requires_grad
    assert f": 2 of {len(model.vocabulary)} tokens have one; " in data.info["word vectors"]
