"""Long texts, read in chunks: beside a network that reads the chunks one by one; memory; what is said of them."""

import random
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch

import carousel
from carousel.data.stores.examples import Column, collate
from carousel.tasks.classify import chunks as module
from carousel.tasks.classify.chunks import Chunks

TINY = {"hidden": 4, "embedding": 4, "epochs": 1, "quiet": True, "baseline": False}


def batch_of(*lengths):
    tokens = np.arange(4, 4 + sum(lengths))
    return collate({"tokens": Column(tokens, np.array(lengths))})


def test_chunks_are_the_text_in_order_and_of_equal_length():
    chunks = Chunks(batch_of(10, 0, 4, 5), 4)
    assert chunks.owners.tolist() == [0, 0, 0, 1, 2, 3, 3]
    assert chunks.lengths.tolist() == [4, 3, 3, 0, 4, 3, 2]
    whole = chunks.whole()
    read = [row[:n].tolist() for row, n in zip(whole.tokens.T, whole.lengths.tolist(), strict=True)]
    assert (
        [token for row in read for token in row] == list(range(4, 23))
        and chunks.needed
        and not Chunks(batch_of(4, 1), 4).needed
    )


def test_spans_take_the_characters_of_their_words():
    """Characters are counted step by step over all texts: words 1, 3, 5 are of the first text, 2, 4 of the second."""
    tokens = Column(np.array([1, 3, 5, 2, 4]), np.array([3, 2]))
    spelled = Column(np.array([1, 3, 3, 5, 5, 5, 2, 2, 4]), np.array([6, 3]))
    columns = {"tokens": tokens, "characters": spelled, "spelling": Column(np.array([1, 2, 3, 2, 1]), np.array([3, 2]))}
    part = collate(columns).spans(torch.tensor([0, 1, 0]), torch.tensor([1, 1, 0]), torch.tensor([2, 1, 1]))
    assert part.tokens.tolist() == [[3, 4, 1], [5, 0, 0]]
    assert part.spelling.tolist() == [2, 1, 1, 3]
    assert part.characters.T.tolist() == [[3, 3, 0], [4, 0, 0], [1, 0, 0], [5, 5, 5]]


@pytest.mark.parametrize("pooling", ["max", "mean", "last", "attention"])
@pytest.mark.parametrize("group", [1, 7, 10_000])
def test_scores_and_gradients_are_those_of_the_chunks_one_by_one(tmp_path, monkeypatch, pooling, group):
    monkeypatch.setattr(module, "GROUP", group)
    data = [("a b c d e f g h i j", "x"), ("b c", "y"), ("c d e f g", "x"), ("j", "y")]
    options = {**TINY, "chunk": 4, "pooling": pooling, "dropout": 0, "word_dropout": 0, "linear": False}
    model = carousel.train("classify", data, out=tmp_path / "run", dev_split="none", **options)
    network = model.network.train()
    batch = model.batch_of([text for text, _ in data])
    pooled = []
    for text, _ in data:
        words, count = text.split(), -(-len(text.split()) // 4)
        bounds = [-(-len(words) * k // count) for k in range(count + 1)]
        parts = [" ".join(words[a:b]) for a, b in pairwise(bounds)]
        y = [
            network.layers(network.read(one), lengths=one.lengths)[0]
            for one in (model.batch_of([part]) for part in parts)
        ]
        if pooling == "last":
            half = network.pool.forward_size
            pooled.append(torch.cat((y[-1][-1, 0, :half], y[0][0, 0, half:])))
        else:
            steps = torch.cat(y)
            pooled.append(network.pool(steps, torch.tensor([len(steps)]))[0])
    expected = network.output(torch.stack(pooled))
    made = network.own_scores(batch)
    torch.testing.assert_close(made, expected)
    parameters = [p for p in network.parameters() if p.requires_grad]
    made.logsumexp(1).sum().backward()
    gradients = [p.grad.clone() for p in parameters]
    for one, two in zip(gradients, torch.autograd.grad(expected.logsumexp(1).sum(), parameters), strict=True):
        torch.testing.assert_close(one, two)


def test_a_long_text_counts_to_its_end_and_it_is_said(tmp_path):
    """The word that decides is anywhere in 100, chunks are of 10."""
    draw = random.Random(0)

    def text(word):
        words = draw.choices("abcdefgh", k=100)
        words[draw.randrange(100)] = word
        return " ".join(words)

    data = [(text(word), word) for word in ("good", "bad") * 20]
    options = {**TINY, "hidden": 8, "embedding": 8, "lr": 0.03, "epochs": 8, "batch_size": 8, "average": 0, "chunk": 10}
    options |= {"dropout": 0, "word_dropout": 0}
    model = carousel.train("classify", data, out=tmp_path / "run", linear=False, dev_split="none", **options)
    assert carousel.evaluate(model, data)["accuracy"] == 1
    assert model.predict([text("good"), "bad", ""])[0].label == "good"
    assert "40 long ones are read in chunks of at most 10" in (tmp_path / "run" / "report.html").read_text()
    trace = model.trace(data[0][0])
    assert len(trace.tokens) == 10 and sum(map(len, trace.tokens)) == 100
    facts = carousel.check(data, task="classify", chunk=10)
    assert facts.train.chunked == 40 and facts.train.cut == 0


def test_a_batch_of_long_texts_is_predicted_one_by_one(tmp_path, monkeypatch):
    model = carousel.train("classify", [("a b", "x"), ("b c d", "y")] * 3, out=tmp_path / "run", **TINY)
    texts = ["a b c", "", "d " * 9]
    expected = [one.probabilities for one in model.predict(texts)]
    monkeypatch.setattr("carousel.tasks.classify.predictor.MOST_PADDED", 5)
    for one, two in zip(model.predict(texts), expected, strict=True):
        assert one.probabilities == pytest.approx(two, abs=1e-6)


MEMORY = """
import resource, sys, torch
from carousel.data.stores.examples import ExampleBatch
from carousel.tasks.classify.chunks import Chunks
from carousel.layers import LSTM
from carousel.networks.pooling import pooling
layer, pool = LSTM(8, 32, bidirectional=True), pooling("max", 64)
def peak(steps):
    batch = ExampleBatch(torch.ones(steps, 1, dtype=torch.int64), torch.tensor([steps]), None, torch.arange(1))
    encode = lambda b: layer(torch.ones(*b.tokens.shape, 8), lengths=b.lengths)[0]
    Chunks(batch, 500).pooled(encode, pool).sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
short = peak(16_000)
print(peak(100_000) - short)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length():
    """100,000 steps of 64 numbers are 26 MB for the output alone, and several times that with the gates."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 40
