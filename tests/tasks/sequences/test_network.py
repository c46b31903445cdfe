"""Numbers as targets."""

import numpy as np
import pytest
from helpers.waves import SMALL

import carousel
from carousel.errors import SettingsError


def test_numbers_as_targets(tmp_path):
    draw = np.random.default_rng(0)
    data = [(x, 10 + 3 * x.mean()) for x in draw.normal(size=(60, 6)) + draw.normal(size=(60, 1))]
    model = carousel.train("sequences", data, out=tmp_path / "run", target="number", pooling="mean", **SMALL)
    assert carousel.evaluate(model, data)["r2"] > 0.8
    assert abs(model.predict(data[0][0]).number - data[0][1]) < 3
    for name, value in (("class_weights", "balanced"), ("label_smoothing", 0.1)):
        with pytest.raises(SettingsError, match=f"{name}: numbers have no classes"):
            carousel.train("sequences", data, out=tmp_path / "no", target="number", **{name: value})
    assert not (tmp_path / "no").exists()
