"""A small language model: against plain SGD by hand."""

import math

import pytest
import torch

from carousel.data import Vocabulary
from carousel.lab.claims.initialisation import STARTS
from carousel.lab.learning import corpus
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.lm.task import LanguageTask


@pytest.fixture
def model():
    settings = LanguageSettings(train="-", hidden=6, embedding=4, tied=False)
    return LanguageNetwork(settings, LanguageAssets(Vocabulary.train(["abcde"])))


@pytest.mark.learning
def test_a_training_goes_as_by_hand():
    """Plain SGD on every weight, batch after batch."""
    with corpus(128, seed=3) as dates:
        model, curve = dates.train(STARTS["equal"], optimizer="sgd", lr=0.5, clip=0, epochs=1, log_steps=1, seed=4)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            assets, data = LanguageTask.prepare(model.settings)
            twin = LanguageTask.make_network(model.settings, assets)
        data.train.set_epoch(0)
        batches = list(data.train)
    with torch.no_grad():
        STARTS["equal"](twin)
    losses = []
    for batch in batches:
        twin.zero_grad()
        loss = twin.loss(batch).mean
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for weight in twin.parameters():
                weight -= 0.5 * weight.grad
    assert curve.steps == (1, 2)
    assert curve.losses == pytest.approx(losses, rel=1e-4)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight, twin.get_parameter(name), atol=1e-5, rtol=1e-4)


def test_a_training_that_diverges_says_so():
    with corpus(64, seed=0) as dates:
        _, curve = dates.train(lambda model: model.output.fill_(math.nan), epochs=1)
    assert curve.diverged
    assert curve.perplexity == math.inf
