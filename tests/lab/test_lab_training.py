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


def test_the_weights_of_one_gate(model):
    with torch.no_grad():
        STARTS["equal"](model)
        assert initialisation.different_weights(model) == 1
        model.layers.weight_ih_l0[7, 1:3] = torch.tensor([0.5, 0.7])
        model.layers.weight_ih_l0[8, 0] = 0.6  # another unit's: not counted with the others
        assert initialisation.different_weights(model) == 3


def test_equal_units_are_one_with_their_weights_added(model):
    with torch.no_grad():
        STARTS["equal"](model)
        model.layers.weight_ih_l0 += torch.randn(4)  # alike in all units, but not for all inputs
        model.output += torch.randn(len(model.output), 1)
        model.layers.weight_hh_l0.fill_(0.3)
        assert initialisation.from_one_unit(model) < 1e-5
        model.layers.weight_ih_l0[0] += 1
        assert initialisation.from_one_unit(model) > 0.01  # no longer alike


def starting(units=1, weights=16, equal=28.0):
    """Numbers of starts, alike with five seeds: units that differ, different weights of a gate, and perplexities."""
    ends = {"good": 9.0, "zero": 40.0, "equal": equal, "one": 35.0, "zero-layer": 10.0, "equal-layer": 10.0}
    rows = [
        {
            "start": name, "perplexity": end, "distinct": [1, units if name in ("zero", "equal") else 4],
            "weights": [1, weights if name == "equal" else 1],
        }
        for name, end in ends.items() for _ in range(5)
    ]  # fmt: skip
    cells = [{"label": "GRU", "most": {"zero": 1, "equal": 1}, "buffers": False}]
    return {"starts": rows, "cells": cells, "hidden": 4, "inputs": 16, "linear": 10.7, "seeds": [0, 1, 2, 3, 4]}


def test_units_stay_alike_and_weights_do_not():
    claims = {claim.key: claim for claim in initialisation.Initialisation.claims}
    alike = claims["alike"].verdict(starting())
    assert alike.short == "holds for units whose next layer begins alike too, not for all of their weights"
    assert claims["alike"].verdict(starting(weights=1)).short == "holds for layers whose next layer begins alike too"
    assert claims["alike"].verdict(starting(units=2)).short == "does not hold as printed"
    assert "They end below a single unit" in claims["linear"].verdict(starting()).reason
    assert "They end above a single unit" in claims["linear"].verdict(starting(equal=36.0)).reason


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
    assert "never differ by a single bit" in found.verdicts()["alike"].reason
    assert found.of("zero").weights == (1,) * 4  # no gradient reaches the layer
    assert found.of("equal").weights == (1, 16, 16, 16)  # the weights of one unit part, if not the units
    assert "if they begin as all 0 and have 16 different values after one update" in found.verdicts()["alike"].reason
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


STEPS = tuple(range(5, 105, 5))


def going(updates, perplexity):
    """A training whose loss is 3 at first and 2 after so many updates (never: inf); it ends at this perplexity."""
    losses = tuple(2.0 if step >= updates else 3.0 for step in STEPS)
    return Curve(STEPS, losses, (9.0, perplexity), math.isinf(perplexity))


def trained(seeds=5, **runs):
    """A finding in which each optimizer, by rate, takes so many updates and ends at a perplexity, with every seed."""
    every = [
        Trained(name, rate, (going(*one),) * seeds) for name, by_rate in runs.items() for rate, one in by_rate.items()
    ]
    return Optimizers(tuple(every), 100, 2, tuple(range(seeds)), 0.0)


AT = {
    "rmsprop": {0.01: (50, 3.0)},
    "adam": {0.01: (55, 3.1)},
    "sgd": {0.01: (math.inf, 9.0), 1.0: (90, 5.9)},
    "adadelta": {0.01: (100, 9.5), 1.0: (85, 4.0)},
}


def shorts(finding):
    return {key: verdict.short for key, verdict in finding.verdicts().items()}


def test_the_verdicts_by_hand():
    assert shorts(trained(**AT)) == {"fastest": "holds", "adam": "holds", "slow": "holds"}
    assert trained(**AT).best("sgd").rate == 1.0
    behind = shorts(trained(**{**AT, "adam": {0.01: (65, 3.1)}}))  # more than a little
    assert behind["adam"] == "does not hold as printed"
    at_one_rate = {**AT, "adadelta": {0.01: (100, 9.5), 30.0: (45, 2.9)}}
    assert shorts(trained(**at_one_rate))["fastest"] == "holds for a rate of 0.01 for all"
    assert shorts(trained(**at_one_rate))["slow"] == "holds for a rate of 0.01 for all"
    assert shorts(trained(**{**AT, "adam": {0.01: (45, 3.1)}}))["fastest"] == "does not hold as printed"
    assert shorts(trained(rmsprop={0.01: (50, 3.0)}))["fastest"] == "not decided by this run"
    assert shorts(trained(seeds=4, **AT))["fastest"] == "not decided by this run"
    found = trained(**AT)
    assert "SGD, momentum 0.9 not in 100" in found.verdicts()["slow"].reason
    assert "Adam takes 1.10 times the updates of RMSprop with a rate of 0.01 for all" in found.verdicts()["adam"].reason
    table = {row[0]: row[1:] for row in found.table(found.measured)[1]}
    assert table["SGD, momentum 0.9"] == ["not in 100", "9.00", "1", "90", "5.90"]
    diverged = trained(**{**AT, "sgd": {0.01: (math.inf, math.inf), 1.0: (90, 5.9)}})
    assert diverged.table(diverged.measured)[1][2][2] == "diverges"


def test_speed_is_counted_in_updates_not_by_where_a_training_ends():
    """RMSprop reaches the loss first and ends highest: it is the fastest all the same; and the other way round."""
    first = {**AT, "rmsprop": {0.01: (50, 20.0)}}
    assert shorts(trained(**first))["fastest"] == "holds"
    last = {**AT, "rmsprop": {0.01: (60, 2.0)}}
    assert shorts(trained(**last))["fastest"] == "does not hold as printed"


def test_what_did_not_get_far_enough_is_not_compared():
    """At 0.01 Adam and SGD do not reach RMSprop's loss, so that it is not known which of the two is slower."""
    updates = {"rmsprop": (80, 50), "adam": (math.inf, 55), "sgd": (math.inf, 100), "adadelta": (math.inf, 100)}
    late = {name: {0.01: (at, 20.0), 0.1: (own, 3.0)} for name, (at, own) in updates.items()}
    assert shorts(trained(**late)) == {
        "fastest": "holds",
        "adam": "holds for each optimizer's own best rate",  # 100 updates are more than 1.2 times 80
        "slow": "holds for each optimizer's own best rate",
    }
    late["rmsprop"][0.01] = (90, 20.0)  # 100 are less than 1.2 times 90
    assert shorts(trained(**late))["adam"] == "holds for each optimizer's own best rate"
    late["sgd"][0.1] = (60, 3.0)
    assert shorts(trained(**late))["slow"] == "not decided by this run"
    assert optimizers.slower(60, math.inf, 1.5, 100) is False
    assert optimizers.slower(math.inf, math.inf, 1.5, 100) is None


def test_where_seeds_disagree_nothing_is_decided():
    found = trained(**AT)
    two = going(45, 3.1)
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
    assert both.updates_to(2.5) == [10, 10] and both.updates_to(1.5) == [15, 10] and both.updates_to(1.0) == [None] * 2
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
