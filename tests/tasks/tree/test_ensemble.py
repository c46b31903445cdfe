"""Models of trees as one."""

import pytest
from helpers.ensembles import check_mean, check_spread


@pytest.mark.parametrize("ensemble", ["tree"], indirect=True)
def test_a_prediction_is_the_mean_of_the_members_predictions(ensemble):
    check_mean(ensemble)


@pytest.mark.parametrize("ensemble", ["tree"], indirect=True)
def test_the_evaluation_has_the_spread_of_the_members(ensemble):
    check_spread(ensemble)
