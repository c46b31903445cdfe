"""The network of both directions: its loss, padding and marks."""

import random

import numpy as np
import pytest
import torch
from helpers.bilms import SENTENCES, batch_of, network, plain_losses
from hypothesis import given
from hypothesis import strategies as st

from carousel.cells import registry
from carousel.data import END, START, UNK
from carousel.tasks.bilm.network import mark, turned


def test_the_loss_is_that_of_both_directions():
    model = network()
    loss = model.network.loss(batch_of(model, SENTENCES))
    every = [value for sentence in SENTENCES for way in plain_losses(model, sentence) for value in way]
    assert loss.mean.item() == pytest.approx(sum(every) / len(every), rel=1e-5)
    assert loss.weight == len(every) / 2


@pytest.mark.parametrize("cell", registry())
def test_backwards_is_forwards_on_reversed_text_with_the_stacks_swapped(cell):
    model, mirrored = network(cell=cell, label_smoothing=0.1), network(cell=cell, label_smoothing=0.1)
    weights = model.network.state_dict()
    names = {name: name.replace("forward_", "?").replace("backward_", "forward_").replace("?", "backward_")
             for name in weights}  # fmt: skip
    mirrored.network.load_state_dict({names[name]: value for name, value in weights.items()})
    with torch.no_grad():  # a sentence that is read backwards begins with [END]
        for table in (mirrored.network.embedder.embedder.weight, mirrored.network.bias):
            table[[START, END]] = table[[END, START]]
    batch = batch_of(model, SENTENCES)
    other = batch_of(model, [" ".join(reversed(sentence.split())) for sentence in SENTENCES])
    forward, backward = model.network.losses(batch)
    torch.testing.assert_close(mirrored.network.losses(other), torch.stack((backward, forward)))
    assert not torch.allclose(forward, backward)


def test_gradients_of_the_loss():
    model = network(layers=2)
    model.network.double().train()
    for part in model.modules():
        if hasattr(part, "rate"):
            part.rate = 0.0
    model.network.embedder.word_dropout = 0.0
    batch = batch_of(model, SENTENCES[:4])
    model.network.loss(batch).mean.backward()
    draw = random.Random(0)
    for name, parameter in model.network.named_parameters():
        place = tuple(draw.randrange(size) for size in parameter.shape)
        if name == "embedder.embedder.weight":
            place = (START, 2)
        with torch.no_grad():
            values = []
            for step in (1e-6, -2e-6):
                parameter[place] += step
                values.append(model.network.loss(batch).mean.item())
            parameter[place] += 1e-6
        expected = (values[0] - values[1]) / 2e-6
        assert parameter.grad[place].item() == pytest.approx(expected, rel=1e-4, abs=1e-8), name


def test_padding_is_zero_and_has_no_effect():
    model = network()
    batch = batch_of(model, SENTENCES)
    for layer in model.network.contexts(batch):
        assert layer.shape == (8, 6, 12)
        assert not layer[~batch.mask].any()
        assert layer[batch.mask].abs().sum(1).all()
    losses = model.network.losses(batch)
    assert losses.shape == (2, 9, 6)
    real = torch.arange(9).unsqueeze(1) < batch.lengths + 1
    assert not losses[:, ~real].any()
    assert (losses[:, real] > 0).all()


def test_a_word_feels_only_what_a_direction_has_read():
    model = network(layers=1)
    one, two = model.embed(["the cat saw a dog", "the cat saw the dog"])
    np.testing.assert_allclose(one[1, :3, :6], two[1, :3, :6], rtol=1e-5)  # forwards, before the word that differs
    np.testing.assert_allclose(one[1, 4:, 6:], two[1, 4:, 6:], rtol=1e-5)  # backwards, after it
    assert (np.abs(one[1, 3:, :6] - two[1, 3:, :6]).max(1) > 1e-3).all()
    assert (np.abs(one[1, :4, 6:] - two[1, :4, 6:]).max(1) > 1e-3).all()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_turning_twice_changes_nothing(lengths):
    steps = max(lengths)
    x = torch.arange(steps * len(lengths) * 2).reshape(steps, len(lengths), 2)
    there = turned(x, torch.tensor(lengths))
    assert torch.equal(turned(there, torch.tensor(lengths)), x)
    for b, length in enumerate(lengths):
        assert there[:length, b].tolist() == x[:length, b].tolist()[::-1]
        assert torch.equal(there[length:, b], x[length:, b])


def test_marks_of_empty_sentences():
    assert mark(torch.zeros(0, 2, dtype=torch.int64), torch.tensor([0, 0])).tolist() == [[START] * 2, [END] * 2]


def test_marks_are_never_hidden():
    model = network(word_dropout=0.9, dropout=0.0, characters="none")
    model.network.train()
    batch = batch_of(model, SENTENCES * 20)
    read = model.network.read(batch)
    hidden = (read.tokens == model.network.embedder.embedder.weight[UNK]).all(2)
    words = read.marked > UNK
    assert 0.8 < hidden[words].float().mean() < 1
    assert not hidden[read.marked < UNK].any()
