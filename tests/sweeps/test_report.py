"""The page of a sweep: its axes."""

from pathlib import Path

import pytest
from helpers.pages import figures

from carousel.report import Page
from carousel.sweeps.report import _history
from carousel.sweeps.results import Sweep, Trial
from carousel.sweeps.space import Choices


@pytest.mark.parametrize(("values", "axis"), [((0.5, 0.5), [0, 0.75]), ((0.5, 0.75), None)])
def test_the_axis_of_equal_values_begins_at_nought(values, axis):
    trials = [Trial(k, "complete", value, {"hidden": 4}, Path(str(k)), 1.0, None) for k, value in enumerate(values)]
    page = Page("sweep")
    _history(page, Sweep(Path("sweep"), "lm", "accuracy", False, {"hidden": Choices((4, 6))}, trials), "accuracy")
    [drawn] = figures(page.html())
    assert drawn["layout"]["yaxis"].get("range") == axis
