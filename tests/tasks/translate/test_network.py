"""The translator's network: step by step, in training and in search; its loss; runs that are resumed."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from helpers.translators import ATTENTIONS, BATCH, batch_of, spread, teacher_forced, untrained

from carousel.cells import registry
from carousel.data import PAD
from carousel.tasks.translate.task import Translate


def one_by_one(network, batch):
    """Vectors and weights of each step, all sequences at every one, by the layers' own step."""
    memory, state = network.encode(batch.source, batch.source_lengths)
    decoder = network.decoder
    carried = decoder.begin(state, batch.inputs.shape[1])
    for tokens in batch.inputs:
        x, each = network.target_embedder(tokens), torch.ones_like(tokens)
        if decoder.kind == "bahdanau":
            context, weights = decoder.attention.attend(carried, memory.memory, each)
            carried, state = decoder.layers.step(torch.cat((x, context), 1), state)
            yield torch.tanh(decoder.join(torch.cat((context, carried), 1))), weights
            continue
        y, state = decoder.layers.step(x if carried is None else torch.cat((x, carried), 1), state)
        vectors, weights = decoder.attend(y, memory, each)
        carried = None if carried is None else vectors
        yield vectors, weights


DECODERS = [{}, {"input_feeding": True}, {"decoder": "bahdanau"}]
STEPPED = [
    {}, {"cell": "gru", "layers": 2, "init": "last"}, {"bidirectional": False}, {"input_feeding": True},
    {"input_feeding": True, "cell": "gru", "layers": 2}, {"input_feeding": True, "cell": "layernorm", "init": "zeros"},
    {"decoder": "bahdanau"}, {"decoder": "bahdanau", "cell": "gru", "layers": 2, "init": "zeros"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("attention", "given"),
    [
        (kind, given)
        for kind in ATTENTIONS
        for given in STEPPED
        if kind != "none" or not {"input_feeding", "decoder"} & given.keys()
    ],
)
def test_all_steps_at_once_are_the_steps_one_by_one(attention, given):
    network = untrained(attention=attention, **given).network.double()
    batch = batch_of(*BATCH)
    vectors, weights = teacher_forced(network, batch)
    losses = [vectors.new_zeros(()), vectors.new_zeros(())]
    for t, (vector, seen) in enumerate(one_by_one(network, batch)):
        real = t < batch.lengths
        mine, right = vectors[t, real], network.output_input(vector)[real]
        torch.testing.assert_close(mine, right)
        assert (seen is None) == (attention == "none")
        if seen is not None:
            torch.testing.assert_close(weights[t, real], seen[real])
        factor = torch.randn_like(mine)
        losses = [loss + (found * factor).sum() for loss, found in zip(losses, (mine, right), strict=True)]
    parameters = list(network.parameters())
    found, right = (torch.autograd.grad(loss, parameters, allow_unused=True) for loss in losses)
    for a, b in zip(found, right, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "given",
    [
        *({"cell": cell, **given} for cell in sorted(registry()) for given in DECODERS),
        *({"attention": attention} for attention in ATTENTIONS),
    ],
    ids=lambda given: " ".join(map(str, given.values())),
)
@pytest.mark.parametrize("copies", [1, 7])
def test_the_search_sees_what_training_sees(given, copies):
    """Log-probabilities of a pair by the stepper, token by token, and by the loss."""
    network = untrained(**given, tied="none").network
    for one in BATCH:
        batch = batch_of(one)
        stepper = network.stepper(batch.source, batch.source_lengths)
        rows, found = stepper.select(stepper.start(1), torch.zeros(copies, dtype=torch.int64)), []
        for token, target in zip(batch.inputs[:, 0], batch.targets[:, 0], strict=True):
            log_probs, rows = stepper.step(token.expand(copies), rows)
            found.append(log_probs[copies // 2, target])
            rows = stepper.select(rows, torch.arange(copies) // 2)
        assert network.settings.label_smoothing == 0.1
        vectors, _ = teacher_forced(network, batch)
        logits = F.linear(vectors[:, 0], network.output_weight, network.bias)
        expected = -F.cross_entropy(logits, batch.targets[:, 0], reduction="none")
        torch.testing.assert_close(torch.stack(found), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("given", DECODERS, ids=str)
def test_teachers_and_the_model_itself(given):
    network = untrained(**given).network.double()
    batch = batch_of(*BATCH)
    torch.testing.assert_close(network.scheduled_sampling(batch, 1.0)[0], network(batch)[0])
    # without a teacher, a step reads the most probable token: the same as the true ones being those
    free, targets = network.scheduled_sampling(batch, 0.0)
    own = spread(batch, F.linear(free, network.output_weight, network.bias)).argmax(2)
    as_true = replace(batch, inputs=torch.cat((batch.inputs[:1], own[:-1])))
    torch.testing.assert_close(network(as_true)[0], free)
    assert targets.tolist() == [target for row in batch.targets.T.tolist() for target in row if target != PAD]


@pytest.mark.parametrize("tied", ["none", "output", "all"])
def test_the_loss_is_cross_entropy(tied):
    network = untrained(tied=tied, shared=True, label_smoothing=0.2).network
    batch = batch_of(*BATCH)
    loss = network.loss(batch)
    vectors, _ = teacher_forced(network, batch)
    logits = F.linear(vectors, network.output_weight, network.bias).flatten(0, 1)
    expected = F.cross_entropy(logits, batch.targets.flatten(), ignore_index=PAD, label_smoothing=0.2)
    torch.testing.assert_close(loss.mean, expected)
    assert loss.weight == batch.tokens == 9
    one_matrix = network.source_embedder.weight is network.target_embedder.weight
    assert (one_matrix, network.output_weight is network.target_embedder.weight) == (tied == "all", tied != "none")


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("given", DECODERS, ids=str)
def test_every_parameter_learns(attention, given):
    if attention == "none" and given:
        pytest.skip("nothing to feed")
    network = untrained(attention=attention, **given, teacher_forcing=0.5 if given else 1.0).network
    network.loss(batch_of(*BATCH)).mean.backward()
    still = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert still == []


def test_neighbours_do_not_matter_in_training():
    network = untrained().network.double()
    vectors, weights = teacher_forced(network, batch_of(*BATCH))
    for k, one in enumerate(BATCH):
        alone, seen = teacher_forced(network, batch_of(one))
        torch.testing.assert_close(vectors[: len(alone), k], alone[:, 0])
        torch.testing.assert_close(weights[: len(alone), k, : seen.shape[2]], seen[:, 0])


@pytest.mark.parametrize("given", DECODERS, ids=str)
def test_a_run_goes_on_where_it_was_killed(settings, goes_on, given):
    noisy = settings(
        dropout=0.3, average=0.9, schedule="cosine", epochs=2, batch_size=64, **given,
        teacher_forcing=1.0, teacher_forcing_end=0.5 if given else 1.0,
    )  # fmt: skip
    goes_on(Translate, noisy)
