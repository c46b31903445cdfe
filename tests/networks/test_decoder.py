"""The decoder: against its equations in plain torch, and one step for training and search."""

from functools import partial

import pytest
import torch
from torch import nn

import carousel
from carousel.networks.attention import Additive, Unpadded
from carousel.networks.decoder import Decoder, DecoderStepper, SearchDecoder
from carousel.ops.prediction import Predictor

WORDS, EMBEDDING, HIDDEN, MEMORY = 9, 4, 5, 3
LENGTHS, SOURCES = [3, 1, 4], [2, 4, 3]


@pytest.fixture(params=["luong", "input-feeding", "bahdanau"])
def decoder(request):
    torch.manual_seed(0)
    layers = carousel.LSTM(Decoder.input_size(request.param, EMBEDDING, HIDDEN, MEMORY), HIDDEN)
    return Decoder(layers, Additive(HIDDEN, MEMORY), request.param).double()


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    tokens, words = torch.randint(WORDS, (max(LENGTHS), len(LENGTHS))), torch.randn(WORDS, EMBEDDING).double()
    state = tuple(torch.randn(1, len(LENGTHS), HIDDEN).double() for _ in range(2))
    return tokens, words, torch.randn(max(SOURCES), len(SOURCES), MEMORY).double(), state


def by_hand(decoder, b, tokens, words, encoded, state):
    """The vectors and attention weights of sequence `b`, by torch's own cell and one position after the other."""
    weights_of = {name.removesuffix("_l0"): p for name, p in decoder.layers.named_parameters()}
    cell = partial(torch.func.functional_call, nn.LSTMCell(decoder.layers.input_size, HIDDEN).double(), weights_of)
    attention, places = decoder.attention, encoded[: SOURCES[b], b]
    (s, c), vector = (part[0, b : b + 1] for part in state), torch.zeros(1, HIDDEN).double()

    def align(query):
        scores = [attention.v @ torch.tanh(attention.query(query[0]) + attention.key(place)) for place in places]
        weights = torch.stack(scores).softmax(0)
        return weights @ places, weights

    for token in tokens[: LENGTHS[b], b]:
        x = words[token].unsqueeze(0)
        if decoder.kind == "bahdanau":  # α from s_{t−1}; s_t = f(s_{t−1}, y_{t−1}, c_t)
            context, weights = align(s)
            s, c = cell((torch.cat((x, context.unsqueeze(0)), 1), (s, c)))
        else:
            s, c = cell((torch.cat((x, vector), 1) if decoder.kind == "input-feeding" else x, (s, c)))
            context, weights = align(s)
        vector = torch.tanh(decoder.join(torch.cat((context, s[0])))).unsqueeze(0)
        yield vector[0], weights


def search_steps(decoder, tokens, words, encoded, state):
    """The vectors of each step as a search computes them, (T, B, H)."""
    predict = Predictor(torch.eye(HIDDEN).double(), torch.zeros(HIDDEN).double())
    memory = decoder.prepare(encoded, torch.tensor(SOURCES), nn.Identity())
    stepper = DecoderStepper(SearchDecoder(decoder, words, None, predict), memory, state)
    rows = stepper.start(len(LENGTHS))
    for step in tokens:
        vectors, rows = stepper.decoder.advance(step, rows)
        yield vectors


def test_the_equations(decoder, inputs):
    tokens, words, encoded, state = inputs
    memory = decoder.prepare(encoded, torch.tensor(SOURCES), nn.Identity())
    real = Unpadded(torch.tensor(LENGTHS), len(tokens))
    vectors, weights = decoder(words[tokens], memory, state, real)
    vectors, searched = real.put(vectors), list(search_steps(decoder, *inputs))
    for b in range(len(LENGTHS)):
        for t, (vector, seen) in enumerate(by_hand(decoder, b, *inputs)):
            torch.testing.assert_close(vectors[t, b], vector)
            torch.testing.assert_close(weights[t, b, : SOURCES[b]], seen)
            torch.testing.assert_close(searched[t][b], vector)


def test_training_and_search_share_one_step(decoder, inputs, monkeypatch):
    """What is changed in `Decoder.step` changes both."""
    tokens, words, encoded, state = inputs
    step, calls = decoder.step, []

    def halved(*args):
        vectors, *others = step(*args)
        calls.append(len(vectors))
        return vectors / 2, *others

    monkeypatch.setattr(decoder, "step", halved)
    memory = decoder.prepare(encoded, torch.tensor(SOURCES), nn.Identity())
    real = Unpadded(torch.tensor(LENGTHS), len(tokens))
    vectors = real.put(decoder(words[tokens], memory, state, real)[0])
    assert calls == ([8] if decoder.kind == "luong" else [3, 2, 2, 1])
    for t, searched in enumerate(search_steps(decoder, *inputs)):
        batch_sizes = torch.tensor(LENGTHS) > t
        torch.testing.assert_close(vectors[t, batch_sizes], searched[batch_sizes])


def test_the_gradients_are_those_of_the_equations(decoder, inputs):
    tokens, words, encoded, state = inputs
    memory = decoder.prepare(encoded, torch.tensor(SOURCES), nn.Identity())
    real = Unpadded(torch.tensor(LENGTHS), len(tokens))
    vectors = real.put(decoder(words[tokens], memory, state, real)[0])
    torch.manual_seed(2)
    factors = torch.randn_like(vectors)
    steps = [(b, t, v) for b in range(len(LENGTHS)) for t, (v, _) in enumerate(by_hand(decoder, b, *inputs))]
    expected = sum(factors[t, b] @ vector for b, t, vector in steps)
    ours = torch.autograd.grad((vectors * factors).sum(), list(decoder.parameters()))
    for gradient, right in zip(ours, torch.autograd.grad(expected, list(decoder.parameters())), strict=True):
        torch.testing.assert_close(gradient, right)
