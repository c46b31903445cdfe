"""Weights that begin alike: units and losses worked out by hand."""

import json
import math

import pytest
import torch

from carousel import lab
from carousel.data import Vocabulary
from carousel.lab.claims import initialisation
from carousel.lab.claims.initialisation import STARTS, different_units
from carousel.lab.learning import corpus
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.settings import LanguageSettings


@pytest.fixture
def model():
    settings = LanguageSettings(train="-", hidden=6, embedding=4, tied=False)
    return LanguageNetwork(settings, LanguageAssets(Vocabulary.train(["abcde"])))


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
