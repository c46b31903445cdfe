"""The network of the language model: its loss, padding, dropout, and the state that it carries."""

import pytest
import torch
import torch.nn.functional as F
from helpers.language_models import LINES, batch_of, gradients, ids_of, plain_log_probs

from carousel.data import END, START, TextBatch, Vocabulary
from carousel.networks.encoder import SequenceDropout
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.settings import LanguageSettings


def test_the_loss_is_the_mean_of_what_is_there(make):
    """Lines one by one, weighed by their tokens, give the loss and the gradient of the batch."""
    model = make()
    batch = batch_of(model, LINES)
    together = model.network.loss(batch)
    alone = [model.network.loss(batch_of(model, [line])) for line in LINES]
    assert together.weight == sum(loss.weight for loss in alone) == sum(len(line) + 1 for line in LINES)
    mean = sum(loss.mean * loss.weight for loss in alone) / together.weight
    torch.testing.assert_close(together.mean, mean)
    torch.testing.assert_close(gradients(model, together.mean), gradients(model, mean), rtol=1e-4, atol=1e-6)


def test_padding_has_no_effect(make):
    model = make()
    plain, padded = (model.network.loss(batch_of(model, LINES[:4], padding=n)).mean for n in (0, 9))
    torch.testing.assert_close(plain, padded)
    torch.testing.assert_close(gradients(model, plain), gradients(model, padded), rtol=1e-4, atol=1e-6)


def test_what_stands_in_the_padding_has_no_effect(make):
    model = make(tied=False)
    batch = batch_of(model, LINES[:4])
    other = TextBatch(
        torch.where(batch.targets > 0, batch.inputs, 5), batch.targets, batch.lengths, batch.rows, batch.tokens
    )
    torch.testing.assert_close(model.network.loss(batch).mean, model.network.loss(other).mean, rtol=0, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_label_smoothing_is_torchs(make, smoothing):
    model = make(label_smoothing=smoothing)
    batch = batch_of(model, LINES)
    x, _ = model.network.read(batch.inputs, None, batch.lengths)
    logits = (x @ model.network.output_weight.T + model.network.bias).flatten(0, 1)
    expected = F.cross_entropy(logits, batch.targets.flatten(), ignore_index=0, label_smoothing=smoothing)
    torch.testing.assert_close(model.network.loss(batch).mean, expected)


def test_a_state_is_carried_through_running_text(make):
    """Training windows, one after the other, lose what one unbroken pass loses."""
    model = make(layout="running", batch_size=1, bptt=6)
    text = make.path.read_text("utf-8")
    expected = plain_log_probs(model, ids_of(model, text))
    batches = model.settings.training_batches(model.settings.store(make.path, model.vocabulary))
    total = sum(loss.mean.item() * loss.weight for loss in map(model.network.loss, batches))
    assert total == pytest.approx(-sum(expected), rel=1e-5)
    again = sum(loss.mean.item() * loss.weight for loss in map(model.network.loss, batches))
    assert again == pytest.approx(total, rel=1e-6)  # the next epoch begins afresh
    kept = model.network.carried
    assert {part.requires_grad for part in kept.values()} == {False}
    other = make(layout="running")
    other.carried = kept
    torch.testing.assert_close(other.carried, kept, rtol=0, atol=0)


@pytest.mark.parametrize(("layout", "first"), [("running", START), ("sentences", END)])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_streams_begin_anew_in_training(make, monkeypatch, cell, layout, first):
    """All in the first batch, then some: with the first token, from the initial state. Others are as they were."""
    monkeypatch.setattr("carousel.tasks.lm.network.RESTARTS", 0.5)
    model = make(layout=layout, cell=cell, layers=2, batch_size=4, bptt=3)
    network, settings, seen = model.network.train(), model.settings, []
    network.embedder.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    network.layers.register_forward_pre_hook(lambda _, args: seen.append(args[1]))
    restarts = 0
    batches = list(settings.training_batches(settings.store(settings.source(make.path), model.vocabulary)))
    for number, batch in enumerate(batches):
        carried = network.carried
        network.loss(batch)
        inputs, state = seen[-2:]
        assert inputs[1:].equal(batch.inputs[1:])
        if number == 0:
            assert inputs[0].tolist() == [first] * 4
            assert state is None
            continue
        parts = state if isinstance(state, tuple) else (state,)
        for stream in range(4):
            anew = all(not part[:, stream].any() for part in parts)
            expected = first if anew else batch.inputs[0, stream].item()
            assert inputs[0, stream].item() == expected
            assert anew or all(part[:, stream].equal(carried[str(k)][:, stream]) for k, part in enumerate(parts))
            restarts += anew
    assert 0 < restarts < 4 * (len(batches) - 1)
    network.eval()
    network.loss(batches[0])
    assert seen[-2].equal(batches[0].inputs)  # evaluation reads what there is


def test_tokens_that_occur_once_are_sometimes_unknown_in_training(make):
    """One batch has one such token: its loss in training is that of the text, or of the text with [UNK] instead."""
    make.path.write_text("abba\nbaab\nabcab\n", "utf-8")  # c occurs once
    model = make(min_frequency=1, unknown_singletons=0.3)
    batch = batch_of(model, ["abcab"])
    plain, unknown = (model.network.loss(batch_of(model, [line])).mean.item() for line in ("abcab", "ab?ab"))
    assert abs(plain - unknown) > 1e-3
    model.network.train()
    torch.manual_seed(0)
    losses = torch.tensor([model.network.loss(batch).mean.item() for _ in range(400)])
    hidden = (losses - unknown).abs() < 1e-5
    assert bool((hidden | ((losses - plain).abs() < 1e-5)).all())
    assert 80 <= int(hidden.sum()) <= 160  # 120 of 400 expected; the standard deviation is 9


@pytest.mark.parametrize("bias", [None, 0.0, 2.5])
def test_the_forget_bias(bias):
    """Of torch's two biases together; the second quarter is the forget gate's."""
    settings = LanguageSettings(train="t", hidden=4, embedding=4, layers=2, forget_bias=bias)
    layers = LanguageNetwork(settings, LanguageAssets(Vocabulary.train(["ab"]))).layers
    for k in range(2):
        total = (getattr(layers, f"bias_ih_l{k}") + getattr(layers, f"bias_hh_l{k}"))[4:8]
        torch.testing.assert_close(total, torch.full((4,), 1.0 if bias is None else bias))


def test_tied_means_one_matrix(make):
    model = make(hidden=5)
    assert model.network.output_weight is model.network.embedder.weight
    assert "output" not in model.network.state_dict()
    assert make(tied=False).network.output_weight.shape == (len(model.vocabulary), 7)


def test_padding_is_the_zero_vector_and_stays_so(make):
    model = make(tied=False)
    assert not model.network.embedder(torch.tensor([0])).any()
    model.network.loss(batch_of(model, LINES)).mean.backward()
    assert not model.network.embedder.weight.grad[0].any()


def test_dropout_of_sequences():
    x = torch.ones(50, 4, 30)
    drop = SequenceDropout(0.4, variational=True)
    y = drop(x)
    assert torch.equal(y, y[:1].expand_as(y))  # one mask for all steps
    assert y.unique().tolist() == [0.0, pytest.approx(1 / 0.6, rel=1e-4)]
    plain = SequenceDropout(0.4)(x)
    assert not torch.equal(plain, plain[:1].expand_as(plain))
    assert plain.mean().item() == pytest.approx(1, abs=0.06)
    assert drop.eval()(x) is x


def test_hidden_tokens_are_hidden_at_every_place(make):
    model = make(embedding_dropout=0.5)
    model.network.train()
    vectors = model.network.embedder(torch.arange(4, len(model.vocabulary)).repeat(3, 1))
    assert torch.equal(vectors[0], vectors[1])
    hidden = ~vectors[0].any(-1)
    assert 0 < hidden.sum() < len(hidden)
