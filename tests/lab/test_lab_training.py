"""Labs that compare trainings: against losses and units worked out by hand."""

import json
import math

import pytest
import torch

from carousel import lab
from carousel.data import Vocabulary
from carousel.lab.claims import initialisation, optimizers
from carousel.lab.claims.initialisation import STARTS, different_units
from carousel.lab.claims.optimizers import OPTIMIZERS, Optimizers, Trained
from carousel.lab.learning import Curve, corpus
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.lm.task import LanguageTask


@pytest.fixture
def model():
    settings = LanguageSettings(train="-", hidden=6, embedding=4, tied=False)
    return LanguageNetwork(settings, LanguageAssets(Vocabulary.train(["abcde"])))


# ---------------------------------------------------------------- learning


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


# ---------------------------------------------------------------- initialisation


def test_units_that_differ_by_a_bit_are_two(model):
    assert different_units(model) == 6
    with torch.no_grad():
        STARTS["equal"](model)
        assert different_units(model) == 1
        hears = model.layers.weight_hh_l0[:, 2]  # unit 0 hears unit 2 otherwise: both differ from the rest
        for weight, count in ((model.layers.weight_ih_l0[7], 2), (hears, 3)):
            kept = weight[0].clone()
            weight[0] = torch.nextafter(kept, torch.tensor(1.0))
            assert different_units(model) == count
            weight[0] = kept
        assert different_units(model) == 1


def test_gates_that_are_stuck(model):
    with torch.no_grad():
        for parameter in model.layers.parameters():
            parameter.zero_()
        assert initialisation.saturation(model) == 0  # all are ½
        model.layers.bias_ih_l0[:6] = 10  # i, of i f o
        assert initialisation.saturation(model) == pytest.approx(1 / 3)


@pytest.mark.learning
def test_units_that_begin_alike_stay_alike_and_others_part(tmp_path):
    found = lab.initialisation(["rnn", "peephole", "gru"], hidden=4, lines=192, epochs=1)
    assert found.alike
    assert found.cells == {cell: {"zero": 1, "equal": 1} for cell in ("rnn", "peephole", "gru")}
    assert found.of("good").distinct == (4,) * 4  # before each of three updates, and after
    assert found.of("equal-layer").distinct[:2] == (1, 4)
    assert found.of("huge").saturated > 0.5 > found.of("tiny").saturated == 0
    assert found.verdict().stands is False
    page = found.write(tmp_path / "page").read_text("utf-8")
    assert "hold?" in page
    numbers = json.loads((tmp_path / "page" / "numbers.json").read_text("utf-8"))
    assert [one["start"] for one in numbers["starts"]] == list(STARTS)
    assert "units that ever differ" in str(found)
    with pytest.raises(ValueError, match=r"cells must be some of rnn, .*; got lstn"):
        lab.initialisation(["lstn"])
    with pytest.raises(ValueError, match="hidden must be a whole number from 1 up"):
        lab.initialisation(hidden=0)


def test_the_first_loss_from_zeros_is_that_of_chance():
    with corpus(64, seed=1) as dates:
        model, curve = dates.train(STARTS["zero"], epochs=1, log_steps=1)
    assert curve.losses[0] == pytest.approx(math.log(len(model.embedder.weight)), rel=1e-5)


# ---------------------------------------------------------------- optimizers


def made(**perplexities):
    """A finding in which each optimizer ends at these perplexities, by rate."""
    trained = [
        Trained(name, rate, (Curve((5, 10), (3.0, math.log(p)), (9.0, p), False),))
        for name, found in perplexities.items()
        for rate, p in found.items()
    ]
    return Optimizers(tuple(trained), 100, 2, (0,), 0.0)


def test_the_verdict_by_hand():
    at = {"rmsprop": {0.01: 3.0}, "adam": {0.01: 3.1}, "sgd": {0.01: 9.0, 1.0: 2.9}, "adadelta": {0.01: 9.5, 1.0: 3.0}}
    found = made(**at)
    assert found.verdict().stands is True
    assert found.best("sgd").rate == 1.0
    assert "That is the text's order. Each" in found.verdict().says
    assert "more than a little behind" in made(**{**at, "adam": {0.01: 5.0}}).verdict().says
    assert "SGD, momentum 0.9 2.90 at 1" in found.verdict().says
    assert made(**{**at, "adam": {0.01: 2.9}}).verdict().stands is False
    assert made(**{**at, "sgd": {0.01: 3.0}}).verdict().stands is False
    assert made(rmsprop={0.01: 3.0}).verdict().stands is None


def test_updates_to_a_goal_and_means_over_seeds():
    one = Curve((5, 10, 15), (3.0, 2.0, 1.0), (7.0, 5.0), False)
    two = Curve((5, 10, 15), (3.0, 1.0, 1.0), (7.0, 3.0), False)
    both = Trained("adam", 0.01, (one, two))
    assert both.perplexity == 4
    assert both.curve.losses == (3.0, 1.5, 1.0)
    assert both.updates_to(1.6) == 10
    assert both.updates_to(0.9) is None
    lost = Trained("sgd", 1.0, (one, Curve((5,), (9.0,), (), True)))
    assert lost.perplexity == math.inf
    assert lost.curve.losses == one.losses


@pytest.mark.learning
def test_four_optimizers_are_run(tmp_path):
    found = lab.optimizers([0.05], lines=64, epochs=1, seeds=1)
    assert [(one.optimizer, one.rate) for one in found.trained] == [
        (name, rate) for name in OPTIMIZERS for rate in (0.01, 0.05)
    ]
    ends = {one.perplexity for one in found.trained}
    assert len(ends) == 8  # no two are the same training
    page = found.write(tmp_path / "page").read_text("utf-8")
    assert "hold?" in page
    assert {p.stem for p in (tmp_path / "page").glob("*.svg")} == {"loss", "rates"}
    with pytest.raises(ValueError, match="rates must be numbers above 0"):
        lab.optimizers([0.0])
    with pytest.raises(ValueError, match="seeds must be a whole number from 1 up"):
        optimizers.run(seeds=0)
