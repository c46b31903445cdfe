"""The bidirectional language model against torch's own layers, padding that has no effect, runs, and bad files."""

import math

import numpy as np
import pytest
import torch
from helpers.bilms import SENTENCES, network, own_vectors, plain_losses, torch_stack, write_sentences
from helpers.pages import rows
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import carousel
from carousel.cells import registry
from carousel.tasks.bilm.task import Bilm
from carousel.training import trainer

NETWORKS = {
    "characters by filters": {},
    "characters by layers": {"characters": "rnn"},
    "words alone": {"characters": "none"},
    "three layers, not tied": {"layers": 3, "tied": False},
    "projected": {"hidden": 9},
}


@pytest.mark.parametrize("given", NETWORKS.values(), ids=NETWORKS)
def test_perplexities_are_those_of_torchs_layers(given, tmp_path):
    model = network(cache=tmp_path / "cache", **given)
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES) + "\n")
    told = model.evaluate(tmp_path / "text.txt")
    each = [plain_losses(model, sentence) for sentence in SENTENCES]
    forward, backward = (sum(sum(pair[way]) for pair in each) for way in (0, 1))
    count = sum(len(sentence.split()) + 1 for sentence in SENTENCES)
    assert told["perplexity_forward"] == pytest.approx(math.exp(forward / count), rel=1e-4)
    assert told["perplexity_backward"] == pytest.approx(math.exp(backward / count), rel=1e-4)
    assert told["perplexity"] == pytest.approx(math.exp((forward + backward) / (2 * count)), rel=1e-4)
    assert (told["sentences"], told["words"], told["unknown"]) == (len(SENTENCES), count - len(SENTENCES), 1)


# ---------------------------------------------------------------- vectors


@torch.no_grad()
def plain_vectors(model, sentence):
    """What `embed` gives, from torch's layers, cut off after each layer."""
    _, x = own_vectors(model, sentence)
    found = [torch.cat((x[1:-1], x[1:-1]), 1)]
    for depth in range(1, model.settings.layers + 1):
        sides = []
        for stack, vectors in ((model.network.forward_layers, x), (model.network.backward_layers, x.flip(0))):
            y = vectors[:-1].unsqueeze(1)
            for layer in stack.layers[:depth]:
                lstm = nn.LSTM(model.settings.embedding, model.settings.hidden)
                lstm.load_state_dict(layer.state_dict())
                y, _ = lstm(y)
            sides.append(y[1:, 0])
        found.append(torch.cat((sides[0], sides[1].flip(0)), 1))
    return torch.stack(found).numpy()


@pytest.mark.parametrize("characters", ["cnn", "none"])
def test_vectors_are_those_of_torchs_layers(characters):
    model = network(characters=characters)
    for sentence, found in zip(SENTENCES, model.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(found, plain_vectors(model, sentence), rtol=1e-4, atol=1e-5)


MODELS = {}
WORDS = st.sampled_from(["the", "cat", "dog", "sat", "Zoe", "saw", "qqq"])


@given(st.lists(st.lists(WORDS, max_size=9), min_size=1, max_size=5), st.sampled_from(sorted(registry())))
def test_sentences_do_not_feel_their_neighbours(sentences, cell):
    model = MODELS.get(cell) or MODELS.setdefault(cell, network(cell=cell, hidden=6))
    model.network.double()  # a layer norm of few units amplifies what float32 rounds
    together = model.embed(sentences)
    assert [found.shape for found in together] == [(3, len(words), 12) for words in sentences]
    for words, found in zip(sentences, together, strict=True):
        np.testing.assert_allclose(model.embed([words])[0], found, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------- runs


@pytest.mark.learning
def test_it_learns_both_ways_and_is_loaded_again(settings, text, tmp_path, reached):
    write_sentences(tmp_path / "train.txt", 800, 1)
    network = {"embedding": 32, "hidden": 64, "layers": 1, "dropout": 0.0, "word_dropout": 0.0}
    small = settings(train=tmp_path / "train.txt", batch_size=8, schedule="linear", **network)
    run = trainer.train(Bilm, small, tmp_path / "run", quiet=True)
    model = carousel.load(run.folder)
    found = model.evaluate(text / "dev.txt")
    # Each pair is drawn from four, and their number from three; all else follows. Not to know which noun an adjective
    # has multiplies the perplexity by exp(log 4 · 2 / 7), one and a half.
    pairs = [line.count("the") for line in (text / "dev.txt").read_text().splitlines()]
    best = math.exp(sum(math.log(3) + k * math.log(4) for k in pairs) / sum(3 * k + 1 for k in pairs))
    for direction in ("forward", "backward"):
        ratio = found[f"perplexity_{direction}"] / best  # of the best possible
        reached(f"{direction} ratio", ratio, below=1.2)
        reached(f"{direction} ratio", ratio, above=0.95)
    assert found["perplexity"] ** 2 == pytest.approx(found["perplexity_forward"] * found["perplexity_backward"])
    assert found["perplexity"] == pytest.approx(run.result["dev_perplexity"], rel=1e-5)
    assert "Bidirectional language model" in repr(model)
    assert model.embed("the old dog").shape == (2, 3, 64)
    page = run.report.read_text("utf-8")
    assert f"{found['perplexity_backward']:.2f}" in page
    nearest = rows(page, "word", "nearest", "cosine")
    cosines = [float(row[2]) for row in nearest[:3]]
    assert cosines == sorted(cosines, reverse=True)
    assert all(row[1].count("<mark>") == 1 for row in nearest)


def test_a_run_goes_on_where_it_was_killed(settings, goes_on):
    noisy = settings(word_dropout=0.2, average=0.9, recurrent_dropout=0.1)
    goes_on(Bilm, noisy, index=3)


@torch.no_grad()
@pytest.mark.parametrize("part", ["forward", "backward"])
@pytest.mark.parametrize("hidden", [6, 9])  # as wide as the words, and projected
def test_a_trace_has_all_layers_of_a_direction(part, hidden):
    """Against torch's layers, on each sentence alone."""
    model = network(layers=2, hidden=hidden)
    sentences = ["Zoe saw the dog", "the cat sat"]
    trace = model.trace(sentences, part=part)
    words = ["Zoe [UNK]", "saw", "the", "dog"], ["the", "cat", "sat"]
    if part == "forward":
        assert trace.tokens == tuple(("[START]", *own) for own in words) == model.trace(sentences).tokens
    else:
        assert trace.tokens == tuple(("[END]", *own[::-1]) for own in words)
    for b, sentence in enumerate(sentences):
        x, steps = own_vectors(model, sentence)[1], len(words[b]) + 1
        stack = model.network.forward_layers if part == "forward" else model.network.backward_layers
        y, (h, c) = torch_stack(model, stack)((x if part == "forward" else x.flip(0))[:-1])
        torch.testing.assert_close(trace.output[:steps, b], y)
        torch.testing.assert_close(trace.state[0][:, b], h)
        torch.testing.assert_close(trace.state[1][:, b], c)
        torch.testing.assert_close(trace.h[:, steps - 1, b], h)
        torch.testing.assert_close(trace.c[:, steps - 1, b], c)
    assert trace.gates["f"].shape == (2, 5, 2, hidden)


def test_an_intervention_holds_a_layer_of_a_direction():
    model, text = network(layers=2), "the cat sat"
    for part in model.parts:
        plain = model.trace(text, part=part)
        upper, last = (model.intervene(text, carousel.Clamp("c", 0.5, layer=k), part=part) for k in (1, -1))
        torch.testing.assert_close(upper.c[0], plain.c[0])
        assert (upper.c[1] == 0.5).all() and upper.c.equal(last.c)
        lower = model.intervene(text, carousel.Clamp("c", 0.5, layer=0, steps=1), part=part)
        assert (lower.c[0, 1] == 0.5).all()
        torch.testing.assert_close(lower.c[1, 0], plain.c[1, 0])
        assert not torch.allclose(lower.c[1, 1:], plain.c[1, 1:])
    with pytest.raises(ValueError, match=r"layer=2 is out of range 0\.\.1"):
        model.intervene(text, carousel.Clamp("c", 0.5, layer=2))
    with pytest.raises(carousel.CarouselError, match="model has forward and backward, got 'both'"):
        model.trace(text, part="both")
