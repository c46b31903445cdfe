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
from carousel.lab.claims.saddle import constant_gradients
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
    found = lab.initialisation(["rnn", "peephole", "gru"], hidden=4, lines=192, epochs=1, seeds=1)
    assert found.cells == {cell: {"zero": 1, "equal": 1} for cell in ("rnn", "peephole", "gru")}
    assert found.of("good").distinct == (4,) * 4  # before each of three updates, and after
    assert found.of("equal-layer").distinct[:2] == (1, 4)
    assert found.of("huge").saturated > 0.5 > found.of("tiny").saturated == 0
    assert "never more than 1 different" in found.verdicts()["alike"].reason
    assert found.verdicts()["alike"].short == "not decided by this run"  # it takes five seeds
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


def trained(seeds=5, **perplexities):
    """A finding in which each optimizer ends at these perplexities, by rate, with every seed."""
    runs = [
        Trained(name, rate, (Curve((5, 10), (3.0, math.log(p)), (9.0, p), False),) * seeds)
        for name, by_rate in perplexities.items()
        for rate, p in by_rate.items()
    ]
    return Optimizers(tuple(runs), 100, 2, tuple(range(seeds)), 0.0)


AT = {"rmsprop": {0.01: 3.0}, "adam": {0.01: 3.1}, "sgd": {0.01: 9.0, 1.0: 5.9}, "adadelta": {0.01: 9.5, 1.0: 4.0}}


def shorts(finding):
    return {key: verdict.short for key, verdict in finding.verdicts().items()}


def test_the_verdicts_by_hand():
    assert shorts(trained(**AT)) == {"fastest": "holds", "adam": "holds", "slow": "holds"}
    assert trained(**AT).best("sgd").rate == 1.0
    behind = shorts(trained(**{**AT, "adam": {0.01: 6.62}}))  # more than a little
    assert behind["adam"] == "does not hold as printed"
    at_one_rate = {**AT, "adadelta": {0.01: 9.5, 30.0: 2.9}}
    assert shorts(trained(**at_one_rate))["fastest"] == "holds for a rate of 0.01 for all"
    assert shorts(trained(**at_one_rate))["slow"] == "holds for a rate of 0.01 for all"
    assert shorts(trained(**{**AT, "adam": {0.01: 2.9}}))["fastest"] == "does not hold as printed"
    assert shorts(trained(rmsprop={0.01: 3.0}))["fastest"] == "not decided by this run"
    assert shorts(trained(seeds=4, **AT))["fastest"] == "not decided by this run"
    diverged = trained(**{**AT, "sgd": {0.01: math.inf, 1.0: 5.9}})
    assert "SGD, momentum 0.9 diverges" in diverged.verdicts()["slow"].reason


def test_where_seeds_disagree_nothing_is_decided():
    found = trained(**AT)
    two = Curve((5, 10), (3.0, math.log(2.9)), (9.0, 2.9), False)
    runs = [
        one if one.optimizer != "adam" else Trained("adam", one.rate, (two, *one.curves[1:])) for one in found.trained
    ]
    verdict = Optimizers(tuple(runs), 100, 2, found.seeds, 0.0).verdicts()["fastest"]
    assert verdict.short == "not decided by this run"
    assert "4 of 5" in verdict.reason


def test_rmsprop_is_pytorchs_and_not_the_printed_formula():
    by_hand = [(-0.3245, -0.3245), (-0.3244, -0.2649), (-0.3031, -0.0005)]
    for row, (ours, printed) in zip(constant_gradients(), by_hand, strict=True):
        assert (row["torch"], row["report"]) == pytest.approx((ours, printed), abs=6e-5)


def test_means_over_seeds_leave_out_what_diverged():
    one = Curve((5, 10, 15), (3.0, 2.0, 1.0), (7.0, 5.0), False)
    two = Curve((5, 10, 15), (3.0, 1.0, 1.0), (7.0, 3.0), False)
    both = Trained("adam", 0.01, (one, two))
    assert both.perplexities == [5.0, 3.0]
    assert both.curve.losses == (3.0, 1.5, 1.0)
    lost = Trained("sgd", 1.0, (one, Curve((5,), (9.0,), (), True)))
    assert lost.perplexities == [5.0, None]
    assert lost.curve.losses == one.losses


@pytest.mark.learning
def test_four_optimizers_are_run(tmp_path):
    found = lab.optimizers([0.05], lines=64, epochs=1, seeds=1)
    assert [(one.optimizer, one.rate) for one in found.trained] == [
        (name, rate) for name in OPTIMIZERS for rate in (0.01, 0.05)
    ]
    ends = {one.perplexities[0] for one in found.trained}
    assert len(ends) == 8  # no two are the same training
    page = found.write(tmp_path / "page").read_text("utf-8")
    assert "hold?" in page
    assert {p.stem for p in (tmp_path / "page").glob("*.svg")} == {"loss", "rates"}
    with pytest.raises(ValueError, match="rates must be numbers above 0"):
        lab.optimizers([0.0])
    with pytest.raises(ValueError, match="seeds must be a whole number from 1 up"):
        optimizers.run(seeds=0)
