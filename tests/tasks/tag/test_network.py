"""The tagger's network: its loss by hand, its output layer."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from helpers.untrained import new_model

from carousel.data.stores.examples import NO_LABEL, ExampleBatches
from carousel.tasks.tag.task import Tag


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_loss_by_hand(settings, output):
    model, data = new_model(Tag, settings(output=output, train_scheme="iob2"))
    network = model.network.eval()
    batch = next(iter(ExampleBatches(data.train.store, sequences=4, shuffle=False)))
    loss = network.loss(batch)
    scores = network.output(network.encode(batch)).detach()
    total = 0.0
    for b, length in enumerate(batch.lengths.tolist()):
        gold = batch.labels[:length, b]
        if output == "softmax":
            total += float(F.cross_entropy(scores[:length, b], gold, reduction="sum"))
        else:  # by all taggings of a short one
            short = min(length, 4)
            part = scores[:short, b : b + 1]
            transitions, start, end = (part.detach() for part in network.crf.scores())
            every = {}
            for tags in itertools.product(range(len(network.tags)), repeat=short):
                score = start[tags[0]] + end[tags[-1]] + sum(part[t, 0, k] for t, k in enumerate(tags))
                every[tags] = score + sum(transitions[pair] for pair in itertools.pairwise(tags))
            expected = torch.logsumexp(torch.stack(list(every.values())), 0) - every[tuple(gold[:short].tolist())]
            torch.testing.assert_close(network.crf.loss(part, gold[:short, None])[0], expected, check_dtype=False)
            total += network.crf.loss(scores[:length, b : b + 1], gold[:, None]).item()
    assert loss.weight == int(batch.lengths.sum()) == int((batch.labels != NO_LABEL).sum())
    assert loss.mean.item() == pytest.approx(total / loss.weight, rel=1e-5)


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_training_adds_the_loss_of_the_neighbours(settings, output):
    given = {"output": output, "dropout": 0, "word_dropout": 0, "residual_layers": 1}
    model, data = new_model(Tag, settings(**given, lm_loss=0.5))
    network, batch = model.network, next(iter(ExampleBatches(data.train.store, sequences=4, shuffle=False)))
    neighbours = network.auxiliary(network.encode_below(batch), batch.tokens, batch.mask) / batch.lengths.sum()
    tags = network.eval().loss(batch).mean
    torch.testing.assert_close(network.train().loss(batch).mean, tags + 0.5 * neighbours)
    assert new_model(Tag, settings(**given, lm_loss=0))[0].network.auxiliary is None


@pytest.mark.parametrize("direction", [0, 1])
def test_no_direction_has_read_what_it_predicts(settings, direction):
    model, data = new_model(Tag, settings(dropout=0, word_dropout=0, residual_layers=1))
    network, batch = model.network, next(iter(ExampleBatches(data.train.store, sequences=4, shuffle=False)))
    read = []
    network.embedder.register_forward_hook(lambda module, args, out: read.append(out.requires_grad_()))
    t, b = 1, int(batch.lengths.argmax())
    network.encode_below(batch).unflatten(2, (2, -1))[t, b, direction].sum().backward(inputs=read)
    reached = read[0].grad.abs().sum(2)[:, b] > 0
    assert reached.any() and not reached[t + 1 if direction == 0 else t - 1]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_residual_layer_adds_to_what_it_reads(settings, bidirectional):
    model, data = new_model(Tag, settings(residual_layers=2, bidirectional=bidirectional))
    network, batch = model.network.eval(), next(iter(ExampleBatches(data.train.store, sequences=4, shuffle=False)))
    given = network.encode(batch)
    below, _ = network.layers(network.read(batch), lengths=batch.lengths)
    for b, length in enumerate(batch.lengths.tolist()):
        x = below[:length, b]
        for layer in network.residual:
            reference = torch.nn.LSTM(layer.input_size, layer.hidden_size, bidirectional=bidirectional)
            reference.load_state_dict(layer.state_dict())
            x = x + reference(x)[0]
        torch.testing.assert_close(given[:length, b], x)
        assert not given[length:, b].any()


def test_plain_tags_take_a_softmax_and_spans_a_crf(settings, tmp_path):
    assert new_model(Tag, settings())[0].network.crf is not None
    path = tmp_path / "pos.conll"
    path.write_text("a DET\ndog NOUN\n\n")
    network = new_model(Tag, settings(train=path, dev=None))[0].network
    assert network.crf is None and network.metric().best == "accuracy" and network.tags == ["DET", "NOUN"]


def test_given_vectors(settings, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("ada 1 2 3\nrome 4 5 6\nwhatever 7 8 9\n")
    model, data = new_model(Tag, settings(vectors=path, embedding=3, freeze_vectors=True))
    weight = model.network.embedder.embedder.weight
    assert weight[model.vocabulary.words.id("rome")].tolist() == [4, 5, 6]
    assert not weight.requires_grad
    assert f": 2 of {len(model.vocabulary.words)} tokens have one; " in data.info["word vectors"]
