"""Sentence encoders as one."""

import numpy as np
import pytest
from helpers.ensembles import check_mean, check_spread


@pytest.mark.parametrize("ensemble", ["classes", "scores"], indirect=True)
def test_a_prediction_is_the_mean_of_the_members_predictions(ensemble):
    check_mean(ensemble)


@pytest.mark.parametrize("ensemble", ["classes", "scores"], indirect=True)
def test_the_evaluation_has_the_spread_of_the_members(ensemble):
    check_spread(ensemble)


@pytest.mark.parametrize("ensemble", ["classes", "scores"], indirect=True)
def test_vectors_of_texts_stand_side_by_side(ensemble):
    _, _, model, _ = ensemble
    np.testing.assert_allclose(model.embed("fine film"), np.concatenate([m.embed("fine film") for m in model.members]))
    assert model.embed([]).shape == (0, 24)
